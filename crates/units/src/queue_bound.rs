//! Bound of the queue that a TCP sender builds in front of its link.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use crate::{BitRate, Timestamp};

/// Maximum time for which bytes wait in front of the link: less than the usual queue of 100 ms,
/// which then never overflows, and longer than the intervals at which a sender that has reached the
/// bound looks again.
const WAIT: Duration = Duration::from_millis(50);
/// Interval over which a rate is measured.
const EVERY: Duration = Duration::from_millis(50);
/// Age from which a rate says nothing about now.
const STALE: Duration = Duration::from_secs(1);
/// In flight or unsent while the link is busy: a TLS record.
const BUSY_BYTES: u64 = 16 << 10;
/// Minimum of the bound.
const LEAST_BYTES: u64 = 2 * BUSY_BYTES;
/// The same beside messages: as long as the senders' short queues, and two segments besides, since
/// a receiver acknowledges every second one.
const WAIT_BESIDE_MESSAGES: Duration = Duration::from_millis(10);
const SEGMENTS: u64 = 2;
/// First and longest time without a bound after the rate has fallen.
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LAST_PAUSE: Duration = Duration::from_secs(64);

/// Time that bytes which are unsent in a socket last at most.
const UNSENT: Duration = Duration::from_millis(150);
/// Minimum of these bytes, and bytes while no rate is known.
const LEAST_UNSENT_BYTES: u64 = 16 << 10;
const FIRST_UNSENT_BYTES: u64 = 64 << 10;

/// Bytes that a socket has unsent at most, by its delivery rate, if that is known: what lasts for
/// 150 ms, at least 16 KiB. A bound that begins finds little that cannot be held back any more.
pub fn most_unsent_bytes(rate: Option<BitRate>) -> u64 {
    rate.map_or(FIRST_UNSENT_BYTES, |rate| {
        rate.bytes_in(UNSENT).max(LEAST_UNSENT_BYTES)
    })
}

/// State of a TCP sender.
#[derive(Debug, Clone, Copy)]
pub struct SenderState {
    /// Bytes that have arrived so far, also selectively acknowledged ones.
    pub arrived_bytes: u64,
    /// Bytes in flight or unsent.
    pub queued_bytes: u64,
    /// Minimum round-trip time, if it is known.
    pub min_rtt: Option<Duration>,
    /// Payload of a packet of full size.
    pub segment_bytes: u64,
}

/// Bound of the bytes that a TCP sender has in flight or unsent: its highest rate of the last
/// second, times twice the minimum round-trip time (one round trip in flight, one for a rate that
/// grows) and 50 ms, at least 32 KiB (ADR 0053). Beside messages it is that rate times twice the
/// minimum round-trip time and 10 ms, and two segments (ADR 0072). The rate is that of bytes that
/// arrive: the kernel's delivery rate is not lowered while a sender keeps within a bound, since it
/// counts as limited by its application.
///
/// There is no bound while the rate is not known: if the link has just become busy, or takes all
/// that comes. A time counts for the rate if a record was queued at both of its ends; beside
/// messages also if the bound was reached, which may be less than a record. Otherwise the rate is
/// that of the source. Nor is there a bound for 4 s, doubled up to 64 s, after the rate has stayed
/// below two thirds of what it was for a second: if others in the same queue have no such bound,
/// this sender would get ever less.
///
/// Call [`QueueBound::look`] when [`QueueBound::is_due`] holds, and [`QueueBound::note_reached`]
/// when bytes wait for room.
#[derive(Debug, Clone)]
pub struct QueueBound {
    beside_messages: bool,
    /// The bound was reached since the last look.
    reached: bool,
    looked: Option<Timestamp>,
    /// Bytes that had arrived by the last look, if the link was busy.
    arrived: Option<u64>,
    rates: VecDeque<(Timestamp, BitRate)>,
    /// Highest rate since the link became busy, or since the last pause.
    best: BitRate,
    round_trips: Duration,
    segment_bytes: u64,
    /// End of the last time without a bound.
    paused_until: Timestamp,
    next_pause: Duration,
}

impl Default for QueueBound {
    fn default() -> Self {
        Self {
            beside_messages: false,
            reached: false,
            looked: None,
            arrived: None,
            rates: VecDeque::new(),
            best: BitRate::ZERO,
            round_trips: Duration::ZERO,
            segment_bytes: 1,
            paused_until: Timestamp::ZERO,
            next_pause: FIRST_PAUSE,
        }
    }
}

impl QueueBound {
    /// Whether messages come over other connections in the same queue: the bound is shorter then,
    /// 10 ms and two segments in place of 50 ms.
    pub fn set_beside_messages(&mut self, beside_messages: bool) {
        self.beside_messages = beside_messages;
    }

    /// Bytes wait that the bound holds back. Beside messages, nothing else tells that the link is
    /// busy where the bound is less than a record.
    pub fn note_reached(&mut self) {
        self.reached = true;
    }

