//! Receiver: reassembly, receive window, acknowledgements.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::{MSS, Sack};

/// Linux delays an acknowledgement by 40 ms at least.
const DELAYED_ACK: Duration = Duration::from_millis(40);
/// Linux acknowledges the first segments of a connection at once.
const QUICK_ACKS: u32 = 16;

#[derive(Debug)]
pub(super) struct Receiver {
    capacity: u64,
    /// Offset beyond which no window is advertised.
    limit: u64,
    /// Everything before has arrived.
    next: u64,
    /// Everything before has been read.
    read: u64,
    ready: VecDeque<Bytes>,
    /// Arrived beyond `next`, by offset, and the same as ranges.
    beyond: BTreeMap<u64, Bytes>,
    ranges: Vec<(u64, u64)>,
    /// An offset in each range that the next acknowledgement reports, the most recent first.
    reported: Vec<u64>,
    /// Offset behind the last byte, once known.
    fin: Option<u64>,
    advertised: u64,
    since_ack: u64,
    /// Bytes for which an acknowledgement is sent.
    ack_bytes: u64,
    quick_acks: u32,
    ack_at: Option<Timestamp>,
    ack_now: bool,
}

impl Receiver {
    pub(super) fn new(capacity: u64, ack_segments: u32) -> Self {
        let capacity = capacity.max(2 * MSS);
        Self {
            capacity,
            limit: u64::MAX,
            next: 0,
            read: 0,
            ready: VecDeque::new(),
            beyond: BTreeMap::new(),
            ranges: Vec::new(),
            reported: Vec::new(),
            fin: None,
            advertised: capacity,
            since_ack: 0,
            ack_bytes: u64::from(ack_segments) * MSS,
            quick_acks: QUICK_ACKS,
            ack_at: None,
            ack_now: false,
        }
    }

    pub(super) fn on_data(&mut self, now: Timestamp, seq: u64, payload: Bytes, fin: bool) {
        let data_end = seq + payload.len() as u64;
        let end = data_end + u64::from(fin);
        if end <= self.next || end > self.advertised + 1 {
            // A copy, a probe, or data beyond the window: acknowledge at once.
            self.ack_now = true;
            return;
        }
        if fin {
            self.fin = Some(data_end);
        }
        if seq > self.next {
            self.reported.insert(0, seq);
            self.beyond.entry(seq).or_insert(payload);
            add_range(&mut self.ranges, seq, end);
            self.ack_now = true;
            return;
        }
        let filling = !self.beyond.is_empty();
        self.accept(seq, payload);
        while let Some(first) = self.beyond.first_entry() {
            if *first.key() > self.next {
                break;
            }
            let (seq, payload) = first.remove_entry();
            self.accept(seq, payload);
        }
        if self.fin == Some(self.next) {
            self.next += 1;
            self.ack_now = true;
        }
        self.ranges.retain(|range| range.1 > self.next);
        self.since_ack += end - seq;
        if filling || self.quick_acks > 0 || self.since_ack >= self.ack_bytes {
            self.ack_now = true;
        } else if self.ack_at.is_none() {
            self.ack_at = Some(now + DELAYED_ACK);
        }
    }

    fn accept(&mut self, seq: u64, mut payload: Bytes) {
        let known = self.next.saturating_sub(seq);
        if known >= payload.len() as u64 {
            return;
        }
        let payload = payload.split_off(known as usize);
        self.next += payload.len() as u64;
        self.ready.push_back(payload);
    }

    /// The next bytes in order, at most `max`.
    pub(super) fn read(&mut self, max: usize) -> Option<Bytes> {
        let first = self.ready.front_mut().filter(|_| max > 0)?;
        let bytes = if first.len() <= max {
            self.ready.pop_front()?
        } else {
            first.split_to(max)
        };
        self.read += bytes.len() as u64;
        self.update_window();
        Some(bytes)
    }

    /// Advertises at most `bytes` beyond what has arrived (TCP_WINDOW_CLAMP).
    pub(super) fn limit_window(&mut self, bytes: u64) {
        self.limit = self.next.saturating_add(bytes);
        self.update_window();
    }

    /// Linux sends a window update once the window has at least doubled.
    fn update_window(&mut self) {
        let left = self.advertised.saturating_sub(self.next);
        let window = self.window_end().saturating_sub(self.next);
        if window >= 2 * MSS && window >= 2 * left {
            self.ack_now = true;
        }
    }

    /// Everything before this offset has arrived.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn readable(&self) -> u64 {
        self.received() - self.read
    }

    /// Bytes in order so far.
    pub(super) fn received(&self) -> u64 {
        match self.fin {
            Some(fin) => self.next.min(fin),
            None => self.next,
        }
    }

    /// Whether everything has arrived and been read.
    pub(super) fn is_finished(&self) -> bool {
        self.fin
            .is_some_and(|fin| self.read == fin && self.next > fin)
    }

    /// ACK number, end of the window and ranges of a segment sent now.
    pub(super) fn acknowledge(&mut self) -> (u64, u64, Sack) {
        self.ack_now = false;
        self.ack_at = None;
        self.since_ack = 0;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.advertised = self.window_end();
        // The ranges reported before are repeated, so that one lost acknowledgement hides none
        // (RFC 2018, section 4).
        let mut sack: Sack = [None; 3];
        let ranges = &self.ranges;
        let mut slots = sack.iter_mut();
        let mut listed = Vec::new();
        self.reported.retain(|offset| {
            let found = ranges.iter().find(|r| (r.0..r.1).contains(offset));
            let Some(range) = found.filter(|range| !listed.contains(*range)) else {
                return false;
            };
            let Some(slot) = slots.next() else {
                return false;
            };
            *slot = Some(*range);
            listed.push(*range);
            true
        });
        (self.next, self.advertised, sack)
    }

    pub(super) fn wants_to_ack(&self) -> bool {
        self.ack_now
    }

    pub(super) fn acknowledge_at_once(&mut self) {
        self.ack_now = true;
    }

    pub(super) fn ack_timer(&self) -> Option<Timestamp> {
        self.ack_at
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_now = true;
        }
    }

    /// End of the window: the buffer's size beyond the last byte read. It never decreases.
    fn window_end(&self) -> u64 {
        let limited = (self.read + self.capacity).min(self.limit);
        limited.max(self.advertised)
    }
}

