//! The near hop of a subflow over a Unix socket, as its send queue shows it; or over Ethernet
//! frames, of which those that are not acknowledged are the queue.
//!
//! The process at the other end, such as a Bluetooth stack, takes octets when it has room. What it
//! has taken counts as arrived: it holds few kilobytes of its own. The rate at which it takes them
//! while some wait is the throughput of the hop. Its round-trip time is what the helper tells.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use crate::estimator::PathInfo;

/// Minimum span of a sample of the rate: some tens of Bluetooth frames, which take 6 ms each.
const SAMPLE: Duration = Duration::from_millis(200);
/// Rate that is assumed before one is measured: about that of RFCOMM.
const FIRST_RATE: BitRate = BitRate::from_bps(1_250_000);
/// The same of Ethernet frames: what a WiFi link of today carries, or less.
const FIRST_RATE_OF_FRAMES: BitRate = BitRate::from_bps(50_000_000);
/// Round-trip time until one is told: an exchange of two packets over an active Bluetooth link
/// takes 4 ms, and a frame two of them.
const FIRST_RTT: Duration = Duration::from_millis(10);
/// Longest one that is believed: the exit from Sniff mode takes less.
const MOST_RTT: Duration = Duration::from_secs(1);

/// Longest time without an observation in which the queue may have run empty within a sample. A
/// driver that sends observes at each refill of the socket, which is some tens of milliseconds of
/// Bluetooth.
const UNSEEN: Duration = Duration::from_millis(100);

/// Measurement of the rate at which a queue empties. Drivers own one for each such subflow; the
/// session takes in its results as it does those of TCP_INFO.
#[derive(Debug, Default)]
pub struct UnixQueue {
    /// Begin of a sample, and the octets that had been taken then. None while nothing waits.
    sample: Option<(Timestamp, u64)>,
    /// Time of the last observation, and the octets that had been written then.
    last: Option<(Timestamp, u64)>,
    rate: BitRate,
    /// The last rate above zero.
    known: Option<BitRate>,
    /// The queue has been empty since the last sample.
    was_empty: bool,
    rtt: Option<Duration>,
    /// Rate that is assumed before one is measured, if it is another than usual.
    first: Option<BitRate>,
}

impl UnixQueue {
    /// That of Ethernet frames.
    pub fn of_a_local_network() -> Self {
        Self {
            first: Some(FIRST_RATE_OF_FRAMES),
            ..Self::default()
        }
    }

    /// The helper has told this round-trip time; zero if it knows none.
    pub fn told_rtt(&mut self, rtt: Duration) {
        if !rtt.is_zero() {
            self.rtt = Some(rtt.min(MOST_RTT));
        }
    }

