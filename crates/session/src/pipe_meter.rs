//! Facts about a pipe that has no TCP_INFO, in the form of one that has: from the octets written,
//! those that wait in the socket, counts of the far end, and round-trip times.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use crate::estimator::PathInfo;

/// Least busy time of a throughput sample: tens of RFCOMM frames at 1 Mbit/s.
const SAMPLE_SPAN: Duration = Duration::from_millis(200);

/// Time constant of the throughput. Bluetooth in Sniff mode stands still for about 0.8 s every 5 to
/// 6 s (ADR 0023): over less, the average would follow these blackouts.
const SMOOTHING: Duration = Duration::from_secs(6);

/// Longest standstill that is part of the throughput. Blackouts are shorter; a device that is out
/// of range shows nothing about the rate.
const LONGEST_BLACKOUT: Duration = Duration::from_millis(1500);

/// Time for which octets may be on their way over the pipe, and the least number of them: what has
/// been handed to the socket cannot be scheduled any more. A socket of RFCOMM takes 0.4 s.
const AHEAD: Duration = Duration::from_millis(100);
const LEAST_AHEAD_BYTES: u64 = 4096;

/// Least congestion window: the 16 credits of an RFCOMM channel, with frames of 990 octets.
const LEAST_WINDOW_BYTES: u64 = 16 * 990;

/// Meter of one connection over a pipe. All counts are octets of its TLS stream.
#[derive(Clone, Debug, Default)]
pub struct PipeMeter {
    written: u64,
    /// Octets that have left the socket.
    drained: u64,
    /// The last look at the socket, and whether octets waited in it.
    seen: Option<(Timestamp, bool)>,
    /// When octets last left the socket, or began to wait in it.
    advanced: Timestamp,
    busy: Sample,
    throughput: Throughput,
    flight: Option<Flight>,
    /// Least throughput, by the last flight that emptied the socket.
    least: f64,
    /// The latest count of the far end, and when it was read.
    count: Option<(u64, Timestamp)>,
    arrived: u64,
    srtt: Duration,
    min_rtt: Duration,
}

/// Octets that left the socket while others waited in it.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    span: Duration,
    bytes: u64,
}

/// Octets that left the socket in a span of time, whether or not any waited.
#[derive(Clone, Copy, Debug)]
struct Flight {
    from: Timestamp,
    drained: u64,
    was_empty: bool,
}

/// Throughput of a pipe that is never empty: average over the latest busy time.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput {
    bytes_per_sec: f64,
    /// Busy time of all samples.
    span: Duration,
}

impl Throughput {
    /// Takes a sample. The first ones weigh as much as the time that they cover.
    fn update(&mut self, sample: Sample) {
        self.span += sample.span;
        let seconds = sample.span.as_secs_f64();
        let share = seconds / self.span.as_secs_f64();
        let weight = share.max(1.0 - (-seconds / SMOOTHING.as_secs_f64()).exp());
        self.bytes_per_sec += weight * (sample.bytes as f64 / seconds - self.bytes_per_sec);
    }
}

impl PipeMeter {
    /// The socket has been given `written` octets, of which `queued` wait in it. To be called
    /// before and after each write, and at intervals while octets wait.
    pub fn handle_socket(&mut self, now: Timestamp, written: u64, queued: u64) {
        let before = self.drained;
        self.written = self.written.max(written);
        let drained = written.saturating_sub(queued);
        // An estimate of the queue may have been too low.
        self.drained = self.drained.max(drained);
        let gained = self.drained - before;
        let waits = drained < written;
        let (since, waited) = self.seen.unwrap_or((now, false));
        if waited && waits {
            let standstill_counts = self.advanced + LONGEST_BLACKOUT;
            self.busy.span += now.min(standstill_counts).since(since);
            self.busy.bytes += gained;
            if self.busy.span >= SAMPLE_SPAN && self.busy.bytes > 0 {
                self.throughput.update(self.busy);
                self.busy = Sample::default();
            }
        }
        if gained > 0 || !waited {
            self.advanced = now;
        }
        self.seen = Some((now, waits));
        self.watch_flight(now, waits);
    }