/// Adds a range to sorted ones that do not touch.
fn add_range(ranges: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    let first = ranges.partition_point(|range| range.1 < start);
    let behind = ranges.partition_point(|range| range.0 <= end);
    let merged = ranges.get(first..behind).unwrap_or_default();
    let start = merged.first().map_or(start, |range| range.0.min(start));
    let end = merged.last().map_or(end, |range| range.1.max(end));
    ranges.splice(first..behind, [(start, end)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(len: u64) -> Bytes {
        Bytes::from(vec![7; len as usize])
    }

    #[test]
    fn ranges_merge() {
        let mut ranges = Vec::new();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 30), (0, 5), (55, 70)] {
            add_range(&mut ranges, start, end);
        }
        assert_eq!(ranges, [(0, 5), (10, 40), (50, 70)]);
        add_range(&mut ranges, 0, 100);
        assert_eq!(ranges, [(0, 100)]);
    }

    #[test]
    fn the_most_recent_range_comes_first() {
        let mut r = Receiver::new(1 << 20, 2);
        for (seq, sack) in [
            (1_000, [Some((1_000, 1_500)), None, None]),
            (5_000, [Some((5_000, 5_500)), Some((1_000, 1_500)), None]),
            (
                7_000,
                [
                    Some((7_000, 7_500)),
                    Some((5_000, 5_500)),
                    Some((1_000, 1_500)),
                ],
            ),
            // Each is reported three times, not that at 1,000 in place of that at 5,000.
            (
                3_000,
                [
                    Some((3_000, 3_500)),
                    Some((7_000, 7_500)),
                    Some((5_000, 5_500)),
                ],
            ),
            (
                7_500,
                [
                    Some((7_000, 8_000)),
                    Some((3_000, 3_500)),
                    Some((5_000, 5_500)),
                ],
            ),
        ] {
            r.on_data(Timestamp::ZERO, seq, segment(500), false);
            let (ack, _, reported) = r.acknowledge();
            assert_eq!((ack, reported), (0, sack), "{seq}");
        }
        r.on_data(Timestamp::ZERO, 0, segment(1_000), false);
        assert_eq!(r.acknowledge().0, 1_500);
    }

    #[test]
    fn every_second_segment_is_acknowledged_after_the_first_ones() {
        let mut r = Receiver::new(1 << 20, 2);
        let mut acks = Vec::new();
        for i in 0..20 {
            r.on_data(Timestamp::ZERO, i * MSS, segment(MSS), false);
            if r.wants_to_ack() {
                r.acknowledge();
                acks.push(i);
            }
        }
        assert_eq!(acks, (0..16).chain([17, 19]).collect::<Vec<_>>());
        r.on_data(Timestamp::ZERO, 20 * MSS, segment(10), false);
        assert!(!r.wants_to_ack());
        assert_eq!(r.ack_timer(), Some(Timestamp::from_millis(40)));
        r.handle_timeout(Timestamp::from_millis(40));
        assert!(r.wants_to_ack());
    }

    #[test]
    fn a_reader_that_makes_room_says_so() {
        let mut r = Receiver::new(4 * MSS, 2);
        r.quick_acks = 0;
        for i in 0..4 {
            r.on_data(Timestamp::ZERO, i * MSS, segment(MSS), false);
        }
        let (ack, end, _) = r.acknowledge();
        assert_eq!(ack, end, "the window is closed");
        r.read(MSS as usize).unwrap();
        assert!(!r.wants_to_ack(), "one segment is too little to speak of");
        r.read(MSS as usize).unwrap();
        assert!(r.wants_to_ack());
        assert_eq!(r.acknowledge().1, 6 * MSS);
    }

    #[test]
    fn a_limited_window_opens_by_the_limit_and_never_shrinks() {
        let mut r = Receiver::new(100 * MSS, 2);
        r.quick_acks = 0;
        r.limit_window(10 * MSS);
        assert_eq!(r.acknowledge().1, 100 * MSS, "advertised before");
        for i in 0..100 {
            r.on_data(Timestamp::ZERO, i * MSS, segment(MSS), false);
            r.read(MSS as usize).unwrap();
        }
        assert_eq!(r.acknowledge().1, 100 * MSS);
        r.limit_window(MSS);
        assert!(!r.wants_to_ack());
        r.limit_window(3 * MSS);
        assert!(r.wants_to_ack());
        assert_eq!(r.acknowledge().1, 103 * MSS);
    }

    #[test]
    fn the_end_counts_as_one() {
        let mut r = Receiver::new(1 << 20, 2);
        r.on_data(Timestamp::ZERO, 10, Bytes::new(), true);
        assert!(!r.is_finished());
        r.on_data(Timestamp::ZERO, 0, segment(10), false);
        assert_eq!(r.acknowledge().0, 11);
        assert_eq!(r.readable(), 10);
        r.read(10).unwrap();
        assert!(r.is_finished());
        assert_eq!(r.received(), 10);
    }
}
