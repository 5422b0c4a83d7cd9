//! Frames: what follows the Ethernet header. All numbers are big-endian.
//!
//! ```text
//! octet  0   version, 1
//!        1   kind in the low four bits, number of ranges (0 to 3) in the high four
//!        2   octets of payload
//!        4   channel
//!        8   offset of the payload in the stream; number of a PING, which ACK repeats
//!       16   acknowledged offset: all octets before it have arrived
//!       24   credit: octets from the acknowledged offset on that the sender of the frame can take
//!       28   tag
//!       36   ranges that have arrived beyond the acknowledged offset: start and end of each,
//!            counted from that offset
//!            payload; what follows it is padding of Ethernet
//! ```

use std::num::NonZeroU32;

use crate::tag::{self, Key, Side};

/// EtherType of the frames: the first of the two that IEEE 802 keeps for local experiments.
pub const ETHER_TYPE: u16 = 0x88b5;
/// Octets before the ranges.
pub const HEADER_BYTES: usize = 36;
/// Maximum number of ranges in a frame.
pub const MAX_RANGES: usize = 3;

const RANGE_BYTES: usize = 8;
const VERSION: u8 = 1;
/// Octets before the tag, which it covers.
const TAGGED_BYTES: usize = 28;
/// Offsets are smaller than this, so that sums of them and of lengths do not overflow.
const MAX_OFFSET: u64 = 1 << 62;

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Carries octets of the stream.
    Data,
    /// Carries the acknowledgement alone.
    Ack,
    /// End of the stream: its offset is the length of the stream. It counts as one octet that is
    /// acknowledged, and needs no credit.
    Fin,
    /// End of the channel: both ends forget it.
    Reset,
    /// Asks for an [`Ack`](Self::Ack) at once, with the number of the question.
    Ping,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Fin,
            4 => Self::Reset,
            5 => Self::Ping,
            _ => return None,
        })
    }

    fn number(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Ack => 2,
            Self::Fin => 3,
            Self::Reset => 4,
            Self::Ping => 5,
        }
    }
}

/// Octets that have arrived beyond the acknowledged offset, which itself is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First octet, counted from the acknowledged offset.
    pub start: NonZeroU32,
    /// End, exclusive, counted from the acknowledged offset.
    pub end: u32,
}

/// Fields of a frame except its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Kind.
    pub kind: Kind,
    /// Channel.
    pub channel: u32,
    /// Offset of the payload in the stream, or length of the stream (FIN). Number of the question
    /// (PING), and of the last question that has arrived (ACK).
    pub offset: u64,
    /// All octets of the other direction before this offset have arrived.
    pub acked: u64,
    /// Octets from `acked` on that the sender of this frame can take.
    pub credit: u32,
    /// Ranges beyond `acked`, in ascending order and apart from each other; `None` after the last.
    pub ranges: [Option<Range>; MAX_RANGES],
}

/// A frame with a valid tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Fields.
    pub header: Header,
    /// Octets of the stream. The tag does not cover them.
    pub payload: &'a [u8],
}

/// Reason for which a frame is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It ends before its fields or its payload.
    #[error("the frame is too short")]
    Short,
    /// Another version.
    #[error("the frame has an unknown version")]
    Version,
    /// Another kind.
    #[error("the frame has an unknown kind")]
    Kind,
    /// A payload where none may be, or none where one must be.
    #[error("the length of the payload does not fit the kind of the frame")]
    Length,
    /// An offset that no stream reaches.
    #[error("an offset of the frame is too large")]
    Offset,
    /// Ranges that are empty, touch each other, or are not in ascending order.
    #[error("the ranges of the frame are not in order")]
    Ranges,
    /// A frame of another channel.
    #[error("the frame belongs to another channel")]
    Channel,
    /// A tag that was made without the key, or by this end.
    #[error("the tag of the frame is wrong")]
    Tag,
    /// It acknowledges octets that were not sent.
    #[error("the frame acknowledges octets that were not sent")]
    Acknowledgement,
    /// Its octets lie beyond the credit, or there is no room to note another range of them.
    #[error("the frame exceeds the credit")]
    Credit,
    /// It contradicts the end of the stream.
    #[error("the frame contradicts the end of the stream")]
    End,
}

