//! Network packets in 802.11 data frames (IEEE 802.11-2020, sections 9.2 and 9.3.2).

use crate::network::{Network, packet};
use crate::source::u16_at;

use super::frame::{Frame, FrameKind};

/// Subtype bits of data frames.
const NO_DATA: u8 = 0x4;
const QOS: u8 = 0x8;
/// Bits of the second octet.
const TO_AND_FROM_SYSTEM: u8 = 0x3;
const PROTECTED: u8 = 0x40;
const HT_CONTROL: u8 = 0x80;
/// QoS field bit: several packets in one frame (A-MSDU).
const AGGREGATE: u8 = 0x80;
/// LLC and SNAP headers before an EtherType (RFC 1042, and those written by bridges).
const SNAP: [[u8; 6]; 2] = [[0xaa, 0xaa, 3, 0, 0, 0], [0xaa, 0xaa, 3, 0, 0, 0xf8]];
/// Maximum number of packets in a frame; more are damage.
const MAX_PACKETS: usize = 64;

/// The frame is encrypted: its contents are not visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed;

/// Packets in a frame: one in most data frames, none in all others, several in an A-MSDU.
///
/// # Errors
/// When the frame is encrypted.
pub fn packets<'a>(frame: &Frame<'a>) -> Result<Vec<Network<'a>>, Sealed> {
    let (Some(&[control, flags]), FrameKind::Data) = (frame.data.first_chunk(), frame.kind) else {
        return Ok(Vec::new());
    };
    let subtype = control >> 4;
    if subtype & NO_DATA != 0 {
        return Ok(Vec::new());
    }
    if flags & PROTECTED != 0 {
        return Err(Sealed);
    }
    let mut header = 24;
    if flags & TO_AND_FROM_SYSTEM == TO_AND_FROM_SYSTEM {
        header += 6;
    }
    let mut aggregate = false;
    if subtype & QOS != 0 {
        aggregate = frame.data.get(header).is_some_and(|q| q & AGGREGATE != 0);
        header += 2;
        if flags & HT_CONTROL != 0 {
            header += 4;
        }
    }
    // Some drivers align the body to four octets.
    let padded = header.next_multiple_of(4);
    let on_air = frame.bytes as usize;
    let mut found = Vec::new();
    if !aggregate {
        let at = [header, padded].map(|at| inside(frame.data, at, on_air));
        found.extend(at.into_iter().flatten().next());
        return Ok(found);
    }
    // Each subframe: two addresses, a length, and padding to a multiple of four octets.
    let mut at = header;
    while found.len() < MAX_PACKETS
        && let Some(head) = frame.data.get(at..at + 14)
    {
        let length = usize::from(u16_at(head, 12, true));
        found.extend(inside(frame.data, at + 14, (at + 14 + length).min(on_air)));
        at = (at + 14 + length - header).next_multiple_of(4) + header;
    }
    Ok(found)
}

/// Packet after the LLC and SNAP header at `at`; on the air it went up to `end`.
fn inside(data: &[u8], at: usize, end: usize) -> Option<Network<'_>> {
    let head = data.get(at..at + 8)?;
    if !SNAP.iter().any(|snap| head.starts_with(snap)) {
        return None;
    }
    let body = data.get(at + 8..end.min(data.len()))?;
    let on_air = end.checked_sub(at + 8)?;
    Some(packet(
        body,
        Some(u16_at(head, 6, true)),
        on_air as u32,
        None,
    ))
}