    /// A pipe whose socket is empty at every look shows the least of its throughput.
    fn watch_flight(&mut self, now: Timestamp, waits: bool) {
        let flight = self.flight.get_or_insert(Flight {
            from: now,
            drained: self.drained,
            was_empty: false,
        });
        flight.was_empty |= !waits;
        let span = now.since(flight.from);
        if span >= SAMPLE_SPAN {
            let bytes = self.drained - flight.drained;
            if flight.was_empty {
                self.least = bytes as f64 / span.as_secs_f64();
            }
            self.flight = None;
        }
    }

    /// The far end of the pipe, or that of the subflow, had received `octets` this long ago.
    /// Returns whether that is possible; an impossible count has no effect.
    pub fn handle_count(&mut self, now: Timestamp, octets: u64, age: Duration) -> bool {
        if octets > self.written {
            return false;
        }
        if self.count.is_none_or(|(known, _)| octets >= known) {
            self.count = Some((octets, now.before(age)));
        }
        true
    }

    /// An exchange over the pipe took this long. Until the first one, the throughput is not used.
    pub fn handle_round_trip(&mut self, rtt: Duration) {
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.min_rtt = rtt;
        }
        self.srtt = (self.srtt * 7 + rtt) / 8;
        self.min_rtt = self.min_rtt.min(rtt);
    }

    /// The pipe as the near hop of a sender.
    pub fn path_info(&mut self, now: Timestamp) -> PathInfo {
        self.arrived = self.arrived_at(now);
        let (bytes_per_sec, app_limited) = self.rate();
        let window = 2.0 * bytes_per_sec * self.min_rtt.as_secs_f64();
        PathInfo {
            cwnd_bytes: (window as u64).max(LEAST_WINDOW_BYTES),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            bytes_arrived: self.arrived,
            delivery_rate: BitRate::from_bytes_per_sec(bytes_per_sec),
            app_limited,
            slow_start: false,
        }
    }

    /// Octets that may be handed to the socket now.
    pub fn room_bytes(&self, now: Timestamp) -> u64 {
        let ahead = self.rate().0 * AHEAD.as_secs_f64();
        let allowed = (ahead as u64).max(LEAST_AHEAD_BYTES);
        allowed.saturating_sub(self.written - self.arrived_at(now))
    }

    /// Throughput in bytes per second, zero if not known; whether it is only the least.
    fn rate(&self) -> (f64, bool) {
        match self.throughput.bytes_per_sec {
            known if known >= self.least => (known, false),
            _ => (self.least, true),
        }
    }

    /// Octets that have arrived: those of the latest count and what the throughput has brought
    /// since, but none that wait in the socket.
    fn arrived_at(&self, now: Timestamp) -> u64 {
        let arrived = match (self.count, self.rate().0) {
            (Some((count, at)), rate) if rate > 0.0 => {
                let since = rate * now.since(at).as_secs_f64();
                count.saturating_add(since as u64).min(self.drained)
            }
            _ => self.drained,
        };
        arrived.max(self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::FeedbackRule;
    use crate::estimator::Estimator;

    const STEP: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(40);

    /// A socket in front of a link, whose far end counts.
    struct Pipe {
        now: Timestamp,
        /// Per millisecond.
        rate: u64,
        written: u64,
        drained: u64,
        /// Octets that have left the socket, by the time at which they arrive.
        flying: VecDeque<(Timestamp, u64)>,
        arrived: u64,
        meter: PipeMeter,
    }

    /// From the socket to the far end, and from there to the sender.
    const DELAY: Duration = Duration::from_millis(20);

    impl Pipe {
        fn new(rate: u64) -> Self {
            let mut meter = PipeMeter::default();
            meter.handle_round_trip(RTT);
            Self {
                now: Timestamp::from_millis(1),
                rate,
                written: 0,
                drained: 0,
                flying: VecDeque::new(),
                arrived: 0,
                meter,
            }
        }

        /// Fills the socket up to this many octets, and lets a millisecond pass.
        fn step(&mut self, socket: u64, stands_still: bool) {
            let queued = self.written - self.drained;
            self.written += socket.saturating_sub(queued);
            self.now += STEP;
            if !stands_still {
                self.drained = self.written.min(self.drained + self.rate);
            }
            self.flying.push_back((self.now + DELAY, self.drained));
            while let Some(&(at, octets)) = self.flying.front()
                && at <= self.now
            {
                self.arrived = octets;
                self.flying.pop_front();
            }
            let queued = self.written - self.drained;
            self.meter.handle_socket(self.now, self.written, queued);
        }

        /// A report of the far end, as old as its way here.
        fn report(&mut self) {
            assert!(self.meter.handle_count(self.now, self.arrived, DELAY) || self.written == 0);
        }

        fn mbps(&mut self) -> f64 {
            self.meter.path_info(self.now).delivery_rate.mbps()
        }
    }

    #[test]
    fn a_constant_rate_is_exact_and_so_is_what_has_arrived() {
        let mut pipe = Pipe::new(125);
        for ms in 1..5000 {
            pipe.step(20_000, false);
            if ms % 100 == 0 {
                pipe.report();
            }
            let info = pipe.meter.path_info(pipe.now);
            if ms > 300 {
                assert!((info.delivery_rate.mbps() - 1.0).abs() < 1e-9, "{info:?}");
                assert!(!info.app_limited && !info.slow_start);
                // The report was on its way, and with it the age of its reading.
                let off = info.bytes_arrived.abs_diff(pipe.arrived);
                assert!(off <= 125 * 21, "{off} after {ms} ms");
            }
        }
        let info = pipe.meter.path_info(pipe.now);
        assert_eq!((info.srtt, info.min_rtt), (RTT, RTT));
        assert_eq!(info.cwnd_bytes, 16 * 990, "2 × 125 kB/s × 40 ms are less");
    }

    /// Bluetooth in Sniff mode: 1.267 Mbit/s, but nothing for 0.8 s of every 5.8 s, which makes
    /// 1.09 Mbit/s.
    #[test]
    fn blackouts_are_part_of_the_throughput_and_move_it_by_less_than_a_tenth() {
        let mut pipe = Pipe::new(158);
        let expected = 158.0 * 8e-3 * 5.0 / 5.8;
        let mut offs = Vec::new();
        for ms in 1..60_000 {
            let stands_still = ms % 5800 > 5000;
            pipe.step(20_000, stands_still);
            if ms % 100 == 0 && !stands_still {
                pipe.report();
            }
            if ms > 5800 {
                let mbps = pipe.mbps();
                assert!((mbps / expected - 1.0).abs() < 0.1, "{mbps} after {ms} ms");
                let info = pipe.meter.path_info(pipe.now);
                let b_s = pipe.written - info.bytes_arrived;
                offs.push(b_s.abs_diff(pipe.written - pipe.arrived));
            }
        }
        offs.sort_unstable();
        let at_95 = offs[offs.len() * 95 / 100];
        assert!(at_95 <= 10_000, "B_s is wrong by {at_95} octets");
    }

    #[test]
    fn of_a_standstill_of_ten_seconds_one_and_a_half_count() {
        let mut pipe = Pipe::new(100);
        for _ in 0..1002 {
            pipe.step(20_000, false);
        }
        for _ in 0..10_000 {
            pipe.step(20_000, true);
        }
        for _ in 0..202 {
            pipe.step(20_000, false);
        }
        // 1.2 s with bytes, 1.5 s without.
        let expected = 0.8 * 1.2 / 2.7;
        let mbps = pipe.mbps();
        assert!((mbps / expected - 1.0).abs() < 0.03, "{mbps}");
    }

    #[test]
    fn time_in_which_nothing_waits_is_no_part_of_the_throughput() {
        let mut pipe = Pipe::new(125);
        for ms in 0..20_000_u64 {
            // 8 kB every half second: 64 ms of each.
            pipe.step(if ms % 500 == 0 { 8000 } else { 0 }, false);
        }
        let mbps = pipe.mbps();
        assert!((mbps - 1.0).abs() < 0.02, "{mbps}");
    }

    /// A pipe that takes all at once, such as one within the host.
    #[test]
    fn an_empty_socket_shows_the_least_of_the_throughput() {
        let mut pipe = Pipe::new(1_000_000);
        for _ in 0..300 {
            pipe.step(5000, false);
        }
        let info = pipe.meter.path_info(pipe.now);
        assert!(info.app_limited);
        assert!((info.delivery_rate.mbps() - 40.0).abs() < 0.5, "{info:?}");
        assert_eq!(info.bytes_arrived, pipe.written);
    }

    #[test]
    fn room_is_a_tenth_of_a_second_at_the_known_rate() {
        let mut pipe = Pipe::new(125);
        assert_eq!(pipe.meter.room_bytes(pipe.now), 4096);
        pipe.step(4096, true);
        assert_eq!(pipe.meter.room_bytes(pipe.now), 0);
        for _ in 0..1000 {
            pipe.step(20_000, false);
        }
        assert_eq!(
            pipe.meter.room_bytes(pipe.now),
            0,
            "20 kB are more than 12.5"
        );
        while pipe.written > pipe.drained {
            pipe.step(0, false);
        }
        let room = pipe.meter.room_bytes(pipe.now);
        assert!((12_400..=12_600).contains(&room), "{room}");
    }

    /// A subflow starts with what it may write before the first fact.
    #[test]
    fn an_upload_is_not_stopped_by_the_first_octets() {
        let mut estimator = Estimator::new(true, FeedbackRule::default());
        let mut pipe = Pipe::new(125);
        let sent = 30_000;
        assert!(
            estimator.near_is_full(pipe.now, sent),
            "without any fact, for good"
        );
        for _ in 0..1000 {
            pipe.step(sent.saturating_sub(pipe.written).min(4096), false);
            let info = pipe.meter.path_info(pipe.now);
            estimator.on_path(pipe.now, info);
        }
        assert_eq!(pipe.written, sent);
        assert!(!estimator.near_is_full(pipe.now, sent));
    }

    #[test]
    fn counts_of_a_far_end_that_lies_neither_stop_nor_hurry_a_sender() {
        for lie in [Some(0), Some(10_000), Some(u64::MAX), None] {
            let mut pipe = Pipe::new(125);
            for ms in 1..3000 {
                pipe.step(20_000, false);
                if ms % 100 == 0 {
                    // The helper's word, then the count of an ACK.
                    let lie = lie.unwrap_or(pipe.written);
                    let possible = lie <= pipe.written;
                    let taken = pipe.meter.handle_count(pipe.now, lie, Duration::ZERO);
                    assert_eq!(taken, possible, "{lie} of {}", pipe.written);
                    pipe.report();
                }
            }
            let info = pipe.meter.path_info(pipe.now);
            let off = info.bytes_arrived.abs_diff(pipe.arrived);
            assert!(off <= 125 * 21, "{off} with {lie:?}");
            assert!((info.delivery_rate.mbps() - 1.0).abs() < 1e-9);
            // A count that falls is an old one.
            assert!(pipe.meter.handle_count(pipe.now, 0, Duration::ZERO));
            let later = pipe.now + Duration::from_secs(100);
            let after = pipe.meter.path_info(later).bytes_arrived;
            assert_eq!(after, pipe.drained, "no more than has left the socket");
        }
    }

    proptest! {
        /// Whatever a socket and a helper say, in any order.
        #[test]
        fn octets_never_arrive_before_they_leave_the_socket_nor_twice(
            facts in proptest::collection::vec(
                (0_u64..3000, 0_u64..200_000, 0_u64..400_000, any::<u64>(), 0_u64..5000),
                1..100,
            ),
        ) {
            let mut meter = PipeMeter::default();
            let (mut now, mut written, mut left, mut before) = (Timestamp::ZERO, 0, 0, 0);
            for (ms, more, queued, count, age) in facts {
                now += Duration::from_millis(ms);
                written += more;
                meter.handle_socket(now, written, queued);
                left = written.saturating_sub(queued).max(left);
                let possible = count <= written;
                let age = Duration::from_millis(age);
                prop_assert_eq!(meter.handle_count(now, count, age), possible);
                meter.handle_count(now, count % (written + 1), age);
                meter.handle_round_trip(age);
                let room = meter.room_bytes(now);
                let info = meter.path_info(now);
                prop_assert!((before..=left).contains(&info.bytes_arrived));
                prop_assert!(info.cwnd_bytes >= LEAST_WINDOW_BYTES);
                let allowed = info.delivery_rate.bytes_in(AHEAD).max(LEAST_AHEAD_BYTES);
                let ahead = written - info.bytes_arrived;
                prop_assert!(room <= (allowed + 1).saturating_sub(ahead), "{room} {info:?}");
                before = info.bytes_arrived;
            }
        }
    }
}