impl Header {
    /// Octets before the payload.
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + self.ranges.iter().flatten().count() * RANGE_BYTES
    }

    /// Writes the header with its tag in front of a payload of `payload_bytes`, which begins at
    /// [`encoded_bytes`](Self::encoded_bytes) of `into`. Returns the length of the frame; `None`
    /// when `into` is too short for it.
    pub fn encode(
        &self,
        payload_bytes: u16,
        key: &Key,
        sender: Side,
        into: &mut [u8],
    ) -> Option<usize> {
        let before = self.encoded_bytes();
        let all = before + usize::from(payload_bytes);
        let (head, ranges) = into.get_mut(..all)?.split_at_mut_checked(HEADER_BYTES)?;
        let ranges = ranges.get_mut(..before - HEADER_BYTES)?;
        let mut count = 0;
        for (range, to) in (self.ranges.iter().flatten()).zip(ranges.chunks_exact_mut(RANGE_BYTES))
        {
            let (start, end) = to.split_at_mut(RANGE_BYTES / 2);
            start.copy_from_slice(&range.start.get().to_be_bytes());
            end.copy_from_slice(&range.end.to_be_bytes());
            count += 1;
        }
        let (fields, _) = head.split_at_mut_checked(TAGGED_BYTES)?;
        let mut rest = fields;
        put(&mut rest, [VERSION, count << 4 | self.kind.number()])?;
        put(&mut rest, payload_bytes.to_be_bytes())?;
        put(&mut rest, self.channel.to_be_bytes())?;
        put(&mut rest, self.offset.to_be_bytes())?;
        put(&mut rest, self.acked.to_be_bytes())?;
        put(&mut rest, self.credit.to_be_bytes())?;
        let fields = into.get(..TAGGED_BYTES)?;
        let tag = tag::tag(key, sender, fields, into.get(HEADER_BYTES..before)?);
        into.get_mut(TAGGED_BYTES..HEADER_BYTES)?
            .copy_from_slice(&tag);
        Some(all)
    }
}

/// Writes octets at the beginning of `rest`, which then begins behind them.
fn put<const N: usize>(rest: &mut &mut [u8], octets: [u8; N]) -> Option<()> {
    let (to, behind) = std::mem::take(rest).split_first_chunk_mut()?;
    *to = octets;
    *rest = behind;
    Some(())
}

/// Takes octets from the beginning of `rest`.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Refused> {
    let (octets, behind) = rest.split_first_chunk().ok_or(Refused::Short)?;
    *rest = behind;
    Ok(*octets)
}

/// Reads a frame of `channel` that `sender` has sent. Nothing of it is used before its tag is
/// found to be right, except to find the tag.
///
/// # Errors
/// The reason for which the frame is to be dropped.
pub fn decode<'a>(
    octets: &'a [u8],
    channel: u32,
    key: &Key,
    sender: Side,
) -> Result<Frame<'a>, Refused> {
    let tagged = octets.get(..TAGGED_BYTES).ok_or(Refused::Short)?;
    let mut rest = tagged;
    let [version, kind] = take(&mut rest)?;
    if version != VERSION {
        return Err(Refused::Version);
    }
    let count = usize::from(kind >> 4);
    let kind = Kind::from_number(kind & 0xf).ok_or(Refused::Kind)?;
    if count > MAX_RANGES {
        return Err(Refused::Ranges);
    }
    let payload_bytes = usize::from(u16::from_be_bytes(take(&mut rest)?));
    if u32::from_be_bytes(take(&mut rest)?) != channel {
        return Err(Refused::Channel);
    }
    let before = HEADER_BYTES + count * RANGE_BYTES;
    let encoded_ranges = octets.get(HEADER_BYTES..before).ok_or(Refused::Short)?;
    let payload = octets.get(before..before + payload_bytes);
    let payload = payload.ok_or(Refused::Short)?;
    let given = octets.get(TAGGED_BYTES..).and_then(<[u8]>::first_chunk);
    let expected = tag::tag(key, sender, tagged, encoded_ranges);
    if !tag::is_equal(given.ok_or(Refused::Short)?, &expected) {
        return Err(Refused::Tag);
    }
    let header = Header {
        kind,
        channel,
        offset: u64::from_be_bytes(take(&mut rest)?),
        acked: u64::from_be_bytes(take(&mut rest)?),
        credit: u32::from_be_bytes(take(&mut rest)?),
        ranges: ranges(encoded_ranges)?,
    };
    if (kind == Kind::Data) == payload.is_empty() {
        return Err(Refused::Length);
    }
    if header.offset >= MAX_OFFSET || header.acked >= MAX_OFFSET {
        return Err(Refused::Offset);
    }
    Ok(Frame { header, payload })
}

