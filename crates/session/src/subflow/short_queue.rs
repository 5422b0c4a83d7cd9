//! Limit of the octets in flight that keeps the queue of a near hop short while short exchanges run
//! beside transfers (ADR 0027).
//!
//! The rule is that of FAST TCP (Wei et al., IEEE/ACM ToN 2006, equation 11): the window that keeps
//! a given number of octets in the queue, by the ratio of the least to the present round-trip
//! time. An error of the least round-trip time or of the rate changes the length of the queue in
//! proportion.
//!
//! The kernel's least round-trip time is up to five minutes old. A path that has become longer
//! looks like a queue, and is given less: at twice the delay a quarter of its rate. Where such a
//! queue lasts, the window is halved for three round trips every 10 s; the round-trip time that is
//! left then is the least one.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use crate::estimator::PathInfo;

/// Queueing delay that is aimed at: the path does not run dry between two acknowledgements.
pub(crate) const AIM: Duration = Duration::from_millis(10);

/// Least octets that are kept in the queue: two full packets.
const LEAST_QUEUED: f64 = 3_000.0;

/// The window has settled within a few round trips.
const GAIN: f64 = 0.5;

/// A window that was not set for so long begins anew: nothing was sent meanwhile, and the path may
/// be another one.
const KEPT: Duration = Duration::from_secs(1);

/// A longer queue than aimed at that lasts for so long may be a longer path. BBR looks for its
/// least round-trip time as rarely as that (Cardwell et al., ACM Queue 2016).
const DOUBTED_AFTER: Duration = Duration::from_secs(10);

/// Round trips with half of the window: the smoothed round-trip time follows within them.
const EMPTYING: u32 = 3;

/// The limit of a subflow.
#[derive(Debug, Default)]
pub(crate) struct ShortQueue {
    window: Option<f64>,
    /// When the window was set last.
    at: Timestamp,
    /// Packets have waited since: the window is no longer doubled in slow start.
    has_queued: bool,
    /// Since when more has waited than is aimed at, or since it was last found out why.
    long_since: Option<Timestamp>,
    /// The queue is being emptied until then.
    emptying: Option<Timestamp>,
    /// Round-trip time with the queue empty, as found out last.
    least: Option<Duration>,
}

impl ShortQueue {
    /// Adapts the window to the kernel's view of the near hop, once a round trip.
    pub(crate) fn on_path(&mut self, now: Timestamp, path: &PathInfo, rate: BitRate, sent: u64) {
        if path.srtt.is_zero() || path.min_rtt.is_zero() {
            return;
        }
        if now.since(self.at) > KEPT.max(path.srtt * 2) {
            self.forget();
        }
        let queued = rate.bytes_per_sec() * AIM.as_secs_f64() + LEAST_QUEUED;
        let Some(window) = self.window else {
            self.window = Some(rate.bytes_per_sec() * path.min_rtt.as_secs_f64() + queued);
            self.at = now;
            return;
        };
        if now.since(self.at) < path.srtt {
            return;
        }
        self.at = now;
        let waited = path.srtt.saturating_sub(path.min_rtt);
        self.has_queued |= !path.slow_start || waited > AIM / 2;
        self.doubt(now, path, rate.time_for(queued as u64) * 2);
        if self.emptying.is_some() {
            return;
        }
        let least = self.least.unwrap_or_default().max(path.min_rtt);
        let ratio = least.as_secs_f64() / path.srtt.as_secs_f64();
        let (wanted, gain) = match self.has_queued {
            true => (window * ratio.min(1.0) + queued, GAIN),
            false => (window * 2.0, 1.0),
        };
        let in_flight = sent.saturating_sub(path.bytes_arrived) as f64;
        // A window that is not used says nothing about a longer one.
        if wanted < window || in_flight > window / 2.0 {
            self.window = Some(window + gain * (wanted - window));
        }
    }

    /// Finds out from time to time whether a queue of more than `long` is a longer path.
    fn doubt(&mut self, now: Timestamp, path: &PathInfo, long: Duration) {
        if self.emptying.is_some_and(|until| now >= until) {
            self.least = Some(path.srtt);
            self.emptying = None;
            self.long_since = Some(now);
        } else if self.emptying.is_some() {
            return;
        }
        if path.srtt.saturating_sub(path.min_rtt) <= long {
            (self.long_since, self.least) = (None, None);
        } else if now.since(*self.long_since.get_or_insert(now)) >= DOUBTED_AFTER {
            self.emptying = Some(now + path.srtt * EMPTYING);
        }
    }

    /// The time of short queues is over.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether so many octets in flight are enough.
    pub(crate) fn is_full(&self, in_flight: u64) -> bool {
        self.allowed().is_some_and(|most| in_flight as f64 >= most)
    }