    /// Whether a look is due: each 50 ms.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.looked.is_none_or(|looked| now.since(looked) >= EVERY)
    }

    /// Takes in the state of the sender.
    pub fn look(&mut self, now: Timestamp, sender: SenderState) {
        let SenderState {
            arrived_bytes: arrived,
            queued_bytes: queued,
            min_rtt,
            segment_bytes,
        } = sender;
        let looked = self.looked.replace(now).unwrap_or(now);
        let before = self.arrived.take();
        let reached = mem::take(&mut self.reached);
        self.segment_bytes = segment_bytes.max(1);
        self.round_trips = min_rtt.unwrap_or_default() * 2;
        if now < self.paused_until {
            return;
        }
        self.rates.retain(|(at, _)| now.since(*at) < STALE);
        if self.rates.is_empty() {
            self.best = BitRate::ZERO;
        }
        // Otherwise the source sets the rate.
        if queued < BUSY_BYTES && !(self.beside_messages && reached) {
            return;
        }
        self.arrived = Some(arrived);
        let time = now.since(looked);
        // After a longer time the link may have been idle in between.
        if let Some(before) = before.filter(|_| time <= 2 * EVERY) {
            let rate = BitRate::over(arrived.saturating_sub(before), time);
            self.rates.push_back((now, rate));
            self.best = self.best.max(rate);
            let highest = self.highest().unwrap_or_default();
            if highest.bps() < self.best.bps() / 3 * 2 {
                self.pause(now);
            }
        }
    }

    fn pause(&mut self, now: Timestamp) {
        if now.since(self.paused_until) >= LAST_PAUSE {
            self.next_pause = FIRST_PAUSE;
        }
        self.paused_until = now + self.next_pause;
        self.next_pause = (self.next_pause * 2).min(LAST_PAUSE);
        self.rates.clear();
        self.arrived = None;
    }

    fn highest(&self) -> Option<BitRate> {
        self.rates.iter().map(|(_, rate)| *rate).max()
    }

    /// Bytes that may be written while so many are in flight or unsent, if there is a bound. Beside
    /// messages these are whole segments, since nothing in the kernel holds back smaller ones.
    pub fn room_bytes(&self, queued: u64) -> Option<u64> {
        let room = self.bytes()?.saturating_sub(queued);
        Some(match self.beside_messages {
            true => room / self.segment_bytes * self.segment_bytes,
            false => room,
        })
    }

    /// The bound in bytes, if there is one.
    pub fn bytes(&self) -> Option<u64> {
        let rate = self.highest()?;
        Some(match self.beside_messages {
            true => {
                let least = SEGMENTS * self.segment_bytes;
                rate.bytes_in(self.round_trips + WAIT_BESIDE_MESSAGES) + least
            }
            false => rate.bytes_in(self.round_trips + WAIT).max(LEAST_BYTES),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_RTT: Duration = Duration::from_millis(2);
    const SEGMENT: u64 = 1_448;
    const NONE: Duration = Duration::ZERO;
    const MUCH: u64 = 1 << 20;

    /// A sender whose application gives it as much as the bound allows, and no more than `window`.
    /// Bytes wait where that is more than the bound.
    #[derive(Default)]
    struct Sender {
        bound: QueueBound,
        now: Timestamp,
        acked: u64,
    }

    impl Sender {
        /// So many steps of 50 ms over a link of `mbps`, in front of which others have a queue;
        /// returns the bytes delivered.
        fn run(&mut self, mbps: f64, window: u64, others: Duration, steps: u32) -> u64 {
            let before = self.acked;
            for _ in 0..steps {
                assert!(self.bound.is_due(self.now));
                let bound = self.bound.bytes().filter(|bytes| *bytes < window);
                let queued = bound.unwrap_or(window);
                if bound.is_some() {
                    self.bound.note_reached();
                }
                let state = SenderState {
                    arrived_bytes: self.acked,
                    queued_bytes: queued,
                    min_rtt: Some(MIN_RTT),
                    segment_bytes: SEGMENT,
                };
                self.bound.look(self.now, state);
                assert!(!self.bound.is_due(self.now));
                self.now += EVERY;
                // A window for each round trip, as far as the link allows.
                let round_trips = EVERY.as_secs_f64() / (MIN_RTT + others).as_secs_f64();
                let most = BitRate::from_mbps(mbps).bytes_in(EVERY);
                self.acked += ((queued as f64 * round_trips) as u64).min(most);
            }
            self.acked - before
        }
    }

    #[test]
    fn a_busy_link_has_50_ms_and_two_round_trips() {
        let mut sender = Sender::default();
        assert_eq!(sender.bound.bytes(), None);
        assert_eq!(sender.run(8.0, MUCH, NONE, 20), 1_000_000);
        assert_eq!(sender.bound.bytes(), Some(54_000));
        // A faster link is seen.
        sender.run(80.0, MUCH, NONE, 4);
        assert_eq!(sender.bound.bytes(), Some(540_000));
    }

    #[test]
    fn a_slow_link_has_two_records() {
        let mut sender = Sender::default();
        sender.run(1.0, MUCH, NONE, 20);
        assert_eq!(sender.bound.bytes(), Some(32 << 10));
    }

    #[test]
    fn beside_messages_it_has_10_ms_two_round_trips_and_two_segments() {
        let beside = |mbps| {
            let mut sender = Sender::default();
            sender.bound.set_beside_messages(true);
            sender.run(mbps, MUCH, NONE, 20);
            sender
        };
        assert_eq!(beside(8.0).bound.bytes(), Some(16_896));
        let mut sender = beside(1.0);
        assert_eq!(sender.bound.bytes(), Some(4_646));
        assert_eq!(sender.bound.room_bytes(0), Some(3 * SEGMENT));
        assert_eq!(sender.bound.room_bytes(4_000), Some(0));
        sender.bound.set_beside_messages(false);
        assert_eq!(sender.bound.room_bytes(4_000), Some((32 << 10) - 4_000));
    }

    /// A link takes at once what comes from a source of 10 and of 3 Mbit/s, 1.5 s each.
    #[test]
    fn the_rate_of_a_source_is_none_of_the_link() {
        for beside_messages in [false, true] {
            let mut sender = Sender::default();
            sender.bound.set_beside_messages(beside_messages);
            for _ in 0..20 {
                for mbps in [10.0, 3.0] {
                    for _ in 0..30 {
                        sender.run(mbps, 0, NONE, 1);
                        sender.acked += BitRate::from_mbps(mbps).bytes_in(EVERY);
                        assert_eq!(sender.bound.bytes(), None);
                        assert_eq!(sender.bound.paused_until, Timestamp::ZERO);
                    }
                }
            }
        }
    }

    /// Where the bound is less than a record, it lasts while it is reached.
    #[test]
    fn a_bound_of_less_than_a_record_lasts_while_it_is_reached() {
        let mut sender = Sender::default();
        sender.bound.set_beside_messages(true);
        sender.run(1.0, MUCH, NONE, 20);
        for _ in 0..100 {
            sender.run(1.0, MUCH, NONE, 1);
            assert_eq!(sender.bound.bytes(), Some(4_646));
        }
        sender.run(1.0, 4_000, NONE, 22);
        assert_eq!(sender.bound.bytes(), None);
    }

    #[test]
    fn unsent_bytes_last_for_150_ms() {
        let most = |mbps| most_unsent_bytes(Some(BitRate::from_mbps(mbps)));
        assert_eq!(most(8.0), 150_000);
        assert_eq!(most(0.1), 16 << 10);
        assert_eq!(most_unsent_bytes(None), 64 << 10);
    }

    #[test]
    fn a_link_that_takes_what_comes_has_none() {
        let mut sender = Sender::default();
        sender.run(8.0, 10_000, NONE, 20);
        assert_eq!(sender.bound.bytes(), None);
        sender.run(8.0, MUCH, NONE, 20);
        // What is known lasts for a second.
        sender.run(8.0, 10_000, NONE, 18);
        assert_eq!(sender.bound.bytes(), Some(54_000));
        sender.run(8.0, 10_000, NONE, 4);
        assert_eq!(sender.bound.bytes(), None);
    }

    #[test]
    fn a_link_whose_rate_falls_has_none_for_a_while() {
        let mut sender = Sender::default();
        sender.run(20.0, MUCH, NONE, 20);
        sender.run(5.0, MUCH, NONE, 18);
        assert_eq!(sender.bound.bytes(), Some(135_000));
        sender.run(5.0, MUCH, NONE, 4);
        assert_eq!(sender.bound.bytes(), None);
        sender.run(5.0, MUCH, NONE, 74);
        assert_eq!(sender.bound.bytes(), None);
        sender.run(5.0, MUCH, NONE, 8);
        assert_eq!(sender.bound.bytes(), Some(33_750));
    }

    #[test]
    fn a_pause_of_the_application_is_no_rate() {
        let mut sender = Sender::default();
        sender.run(8.0, MUCH, NONE, 20);
        sender.now += Duration::from_secs(10);
        sender.run(8.0, MUCH, NONE, 1);
        assert_eq!(sender.bound.bytes(), None);
        sender.run(8.0, MUCH, NONE, 1);
        assert_eq!(sender.bound.bytes(), Some(54_000));
    }

    /// 100 ms of others stand in front of the link, whatever this sender does.
    #[test]
    fn it_does_not_yield_to_the_queue_of_others() {
        let mut sender = Sender::default();
        let others = Duration::from_millis(100);
        let steps = 20 * 120;
        let carried = sender.run(20.0, MUCH, others, steps);
        let most = BitRate::from_mbps(20.0).bytes_in(EVERY * steps);
        assert!(carried as f64 > 0.97 * most as f64, "{carried} of {most}");
    }
}
