//! 802.11 frames with radiotap headers or bare (IEEE 802.11-2020, section 9.2; radiotap.org).

use std::hash::{DefaultHasher, Hasher};

use crate::record::{LinkType, Record};
use crate::source::{u16_at, u32_at};

/// Maximum number of octets that identify a frame.
pub(super) const HASHED: usize = 160;

/// Mask of the protocol version in frame control.
const VERSION: u8 = 3;

/// Kind of a frame, as far as matching needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Beacon: unique by the sender's clock in it.
    Beacon,
    /// Other management frame.
    Management,
    /// Data frame.
    Data,
    /// ACK or CTS: nothing in it distinguishes it from the next.
    Anonymous,
    /// Other control frame.
    Control,
}

/// 802.11 frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Kind.
    pub kind: FrameKind,
    /// Retry bit: the frame is a retransmission.
    pub retry: bool,
    /// The sniffer's own clock in µs, if recorded.
    pub tsft_us: Option<u64>,
    /// Whether the sniffer found the check sequence wrong, or the version is not 0: then the rest
    /// cannot be read (IEEE 802.11-2020, 9.2.4.1.2) and is usually noise.
    pub damaged: bool,
    /// Octets from frame control on, without the check sequence.
    pub data: &'a [u8],
    /// Check sequence, if recorded.
    pub check: Option<[u8; 4]>,
    /// Length on the air, without the check sequence.
    pub bytes: u32,
    /// Receiver address.
    pub receiver: Option<[u8; 6]>,
    /// Transmitter address, if the frame has one.
    pub transmitter: Option<[u8; 6]>,
    /// Sequence and fragment number of management and data frames.
    pub sequence: Option<u16>,
}

/// 802.11 frame of a record; `None` when its link type is another, or it is too short.
pub fn frame<'a>(record: &Record<'a>) -> Option<Frame<'a>> {
    let (head, mut data) = match record.link_type {
        LinkType::IEEE802_11 => (Radiotap::default(), record.data),
        LinkType::RADIOTAP => {
            let head = radiotap(record.data)?;
            (head, record.data.get(head.length..)?)
        }
        _ => return None,
    };
    let mut bytes = record.original_bytes.checked_sub(head.length as u32)?;
    let mut check = None;
    if head.flags & Radiotap::FCS != 0 {
        bytes = bytes.checked_sub(4)?;
        let kept = data.len();
        if kept as u64 == u64::from(bytes) + 4 {
            let (front, back) = data.split_at(kept - 4);
            check = <[u8; 4]>::try_from(back).ok();
            data = front;
        } else {
            data = data.get(..kept.min(bytes as usize))?;
        }
    }
    let control = *data.first()?;
    let flags = *data.get(1)?;
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    let kind = match (kind, subtype) {
        (0, 8) => FrameKind::Beacon,
        (0, _) => FrameKind::Management,
        (1, 12 | 13) => FrameKind::Anonymous,
        (1, _) => FrameKind::Control,
        (2, _) => FrameKind::Data,
        _ => return None,
    };
    let address = |at: usize| <[u8; 6]>::try_from(data.get(at..at + 6)?).ok();
    let numbered = !matches!(kind, FrameKind::Anonymous | FrameKind::Control);
    let sequence = (numbered && data.len() >= 24).then(|| u16_at(data, 22, false));
    if numbered && sequence.is_none() {
        return None;
    }
    Some(Frame {
        kind,
        retry: flags & 0x08 != 0,
        tsft_us: head.tsft_us,
        damaged: head.flags & Radiotap::BAD_FCS != 0 || control & VERSION != 0,
        data,
        check,
        bytes,
        receiver: address(4),
        transmitter: if kind == FrameKind::Anonymous {
            None
        } else {
            address(10)
        },
        sequence,
    })
}

impl Frame<'_> {
    /// Number of octets kept, where a snap length cut the frame.
    pub(super) fn cut_to(&self) -> Option<usize> {
        (self.data.len() < self.bytes as usize).then_some(self.data.len())
    }

    /// Identity by its length and its first `octets` octets, which all sniffers must have kept:
    /// equal for all copies of one transmission, and for transmissions of the same octets, which
    /// only time distinguishes. The check sequence distinguishes more where contents were
    /// anonymized, but all sniffers must have recorded it.
    pub(super) fn identity(&self, octets: usize, with_check: bool) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u32(self.bytes);
        hasher.write(self.data.get(..octets).unwrap_or(self.data));
        if let (true, Some(check)) = (with_check, self.check) {
            hasher.write(&check);
        }
        hasher.finish()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Radiotap {
    length: usize,
    tsft_us: Option<u64>,
    flags: u8,
}

impl Radiotap {
    /// Flag: the check sequence is present.
    const FCS: u8 = 0x10;
    /// Flag: the check sequence is wrong.
    const BAD_FCS: u8 = 0x40;
}

fn radiotap(data: &[u8]) -> Option<Radiotap> {
    if *data.first()? != 0 {
        return None;
    }
    let length = usize::from(u16_at(data, 2, false));
    let head = data.get(..length)?;
    let present = u32_at(head.get(..8)?, 4, false);
    // Bit 31 of each word: another one follows.
    let (mut at, mut word) = (8, present);
    while word & 1 << 31 != 0 {
        word = u32_at(head.get(..at + 4)?, at, false);
        at += 4;
    }
    let mut found = Radiotap {
        length,
        ..Radiotap::default()
    };
    if present & 1 != 0 {
        at = at.next_multiple_of(8);
        let eight = <[u8; 8]>::try_from(head.get(at..at + 8)?).ok()?;
        found.tsft_us = Some(u64::from_le_bytes(eight));
        at += 8;
    }
    if present & 2 != 0 {
        found.flags = *head.get(at)?;
    }
    Some(found)
}
