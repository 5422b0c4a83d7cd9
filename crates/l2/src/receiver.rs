//! Receiving direction of a channel: octets until they are read, and what has to be acknowledged.

use std::num::NonZeroU32;
use std::time::Duration;

use mpbond_units::Timestamp;

use crate::frame::{MAX_RANGES, Range, Refused};
use crate::ring::Ring;

/// Maximum time for which an acknowledgement is kept back. One each 5 ms would cost 4 % of the
/// airtime of 802.11g.
pub const ACK_DELAY: Duration = Duration::from_millis(25);
/// Octets after which an acknowledgement is due at once, where the window is large enough.
pub const ACK_BYTES: u64 = 64 * 1024;
/// Parts of the window: an acknowledgement is due at once after one of them.
const WINDOW_PARTS: u64 = 4;
/// Maximum number of ranges beyond a gap: a frame that would add one is dropped and sent again.
/// One in three frames of the largest window may be missing.
const MAX_STRETCHES: usize = 256;

/// Octets that arrived beyond a gap.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: u64,
    end: u64,
    /// It was acknowledged as it is.
    is_told: bool,
}

/// Octets of the receiving direction.
pub(crate) struct Receiver {
    ring: Ring,
    /// First octet that was not read.
    read: u64,
    /// First octet that has not arrived.
    arrived: u64,
    /// Octets beyond it, in ascending order, apart from each other.
    beyond: Vec<Stretch>,
    /// Length of the stream, when its end has arrived.
    end: Option<u64>,
    /// What the peer was told last: octets acknowledged, and those that it may send.
    told_acked: u64,
    told_limit: u64,
    /// Instant at which an acknowledgement is due.
    due: Option<Timestamp>,
    is_due_now: bool,
}

/// What an acknowledgement says.
pub(crate) struct Acknowledgement {
    pub(crate) acked: u64,
    pub(crate) credit: u32,
    pub(crate) ranges: [Option<Range>; MAX_RANGES],
}

impl Receiver {
    /// A receiver that keeps at most `window` octets.
    pub(crate) fn new(window: u32) -> Self {
        Self {
            ring: Ring::new(usize::try_from(window).unwrap_or(usize::MAX)),
            read: 0,
            arrived: 0,
            beyond: Vec::new(),
            end: None,
            told_acked: 0,
            told_limit: 0,
            due: None,
            is_due_now: false,
        }
    }

    /// Takes the octets of a frame.
    pub(crate) fn handle_data(
        &mut self,
        now: Timestamp,
        offset: u64,
        octets: &[u8],
    ) -> Result<(), Refused> {
        let end = offset + octets.len() as u64;
        if end > self.limit() {
            return Err(Refused::Credit);
        }
        if self.end.is_some_and(|of_stream| end > of_stream) {
            return Err(Refused::End);
        }
        if end <= self.arrived {
            // Its acknowledgement was lost.
            self.is_due_now = true;
            return Ok(());
        }
        let start = offset.max(self.arrived);
        let is_gap = start > self.arrived || !self.beyond.is_empty();
        self.keep(offset, end, octets);
        if start == self.arrived {
            self.arrived = end;
            self.join();
        } else if !self.add(start, end) {
            return Err(Refused::Credit);
        }
        let each = ACK_BYTES.min(self.ring.capacity() / WINDOW_PARTS);
        if is_gap || self.arrived - self.told_acked >= each {
            self.is_due_now = true;
        } else {
            self.due.get_or_insert(now + ACK_DELAY);
        }
        Ok(())
    }

    /// Takes the end of the stream.
    pub(crate) fn handle_fin(&mut self, length: u64) -> Result<(), Refused> {
        let most = self.beyond.last().map_or(self.arrived, |last| last.end);
        if length < most || length > self.limit() || self.end.is_some_and(|end| end != length) {
            return Err(Refused::End);
        }
        self.end = Some(length);
        self.is_due_now = true;
        Ok(())
    }

    /// Stores those of the octets that have not arrived yet: the tag does not cover them, so a
    /// repeated frame may have others than the true one.
    fn keep(&mut self, offset: u64, end: u64, octets: &[u8]) {
        let mut from = offset.max(self.arrived);
        let passed = self.beyond.partition_point(|s| s.end <= from);
        let known = self.beyond.iter().skip(passed).map(|s| (s.start, s.end));
        for (start, next) in known.chain([(end, end)]) {
            let missing_end = start.clamp(from, end);
            let missing = (from - offset) as usize..(missing_end - offset) as usize;
            self.ring.put(from, octets.get(missing).unwrap_or_default());
            if next >= end {
                break;
            }
            from = next;
        }
    }

    /// Adds octets beyond a gap; returns whether there was room to note them.
    fn add(&mut self, start: u64, end: u64) -> bool {
        let from = self.beyond.partition_point(|s| s.end < start);
        let touched = (self.beyond.iter().skip(from))
            .take_while(|s| s.start <= end)
            .count();
        if touched == 0 && self.beyond.len() >= MAX_STRETCHES {
            return false;
        }
        // A stretch whose octets arrive again is told again: its acknowledgement was lost.
        let mut joined = Stretch {
            start,
            end,
            is_told: false,
        };
        for old in self.beyond.drain(from..from + touched) {
            joined.start = joined.start.min(old.start);
            joined.end = joined.end.max(old.end);
        }
        self.beyond.insert(from, joined);
        true
    }

