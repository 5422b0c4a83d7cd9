//! Buffers of one end of an RFCOMM stream.

use std::collections::VecDeque;

use super::baseband;

/// Payload of a frame (Android's BTA_JV_DEF_RFC_MTU).
pub(super) const FRAME_BYTES: u64 = 990;
/// Headers of a frame: L2CAP 4, RFCOMM 5.
const HEADER_BYTES: u32 = 9;
/// Frames that a receiver grants at most, and the number at which it grants more (Android's
/// PORT_CREDIT_RX_MAX and PORT_CREDIT_RX_LOW).
const CREDITS: u32 = 16;
const FEW_CREDITS: u32 = 8;

/// A frame of which a part has been sent.
#[derive(Debug, Clone, Copy)]
struct Frame {
    payload: u64,
    /// Bytes with headers that have not been acknowledged.
    left: u32,
}

/// Bytes sent by one end, and bytes received by the other that wait there.
#[derive(Debug)]
pub(super) struct Side {
    /// Written, and not in a frame.
    waiting: u64,
    frame: Option<Frame>,
    /// Frames that the sender may begin.
    credits: u32,
    acknowledged: u64,
    /// Payload of frames at the receiver that were not read whole.
    arrived: VecDeque<u64>,
    readable: u64,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            waiting: 0,
            frame: None,
            credits: CREDITS,
            acknowledged: 0,
            arrived: VecDeque::new(),
            readable: 0,
        }
    }
}

impl Side {
    /// Written and not acknowledged by the other end's baseband.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.waiting + self.frame.map_or(0, |frame| frame.payload)
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(super) fn readable(&self) -> u64 {
        self.readable
    }

    pub(super) fn write(&mut self, bytes: u64) {
        self.waiting += bytes;
    }

    /// Payload in bytes, headers included, and slots of the next packet. Begins a frame if there
    /// are data and a credit.
    pub(super) fn packet(&mut self) -> (u32, u32) {
        if self.frame.is_none() && self.waiting > 0 && self.credits > 0 {
            let payload = self.waiting.min(FRAME_BYTES);
            self.waiting -= payload;
            self.credits -= 1;
            self.frame = Some(Frame {
                payload,
                left: HEADER_BYTES + payload as u32,
            });
        }
        baseband::packet(self.frame.map_or(0, |frame| frame.left))
    }

    /// The other end has acknowledged a packet of `bytes`.
    pub(super) fn passed(&mut self, bytes: u32) {
        let Some(frame) = &mut self.frame else {
            return;
        };
        frame.left = frame.left.saturating_sub(bytes);
        if frame.left == 0 {
            self.acknowledged += frame.payload;
            self.readable += frame.payload;
            self.arrived.push_back(frame.payload);
            self.frame = None;
        }
    }

    /// Takes at most `most` bytes at the receiver, and grants credits when few are left.
    pub(super) fn read(&mut self, most: u64) -> u64 {
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
        let begun = u32::from(self.frame.is_some());
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
        let mut side = Side::default();
        side.write(1_000);
        assert_eq!(side.packet(), (679, 5));
        side.passed(679);
        assert_eq!(side.packet(), (320, 3), "990 + 9 - 679");
        assert_eq!((side.readable(), side.unacknowledged()), (0, 1_000));
        side.passed(320);
        assert_eq!((side.readable(), side.unacknowledged()), (990, 10));
        assert_eq!(side.packet(), (19, 1));
    }

    #[test]
    fn credits_bound_what_a_receiver_holds() {
        let mut side = Side::default();
        side.write(100_000);
        assert_eq!(send(&mut side), 32, "16 frames of two packets");
        assert_eq!(side.readable(), 16 * 990);
        // Credits return for whole frames that were read.
        assert_eq!(side.read(989), 989);
        assert_eq!(send(&mut side), 0);
        assert_eq!(side.read(1), 1);
        assert_eq!(send(&mut side), 2);
        assert_eq!(side.read(u64::MAX), 16 * 990);
        assert_eq!(send(&mut side), 32);
        assert_eq!(side.acknowledged(), 33 * 990);
    }
}
