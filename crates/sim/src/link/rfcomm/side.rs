//! Buffers of one end of an RFCOMM link.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::baseband;

/// Payload of a frame (Android's BTA_JV_DEF_RFC_MTU).
pub(super) const FRAME_BYTES: u64 = 990;
/// Headers of a frame: L2CAP 4, RFCOMM 5.
const HEADER_BYTES: u32 = 9;
/// Frames that a receiver grants at most, and the number at which it grants more (Android's
/// PORT_CREDIT_RX_MAX and PORT_CREDIT_RX_LOW).
const CREDITS: u32 = 16;
const FEW_CREDITS: u32 = 8;

/// A connection over the link, between the same services of both devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub(super) u64);

/// A frame of which a part has been sent.
#[derive(Debug, Clone, Copy)]
struct Frame {
    channel: Channel,
    payload: u64,
    /// Bytes with headers that have not been acknowledged.
    left: u32,
}

/// Bytes that one end sends on all channels, and those received by the other that wait there.
///
/// Frames are sent one after another. The channels that have data and credits take turns.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    streams: BTreeMap<Channel, Stream>,
    frame: Option<Frame>,
    /// Channel of the last frame that was begun.
    last: Option<Channel>,
}

/// One direction of a channel.
#[derive(Debug, Clone)]
struct Stream {
    /// Written, and not in a frame.
    waiting: u64,
    /// Frames that the sender may begin.
    credits: u32,
    acknowledged: u64,
    /// Payload of frames at the receiver that were not read whole.
    arrived: VecDeque<u64>,
    readable: u64,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            waiting: 0,
            credits: CREDITS,
            acknowledged: 0,
            arrived: VecDeque::new(),
            readable: 0,
        }
    }
}

impl Side {
    pub(super) fn open(&mut self, channel: Channel) {
        self.streams.insert(channel, Stream::default());
    }