    /// Moves on over ranges that are not beyond a gap any more.
    fn join(&mut self) {
        let joined = (self.beyond.iter())
            .take_while(|s| s.start <= self.arrived)
            .count();
        for stretch in self.beyond.drain(..joined) {
            self.arrived = self.arrived.max(stretch.end);
        }
    }

    /// First octet that the peer may not send.
    fn limit(&self) -> u64 {
        self.read + self.ring.capacity()
    }

    /// Copies octets in order; returns their number, 0 when there are none.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        let waits = usize::try_from(self.arrived - self.read).unwrap_or(usize::MAX);
        let count = into.len().min(waits);
        self.ring
            .get(self.read, into.get_mut(..count).unwrap_or_default());
        self.read += count as u64;
        // The peer would soon have to stop.
        let left = self.told_limit.saturating_sub(self.arrived);
        let part = self.ring.capacity() / WINDOW_PARTS;
        if count > 0 && left < 2 * part && self.limit() - self.told_limit >= part.max(1) {
            self.is_due_now = true;
        }
        count
    }

    /// Number of octets that can be read.
    pub(crate) fn readable(&self) -> u64 {
        self.arrived - self.read
    }

    /// Whether all octets and the end of the stream have arrived.
    pub(crate) fn has_ended(&self) -> bool {
        self.end == Some(self.arrived)
    }

    /// Makes an acknowledgement due at once.
    pub(crate) fn acknowledge_now(&mut self) {
        self.is_due_now = true;
    }

    pub(crate) fn is_ack_due(&self, now: Timestamp) -> bool {
        self.is_due_now || self.due.is_some_and(|at| at <= now)
    }

    /// Whether ranges have to be acknowledged, which only a frame for that does.
    pub(crate) fn has_untold(&self) -> bool {
        self.is_due_now && self.beyond.iter().any(|s| !s.is_told)
    }

    /// Instant at which an acknowledgement is due that is not due yet.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.due
    }

    /// The acknowledgement in a frame with octets; it has no ranges.
    pub(crate) fn brief(&mut self) -> Acknowledgement {
        let acked = self.arrived + u64::from(self.has_ended());
        self.told_acked = self.arrived;
        self.told_limit = self.limit();
        if !self.has_untold() {
            self.is_due_now = false;
        }
        self.due = None;
        Acknowledgement {
            acked,
            credit: u32::try_from(self.limit().saturating_sub(acked)).unwrap_or(u32::MAX),
            ranges: [None; MAX_RANGES],
        }
    }

    /// A whole acknowledgement: with ranges that were not acknowledged yet, or else the first ones.
    pub(crate) fn full(&mut self) -> Acknowledgement {
        let mut acknowledgement = self.brief();
        let base = acknowledgement.acked;
        let only_untold = self.beyond.iter().any(|s| !s.is_told);
        let mut chosen = (self.beyond.iter_mut()).filter(|s| !only_untold || !s.is_told);
        for place in &mut acknowledgement.ranges {
            let Some(stretch) = chosen.next() else {
                break;
            };
            stretch.is_told = true;
            let start = u32::try_from(stretch.start - base).ok();
            let end = u32::try_from(stretch.end - base).ok();
            *place = start.and_then(NonZeroU32::new).zip(end).map(range);
        }
        self.is_due_now = self.beyond.iter().any(|s| !s.is_told);
        acknowledgement
    }
}