    /// Takes in the octets written so far, of which `queued` have not been taken.
    pub fn observe(&mut self, now: Timestamp, written: u64, queued: u64) -> PathInfo {
        let taken = written.saturating_sub(queued);
        // It did not run empty while some of what was written by then waits.
        if let Some((at, by_then)) = self.last.replace((now, written))
            && taken >= by_then
            && now.since(at) > UNSEEN
        {
            self.sample = None;
        }
        match self.sample {
            _ if queued == 0 => {
                self.sample = None;
                self.was_empty = true;
            }
            None => self.sample = Some((now, taken)),
            Some((begun, before)) if now.since(begun) >= SAMPLE => {
                self.rate = BitRate::over(taken.saturating_sub(before), now.since(begun));
                if self.rate > BitRate::ZERO {
                    self.known = Some(self.rate);
                }
                self.was_empty = false;
                self.sample = Some((now, taken));
            }
            Some(_) => {}
        }
        let rtt = self.rtt.unwrap_or(FIRST_RTT);
        PathInfo {
            // By a window and a round-trip time the first estimate of a rate is made.
            cwnd_bytes: self
                .known
                .or(self.first)
                .unwrap_or(FIRST_RATE)
                .bytes_in(rtt),
            srtt: rtt,
            min_rtt: rtt,
            bytes_arrived: taken,
            delivery_rate: self.rate,
            app_limited: self.was_empty,
            slow_start: false,
            bytes_acked: 0,
            all_acked: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn the_rate_is_that_of_a_queue_that_does_not_run_empty() {
        let mut queue = UnixQueue::default();
        let first = queue.observe(at(0), 10_000, 10_000);
        assert_eq!(
            (first.bytes_arrived, first.delivery_rate),
            (0, BitRate::ZERO)
        );
        // 125 octets each millisecond: 1 Mbit/s.
        for ms in 1..=200 {
            queue.observe(at(ms), 40_000, 40_000 - 125 * ms);
        }
        let known = queue.observe(at(201), 40_000, 14_875);
        assert_eq!(known.delivery_rate, BitRate::from_mbps(1.0));
        assert_eq!((known.bytes_arrived, known.app_limited), (25_125, false));
        // Empty for a while: the rate of what came is none of the hop.
        let empty = queue.observe(at(300), 40_000, 0);
        assert_eq!((empty.bytes_arrived, empty.app_limited), (40_000, true));
        queue.observe(at(500), 41_000, 500);
        let still = queue.observe(at(600), 41_000, 250);
        assert_eq!(still.delivery_rate, BitRate::from_mbps(1.0));
    }

    /// The octets of the first burst were taken soon; nothing was observed until the second one.
    #[test]
    fn an_idle_time_is_no_part_of_a_sample() {
        let mut queue = UnixQueue::default();
        queue.observe(at(0), 10_000, 10_000);
        let second = queue.observe(at(10_000), 20_000, 500);
        assert_eq!(second.delivery_rate, BitRate::ZERO);
        // 125 octets each millisecond of a queue that is filled.
        for ms in 1..=200 {
            queue.observe(at(10_000 + ms), 60_000, 40_500 - 125 * ms);
        }
        let known = queue.observe(at(10_201), 60_000, 15_375);
        assert!((known.delivery_rate.mbps() - 1.0).abs() < 0.01, "{known:?}");
    }

    #[test]
    fn window_and_round_trip_time_give_the_rate() {
        let mut queue = UnixQueue::default();
        let rate = |path: PathInfo| BitRate::over(path.cwnd_bytes, path.srtt);
        let first = rate(queue.observe(at(0), 100_000, 100_000));
        assert!((first.mbps() - 1.25).abs() < 0.01, "{first:?}");
        let slow = rate(queue.observe(at(1_000), 100_000, 50_000));
        assert!((slow.mbps() - 0.4).abs() < 0.01, "{slow:?}");
        // A blackout says nothing about the rate after it.
        assert_eq!(rate(queue.observe(at(2_000), 100_000, 50_000)), slow);
    }

    #[test]
    fn the_round_trip_time_is_what_the_helper_tells_and_the_rate_stays() {
        let mut queue = UnixQueue::default();
        let known = |queue: &mut UnixQueue| {
            let path = queue.observe(at(0), 1_000, 0);
            assert!((BitRate::over(path.cwnd_bytes, path.srtt).mbps() - 1.25).abs() < 0.01);
            (path.srtt, path.min_rtt)
        };
        assert_eq!(known(&mut queue), (FIRST_RTT, FIRST_RTT));
        queue.told_rtt(Duration::ZERO);
        assert_eq!(known(&mut queue), (FIRST_RTT, FIRST_RTT));
        let told = Duration::from_millis(80);
        queue.told_rtt(told);
        assert_eq!(known(&mut queue), (told, told));
        queue.told_rtt(Duration::from_secs(3_600));
        assert_eq!(known(&mut queue), (MOST_RTT, MOST_RTT));
    }

    #[test]
    fn a_blackout_lowers_the_rate_of_one_sample() {
        let mut queue = UnixQueue::default();
        queue.observe(at(0), 50_000, 50_000);
        assert_eq!(
            queue.observe(at(1_000), 50_000, 50_000).delivery_rate,
            BitRate::ZERO
        );
        let after = queue.observe(at(1_200), 50_000, 25_000);
        assert_eq!(after.delivery_rate, BitRate::from_mbps(1.0));
    }
}
