//! RFCOMM frames (RFCOMM 1.2 on TS 07.10 basic option).

/// Type of an RFCOMM frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RfcommKind {
    /// Opens a channel.
    Sabm,
    /// Accepts a channel.
    Ua,
    /// Refuses, or reports that the channel is not connected.
    Dm,
    /// Closes a channel.
    Disc,
    /// Carries data.
    Uih,
}

/// RFCOMM frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RfcommFrame<'a> {
    /// Type.
    pub kind: RfcommKind,
    /// Channel and direction; 0 is the multiplexer's own.
    pub dlci: u8,
    /// Number of further frames that the receiver may send, where given.
    pub credits: Option<u8>,
    /// Payload.
    pub payload: &'a [u8],
}

/// Parses a frame; `None` unless lengths and check sequence agree.
///
/// Credits are assumed to be in use (RFCOMM 1.2, section 6.5), as in all devices since Bluetooth
/// 1.1.
pub fn rfcomm(data: &[u8]) -> Option<RfcommFrame<'_>> {
    let (address, control, length) = (*data.first()?, *data.get(1)?, *data.get(2)?);
    if address & 1 == 0 {
        return None;
    }
    let (kind, checked) = match control & !0x10 {
        0x2f => (RfcommKind::Sabm, true),
        0x63 => (RfcommKind::Ua, true),
        0x0f => (RfcommKind::Dm, true),
        0x43 => (RfcommKind::Disc, true),
        0xef => (RfcommKind::Uih, false),
        _ => return None,
    };
    let (length, mut at) = if length & 1 == 1 {
        (usize::from(length >> 1), 3)
    } else {
        let high = usize::from(*data.get(3)?);
        (high << 7 | usize::from(length >> 1), 4)
    };
    // The check sequence covers the header; for frames with data, only its first two octets.
    let covered = data.get(..if checked { at } else { 2 })?;
    let dlci = address >> 2;
    let mut credits = None;
    if kind == RfcommKind::Uih && control & 0x10 != 0 && dlci != 0 {
        credits = Some(*data.get(at)?);
        at += 1;
    }
    let payload = data.get(at..at.checked_add(length)?)?;
    let fcs = *data.get(at + length)?;
    if data.len() != at + length + 1 || fcs != check(covered) {
        return None;
    }
    Some(RfcommFrame {
        kind,
        dlci,
        credits,
        payload,
    })
}

/// Check sequence of TS 07.10, annex B: x^8 + x^2 + x + 1, reflected and inverted.
fn check(data: &[u8]) -> u8 {
    !data.iter().fold(0xff_u8, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xe0
            } else {
                crc >> 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a real SPP session: "\x03" credits, "022101\r".
    #[test]
    fn a_frame_with_credits_is_read() {
        let data = b"\x0b\xff\x0f\x03\x30\x32\x32\x31\x30\x31\x0d\x86";
        let frame = rfcomm(data).unwrap();
        assert_eq!(frame.kind, RfcommKind::Uih);
        assert_eq!(frame.dlci, 2);
        assert_eq!(frame.credits, Some(3));
        assert_eq!(frame.payload, b"022101\r");
        for i in 0..2 {
            let mut bad = *data;
            bad[i] ^= 0x40;
            assert_eq!(rfcomm(&bad), None, "a wrong octet {i}");
        }
        for end in 0..data.len() {
            assert_eq!(rfcomm(&data[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn opening_frames_are_checked_as_a_whole() {
        // SABM on channel 0, as every session begins.
        let frame = rfcomm(&[0x03, 0x3f, 0x01, 0x1c]).unwrap();
        assert_eq!((frame.kind, frame.dlci), (RfcommKind::Sabm, 0));
        assert_eq!(rfcomm(&[0x03, 0x3f, 0x01, 0x1d]), None);
    }
}