    /// Drops what a channel holds. A frame of it that is on its way is sent, and not delivered.
    pub(super) fn close(&mut self, channel: Channel) {
        self.streams.remove(&channel);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn begun(&self, channel: Channel) -> Option<Frame> {
        self.frame.filter(|frame| frame.channel == channel)
    }

    /// Written and not acknowledged by the other end's baseband; `None` without such a channel.
    pub(super) fn unacknowledged(&self, channel: Channel) -> Option<u64> {
        let stream = self.streams.get(&channel)?;
        Some(stream.waiting + self.begun(channel).map_or(0, |frame| frame.payload))
    }

    pub(super) fn acknowledged(&self, channel: Channel) -> u64 {
        self.streams.get(&channel).map_or(0, |s| s.acknowledged)
    }

    pub(super) fn readable(&self, channel: Channel) -> u64 {
        self.streams.get(&channel).map_or(0, |s| s.readable)
    }

    pub(super) fn write(&mut self, channel: Channel, bytes: u64) {
        if let Some(stream) = self.streams.get_mut(&channel) {
            stream.waiting += bytes;
        }
    }

    /// Payload in bytes, headers included, and slots of the next packet. Begins a frame if there
    /// are data and a credit.
    pub(super) fn packet(&mut self) -> (u32, u32) {
        if self.frame.is_none() {
            self.frame = self.next_frame();
        }
        baseband::packet(self.frame.map_or(0, |frame| frame.left))
    }

    fn next_frame(&mut self) -> Option<Frame> {
        let is_due = |s: &Stream| s.waiting > 0 && s.credits > 0;
        let due = |(channel, s): (&Channel, &Stream)| is_due(s).then_some(*channel);
        let after = match self.last {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let next = self.streams.range(after).find_map(due);
        let channel = next.or_else(|| self.streams.iter().find_map(due))?;
        let stream = self.streams.get_mut(&channel)?;
        let payload = stream.waiting.min(FRAME_BYTES);
        stream.waiting -= payload;
        stream.credits -= 1;
        self.last = Some(channel);
        Some(Frame {
            channel,
            payload,
            left: HEADER_BYTES + payload as u32,
        })
    }

    /// The other end has acknowledged a packet of `bytes`.
    pub(super) fn passed(&mut self, bytes: u32) {
        let Some(frame) = &mut self.frame else {
            return;
        };
        frame.left = frame.left.saturating_sub(bytes);
        if frame.left == 0 {
            if let Some(stream) = self.streams.get_mut(&frame.channel) {
                stream.acknowledged += frame.payload;
                stream.readable += frame.payload;
                stream.arrived.push_back(frame.payload);
            }
            self.frame = None;
        }
    }

    /// Takes at most `most` bytes at the receiver, and grants credits when few are left.
    pub(super) fn read(&mut self, channel: Channel, most: u64) -> u64 {
        let begun = u32::from(self.begun(channel).is_some());
        let stream = self.streams.get_mut(&channel);
        stream.map_or(0, |stream| stream.read(most, begun))
    }
}

impl Stream {
    /// Takes at most `most` bytes; `begun` frames are on their way.
    fn read(&mut self, most: u64, begun: u32) -> u64 {
        let taken = self.readable.min(most);
        self.readable -= taken;
        let mut left = taken;
        while let Some(first) = self.arrived.front_mut() {
            if *first > left {
                *first -= left;
                break;
            }
            left -= *first;
            self.arrived.pop_front();
        }
        if self.credits + begun <= FEW_CREDITS {
            let held = self.arrived.len() as u32 + begun;
            self.credits = self.credits.max(CREDITS.saturating_sub(held));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Channel = Channel(1);
    const TWO: Channel = Channel(2);

    fn side(channels: &[Channel]) -> Side {
        let mut side = Side::default();
        for channel in channels {
            side.open(*channel);
        }
        side
    }

    /// Sends until nothing can be sent, and returns the number of packets.
    fn send(side: &mut Side) -> u32 {
        for count in 0.. {
            let (bytes, _) = side.packet();
            if bytes == 0 {
                return count;
            }
            side.passed(bytes);
        }
        0
    }

    #[test]
    fn a_frame_is_split_into_packets() {
        let mut side = side(&[ONE]);
        side.write(ONE, 1_000);
        assert_eq!(side.packet(), (679, 5));
        side.passed(679);
        assert_eq!(side.packet(), (320, 3), "990 + 9 - 679");
        let held = |side: &Side| (side.readable(ONE), side.unacknowledged(ONE));
        assert_eq!(held(&side), (0, Some(1_000)));
        side.passed(320);
        assert_eq!(held(&side), (990, Some(10)));
        assert_eq!(side.packet(), (19, 1));
    }

    #[test]
    fn credits_bound_what_a_receiver_holds() {
        let mut side = side(&[ONE]);
        side.write(ONE, 100_000);
        assert_eq!(send(&mut side), 32, "16 frames of two packets");
        assert_eq!(side.readable(ONE), 16 * 990);
        // Credits return for whole frames that were read.
        assert_eq!(side.read(ONE, 989), 989);
        assert_eq!(send(&mut side), 0);
        assert_eq!(side.read(ONE, 1), 1);
        assert_eq!(send(&mut side), 2);
        assert_eq!(side.read(ONE, u64::MAX), 16 * 990);
        assert_eq!(send(&mut side), 32);
        assert_eq!(side.acknowledged(ONE), 33 * 990);
    }

    #[test]
    fn channels_take_turns_and_one_without_credits_holds_up_no_other() {
        let mut side = side(&[ONE, TWO]);
        side.write(ONE, 100_000);
        side.write(TWO, 2_970);
        for _ in 0..12 {
            let (bytes, _) = side.packet();
            side.passed(bytes);
        }
        assert_eq!((side.readable(ONE), side.readable(TWO)), (2_970, 2_970));
        send(&mut side);
        assert_eq!(side.readable(ONE), 16 * 990);
        side.write(TWO, 500);
        assert_eq!(send(&mut side), 1);
        assert_eq!(side.readable(TWO), 3_470);
    }

    #[test]
    fn a_frame_of_a_closed_channel_ends_and_is_not_delivered() {
        let mut side = side(&[ONE, TWO]);
        side.write(ONE, 990);
        side.write(TWO, 20);
        assert_eq!(side.packet(), (679, 5));
        side.close(ONE);
        side.passed(679);
        assert_eq!(side.packet(), (320, 3));
        side.passed(320);
        assert_eq!(side.packet(), (29, 1));
        side.passed(29);
        assert_eq!((side.readable(ONE), side.readable(TWO)), (0, 20));
        assert_eq!((side.unacknowledged(ONE), side.read(ONE, 9)), (None, 0));
    }
}