fn ranges(mut octets: &[u8]) -> Result<[Option<Range>; MAX_RANGES], Refused> {
    let mut ranges = [None; MAX_RANGES];
    let mut last = 0;
    for place in &mut ranges {
        if octets.is_empty() {
            break;
        }
        let start = u32::from_be_bytes(take(&mut octets)?);
        let end = u32::from_be_bytes(take(&mut octets)?);
        // A gap before each, also before the first: what touches the acknowledged offset would be
        // acknowledged.
        if start <= last || end <= start {
            return Err(Refused::Ranges);
        }
        last = end;
        *place = NonZeroU32::new(start).map(|start| Range { start, end });
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHANNEL: u32 = 0x0102_0304;

    fn key() -> Key {
        Key::from_bytes(*b"0123456789abcdef")
    }

    fn range(start: u32, end: u32) -> Option<Range> {
        NonZeroU32::new(start).map(|start| Range { start, end })
    }

    fn header(kind: Kind) -> Header {
        Header {
            kind,
            channel: CHANNEL,
            offset: 0x0102_0304_0506,
            acked: 77,
            credit: 1 << 20,
            ranges: [None; MAX_RANGES],
        }
    }

    fn encoded(header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; header.encoded_bytes()];
        octets.extend(payload);
        let length = header
            .encode(payload.len() as u16, &key(), Side::Primary, &mut octets)
            .unwrap();
        assert_eq!(length, octets.len());
        octets
    }

    fn read(octets: &[u8]) -> Result<Frame<'_>, Refused> {
        decode(octets, CHANNEL, &key(), Side::Primary)
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let mut ack = header(Kind::Ack);
        ack.ranges = [range(1, 2), range(0x10, 0x20), None];
        let octets = encoded(&ack, b"");
        assert_eq!(
            octets[..28],
            [
                1, 0x22, 0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 77, 0,
                0x10, 0, 0
            ]
        );
        assert_eq!(
            octets[36..],
            [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0x10, 0, 0, 0, 0x20]
        );
    }

    #[test]
    fn padding_is_ignored() {
        let mut octets = encoded(&header(Kind::Data), b"abc");
        octets.extend([0; 20]);
        assert_eq!(read(&octets).unwrap().payload, b"abc");
    }

    #[test]
    fn no_octet_before_the_payload_can_be_changed() {
        let mut data = header(Kind::Data);
        data.ranges = [range(5, 9), None, None];
        let octets = encoded(&data, b"abc");
        for at in 0..data.encoded_bytes() {
            for bit in 0..8 {
                let mut changed = octets.clone();
                changed[at] ^= 1 << bit;
                assert!(read(&changed).is_err(), "octet {at}, bit {bit}");
            }
        }
        assert_eq!(
            decode(&octets, CHANNEL, &key(), Side::Helper),
            Err(Refused::Tag)
        );
        assert_eq!(
            decode(&octets, 9, &key(), Side::Primary),
            Err(Refused::Channel)
        );
    }

    #[test]
    fn what_no_sender_makes_is_refused_although_its_tag_is_right() {
        let far = Header {
            offset: MAX_OFFSET,
            ..header(Kind::Data)
        };
        assert_eq!(read(&encoded(&far, b"a")), Err(Refused::Offset));
        for (kind, payload) in [(Kind::Data, &b""[..]), (Kind::Ack, b"a"), (Kind::Fin, b"a")] {
            let octets = encoded(&header(kind), payload);
            assert_eq!(read(&octets), Err(Refused::Length), "{kind:?}");
        }
        for bad in [
            [range(5, 5), None, None],
            [range(5, 9), range(9, 10), None],
            [range(5, 9), range(3, 4), None],
        ] {
            let ack = Header {
                ranges: bad,
                ..header(Kind::Ack)
            };
            assert_eq!(read(&encoded(&ack, b"")), Err(Refused::Ranges), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(
            kind in 0_usize..5,
            offset in 0..MAX_OFFSET,
            acked in 0..MAX_OFFSET,
            credit: u32,
            gaps in prop::collection::vec((1_u32..1 << 20, 1_u32..1 << 20), 0..=MAX_RANGES),
            payload in prop::collection::vec(any::<u8>(), 1..200),
        ) {
            let kinds = [Kind::Data, Kind::Ack, Kind::Fin, Kind::Reset, Kind::Ping];
            let kind = kinds[kind];
            let mut ranges = [None; MAX_RANGES];
            let mut end = 0;
            for (place, (gap, length)) in ranges.iter_mut().zip(gaps) {
                *place = range(end + gap, end + gap + length);
                end += gap + length;
            }
            let header = Header { kind, channel: CHANNEL, offset, acked, credit, ranges };
            let payload = if kind == Kind::Data { &payload[..] } else { &[] };
            let octets = encoded(&header, payload);
            prop_assert_eq!(read(&octets), Ok(Frame { header, payload }));
            for end in 0..octets.len() {
                prop_assert_eq!(read(&octets[..end]), Err(Refused::Short));
            }
        }

        #[test]
        fn arbitrary_octets_are_refused(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(read(&octets).is_err());
        }
    }
}