fn range((start, end): (NonZeroU32, u32)) -> Range {
    Range { start, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn told(receiver: &mut Receiver) -> (u64, u32, Vec<(u32, u32)>) {
        let ack = receiver.full();
        let ranges = ack.ranges.iter().flatten();
        let ranges = ranges.map(|r| (r.start.get(), r.end)).collect();
        (ack.acked, ack.credit, ranges)
    }

    fn text(receiver: &mut Receiver) -> String {
        let mut into = [0; 1000];
        let count = receiver.read(&mut into);
        String::from_utf8(into[..count].to_vec()).unwrap()
    }

    #[test]
    fn octets_are_read_in_order_and_once() {
        let mut receiver = Receiver::new(100);
        receiver.handle_data(ms(0), 3, b"def").unwrap();
        receiver.handle_data(ms(0), 9, b"jk").unwrap();
        assert_eq!(receiver.readable(), 0);
        assert_eq!(told(&mut receiver), (0, 100, vec![(3, 6), (9, 11)]));
        receiver.handle_data(ms(0), 0, b"abcd").unwrap();
        assert_eq!(text(&mut receiver), "abcdef");
        receiver.handle_data(ms(0), 0, b"abcdefghij").unwrap();
        assert_eq!(text(&mut receiver), "ghijk");
        assert_eq!(told(&mut receiver), (11, 100, vec![]));
        receiver.handle_fin(11).unwrap();
        assert!(receiver.has_ended());
        assert_eq!(told(&mut receiver).0, 12);
    }

    #[test]
    fn an_acknowledgement_is_due_after_64_kib_or_25_ms_and_at_once_at_a_gap() {
        let mut receiver = Receiver::new(1 << 20);
        let octets = vec![0; 32 * 1024];
        receiver.handle_data(ms(7), 0, &octets).unwrap();
        assert!(!receiver.is_ack_due(ms(31)) && receiver.is_ack_due(ms(32)));
        assert_eq!(receiver.deadline(), Some(ms(32)));
        receiver.handle_data(ms(8), 32 * 1024, &octets).unwrap();
        assert!(receiver.is_ack_due(ms(8)));
        receiver.full();
        assert!(!receiver.is_ack_due(ms(1000)));
        // A gap, its end, and what has arrived before.
        for (offset, length) in [(70_000, 10), (64 * 1024, 70_000 - 64 * 1024), (0, 10)] {
            receiver
                .handle_data(ms(9), offset, &octets[..length])
                .unwrap();
            assert!(receiver.is_ack_due(ms(9)), "{offset}");
            receiver.full();
        }
        // A small window is acknowledged in quarters.
        let mut receiver = Receiver::new(4_000);
        receiver.handle_data(ms(0), 0, &octets[..1_000]).unwrap();
        assert!(receiver.is_ack_due(ms(0)));
    }

    #[test]
    fn octets_that_have_arrived_beyond_a_gap_are_not_replaced() {
        let mut receiver = Receiver::new(100);
        receiver.handle_data(ms(0), 3, b"def").unwrap();
        receiver.handle_data(ms(0), 3, b"XXX").unwrap();
        receiver.handle_data(ms(0), 8, b"i").unwrap();
        receiver.handle_data(ms(0), 2, b"cXXXgh").unwrap();
        receiver.handle_data(ms(0), 0, b"abXXXXXXXj").unwrap();
        assert_eq!(text(&mut receiver), "abcdefghij");
    }

    #[test]
    fn a_range_is_acknowledged_again_when_a_frame_of_it_arrives_again() {
        let mut receiver = Receiver::new(1_000);
        for n in 1..=4 {
            receiver.handle_data(ms(0), n * 10, b"abc").unwrap();
        }
        assert_eq!(told(&mut receiver).2.len() + told(&mut receiver).2.len(), 4);
        receiver.handle_data(ms(1), 40, b"abc").unwrap();
        assert_eq!(told(&mut receiver).2, [(40, 43)]);
    }

    #[test]
    fn more_ranges_than_fit_take_several_acknowledgements() {
        let mut receiver = Receiver::new(1_000);
        for n in 0..4 {
            receiver.handle_data(ms(0), 10 + n * 10, b"a").unwrap();
        }
        let all = told(&mut receiver).2;
        assert_eq!(all, [(10, 11), (20, 21), (30, 31)]);
        assert!(receiver.has_untold());
        assert_eq!(told(&mut receiver).2, [(40, 41)]);
        assert!(!receiver.is_ack_due(ms(0)));
        // Known ones are repeated when there is another reason.
        receiver.acknowledge_now();
        assert_eq!(told(&mut receiver).2.len(), 3);
    }

    #[test]
    fn credit_is_what_is_not_read_and_grows_in_quarters() {
        let mut receiver = Receiver::new(400);
        receiver.handle_data(ms(0), 0, &[0; 400]).unwrap();
        assert_eq!(told(&mut receiver), (400, 0, vec![]));
        assert_eq!(receiver.handle_data(ms(0), 400, b"a"), Err(Refused::Credit));
        receiver.read(&mut [0; 99]);
        assert!(!receiver.is_ack_due(ms(0)));
        receiver.read(&mut [0; 1]);
        assert!(receiver.is_ack_due(ms(0)));
        assert_eq!(told(&mut receiver), (400, 100, vec![]));
    }

    #[test]
    fn ranges_are_bounded() {
        let mut receiver = Receiver::new(10_000);
        for n in 1..=MAX_STRETCHES as u64 {
            receiver.handle_data(ms(0), n * 2, b"a").unwrap();
        }
        let one_more = MAX_STRETCHES as u64 * 2 + 2;
        let refused = receiver.handle_data(ms(0), one_more, b"a");
        assert_eq!(refused, Err(Refused::Credit));
        // One that joins others fits.
        receiver.handle_data(ms(0), 3, b"a").unwrap();
        receiver.handle_data(ms(0), one_more, b"a").unwrap();
    }

    #[test]
    fn a_contradictory_end_is_refused() {
        let mut receiver = Receiver::new(100);
        receiver.handle_data(ms(0), 10, b"a").unwrap();
        assert_eq!(receiver.handle_fin(10), Err(Refused::End));
        assert_eq!(receiver.handle_fin(101), Err(Refused::End));
        receiver.handle_fin(20).unwrap();
        assert_eq!(receiver.handle_fin(21), Err(Refused::End));
        assert_eq!(receiver.handle_data(ms(0), 20, b"a"), Err(Refused::End));
        assert!(!receiver.has_ended());
    }
}