    fn allowed(&self) -> Option<f64> {
        let part = if self.emptying.is_some() { 0.5 } else { 1.0 };
        self.window.map(|window| window * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fluid path on which as much is in flight as the limit allows.
    struct Path {
        rate: f64,
        base: f64,
        /// Least round-trip time as the kernel knows it.
        min_rtt: f64,
        slow_start: bool,
    }

    impl Path {
        fn new(mbps: f64, base: f64) -> Self {
            Self {
                rate: BitRate::from_mbps(mbps).bytes_per_sec(),
                base,
                min_rtt: base,
                slow_start: false,
            }
        }

        /// Throughput and queueing delay after a number of round trips, with this estimate of the
        /// rate.
        fn settle(&self, limit: &mut ShortQueue, mbps: f64, rounds: u32) -> (f64, f64) {
            let (mut rtt, mut used) = (self.base, 0.0);
            let mut now = limit.at + Duration::from_millis(1);
            for _ in 0..rounds {
                let path = PathInfo {
                    srtt: Duration::from_secs_f64(rtt),
                    min_rtt: Duration::from_secs_f64(self.min_rtt),
                    slow_start: self.slow_start,
                    ..PathInfo::default()
                };
                limit.on_path(now, &path, BitRate::from_mbps(mbps), used as u64);
                used = limit.allowed().unwrap();
                rtt = self.base.max(used / self.rate);
                now += Duration::from_secs_f64(rtt * 1.01);
            }
            (used / rtt / self.rate, rtt - self.base)
        }
    }

    #[test]
    fn a_path_is_busy_with_a_queue_of_10_ms_and_two_packets() {
        for (mbps, base) in [(1.1, 0.05), (8.0, 0.05), (8.0, 0.004), (100.0, 0.2)] {
            let path = Path::new(mbps, base);
            let (share, queue) = path.settle(&mut ShortQueue::default(), mbps, 100);
            let aim = 0.010 + LEAST_QUEUED / path.rate;
            assert!(share > 0.999, "{mbps}: {share}");
            assert!((queue - aim).abs() < 0.001, "{mbps}: {queue}, not {aim}");
        }
    }

    #[test]
    fn a_path_twice_as_long_has_a_quarter_of_its_rate_for_10_s() {
        let mut path = Path::new(8.0, 0.05);
        let mut limit = ShortQueue::default();
        path.settle(&mut limit, 8.0, 20);
        path.base = 0.1;
        let (share, queue) = path.settle(&mut limit, 8.0, 90);
        assert!(share > 0.25 && queue == 0.0, "{share}, {queue}");
        let (share, queue) = path.settle(&mut limit, 8.0, 60);
        assert!(share > 0.999 && queue < 0.014, "{share}, {queue}");
        // Short again: after 10 s its queue is short, too.
        path.base = 0.05;
        path.settle(&mut limit, 8.0, 200);
        let (share, queue) = path.settle(&mut limit, 8.0, 100);
        assert!(share > 0.999 && queue < 0.014, "{share}, {queue}");
    }

    /// Others fill a queue of 70 ms.
    #[test]
    fn finding_out_why_a_path_is_long_costs_little() {
        let mut path = Path::new(8.0, 0.12);
        path.min_rtt = 0.05;
        let mut limit = ShortQueue::default();
        path.settle(&mut limit, 8.0, 120);
        let rounds = 900;
        let shares = (0..rounds).map(|_| path.settle(&mut limit, 8.0, 1).0);
        let mean = shares.sum::<f64>() / f64::from(rounds);
        assert!(mean > 0.97, "{mean}");
    }

    #[test]
    fn a_path_that_has_become_slower_has_a_queue_as_much_longer() {
        let mut limit = ShortQueue::default();
        Path::new(8.0, 0.05).settle(&mut limit, 8.0, 20);
        let (share, queue) = Path::new(4.0, 0.05).settle(&mut limit, 8.0, 100);
        assert!(share > 0.999 && queue < 0.027, "{share}, {queue}");
    }

    #[test]
    fn slow_start_doubles_until_packets_wait() {
        let mut path = Path::new(80.0, 0.05);
        path.slow_start = true;
        let mut limit = ShortQueue::default();
        // The rate of an initial window.
        let (share, _) = path.settle(&mut limit, 2.4, 7);
        assert!(share > 0.999, "{share}");
        let (_, queue) = path.settle(&mut limit, 80.0, 50);
        assert!(queue < 0.012, "{queue}");
    }

    /// Short exchanges go on after an hour in which nothing was sent.
    #[test]
    fn a_window_begins_anew_after_a_pause() {
        let mut path = Path::new(8.0, 0.05);
        let mut limit = ShortQueue::default();
        path.base = 0.5;
        path.settle(&mut limit, 8.0, 20);
        let info = PathInfo {
            srtt: Duration::from_millis(50),
            min_rtt: Duration::from_millis(50),
            slow_start: true,
            ..PathInfo::default()
        };
        let rate = BitRate::from_mbps(8.0);
        let hour = Timestamp::from_millis(3_600_000);
        limit.on_path(hour, &info, rate, 0);
        assert!(limit.is_full(63_000) && !limit.is_full(62_999));
        // Slow start, too, begins anew.
        limit.on_path(hour + info.srtt, &info, rate, 63_000);
        assert!(limit.is_full(126_000) && !limit.is_full(125_999));
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let path = PathInfo {
            srtt: Duration::from_millis(50),
            min_rtt: Duration::from_millis(50),
            ..PathInfo::default()
        };
        let mut limit = ShortQueue::default();
        for n in 0..100 {
            let now = Timestamp::from_millis(n * 60);
            limit.on_path(now, &path, BitRate::from_mbps(8.0), 1_000);
        }
        assert!(limit.is_full(63_000) && !limit.is_full(62_000));
        limit.forget();
        assert!(!limit.is_full(u64::MAX));
    }
}
