//! Windows of TCP that are still opening: bytes beyond them wait for round trips, however fast the
//! path is (ADR 0058).

use std::time::Duration;

use mpbond_units::Timestamp;

use super::Estimator;
use crate::{PathInfo, pad};

/// Window with which TCP starts, and starts again after a pause (RFC 6928), in octets.
pub(super) const INITIAL_WINDOW: u64 = 10 * PACKET;

/// Octets of a full packet of IPv4 over Ethernet, with TCP's timestamps.
const PACKET: u64 = 1_448;

/// Least retransmission timeout of Linux: after a pause as long as a timeout, the window starts
/// again.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// Looks at a full window in a round trip, and the least time between two.
const LOOKS_IN_RTT: u32 = 16;
const LEAST_INTERVAL: Duration = Duration::from_millis(1);

impl Estimator {
    /// The delay of a byte that is handed over now, where windows of TCP that are still opening
    /// hold it back (ADR 0058): the delays of the hops, and round trips of the hop that takes
    /// longer for them. `acked` is the latest ACK count, or `sent` where nothing is owed.
    pub(crate) fn while_opening(&self, now: Timestamp, sent: u64, acked: u64) -> Duration {
        let near = self.near_rounds(now, sent) * self.path.min_rtt.as_secs_f64();
        let far = self.far_rounds(now, sent, acked) * self.far_rtt().as_secs_f64();
        self.one_way_delay() + pad::to_duration(near.max(far))
    }

    /// Latest time at which the octets that a look at TCP shows as new can have been acknowledged.
    /// While nothing is sent nobody looks: they are from just after the last look.
    pub(super) fn acknowledged_by(&self, now: Timestamp, info: &PathInfo) -> Timestamp {
        match self.path.srtt.is_zero() {
            true => now,
            false => now.min(self.path_at + info.srtt),
        }
    }

    /// Octets that the near hop's window lets go at once, if it is the initial one and a packet is
    /// among them; `None` where it holds none back, or all.
    pub(crate) fn at_once(&self, now: Timestamp, sent: u64) -> Option<u64> {
        let opening = self.near_opening(now, sent)?;
        let left = opening.window.saturating_sub(opening.ahead);
        (opening.window <= INITIAL_WINDOW && left >= PACKET).then_some(left)
    }

    /// Time of the next look at a full window of the near hop: a round trip after it was filled,
    /// then in short intervals until nothing was acknowledged for two of them. `None` after that:
    /// the path may be silent.
    pub(crate) fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let rtt = self.path.srtt;
        let next = now + (rtt / LOOKS_IN_RTT).max(LEAST_INTERVAL);
        // Acknowledgements of a window come one after the other.
        let at = match self.moved_at > self.busy_since {
            true => next,
            false => next.max(self.busy_since + rtt),
        };
        (at < self.moved_at.max(self.busy_since) + 2 * rtt).then_some(at)
    }

    /// Round trips until the near hop's window lets the next packet go.
    fn near_rounds(&self, now: Timestamp, sent: u64) -> f64 {
        let opening = self.near_opening(now, sent);
        opening.map_or(0.0, |o| rounds(o.ahead, o.window, None, self.path.min_rtt))
    }

    /// The near hop's window, if it is still opening. After a pause TCP begins with the initial one
    /// again (RFC 5681, section 4.1), which TCP_INFO does not show until then. Linux halves it once
    /// for each timeout: after a short pause it is larger than assumed here.
    fn near_opening(&self, now: Timestamp, sent: u64) -> Option<Opening> {
        let timeout = self.path.srtt + LEAST_TIMEOUT;
        let owes = sent > self.path.bytes_arrived;
        let begun = if owes { self.busy_since } else { now };
        let paused = begun.since(self.moved_at) > timeout;
        // A window that a timeout has closed says nothing of a path that may be silent.
        let stalls = owes && now.since(self.moved_at.max(self.busy_since)) > timeout;
        if stalls || self.path.cwnd_bytes == 0 || !(paused || self.path.slow_start) {
            return None;
        }
        let most = if paused { INITIAL_WINDOW } else { u64::MAX };
        let window = self.path.cwnd_bytes.min(most);
        let measured = self.near_measured.then(|| self.near_hop(now).throughput);
        let ahead = sent.saturating_sub(self.path.bytes_arrived);
        let enough = is_enough(window, measured, self.path.min_rtt);
        (!enough).then_some(Opening { ahead, window })
    }

    /// Round trips until the helper's window lets the next packet go. Nobody tells that window: it
    /// is the initial one and what was acknowledged since octets were owed again.
    fn far_rounds(&self, now: Timestamp, sent: u64, acked: u64) -> f64 {
        if !self.through_helper {
            return 0.0;
        }
        let window = INITIAL_WINDOW + acked.saturating_sub(self.count_before);
        let measured = self.far.and_then(|_| self.far_known(now));
        let ahead = sent.saturating_sub(acked.max(self.sent_before));
        rounds(ahead, window, measured, self.far_rtt())
    }
}

/// A window that holds octets back, and those that are not acknowledged.
struct Opening {
    ahead: u64,
    window: u64,
}

/// Whether a hop's measured rate, in bytes per second, needs no larger window.
fn is_enough(window: u64, measured: Option<f64>, rtt: Duration) -> bool {
    measured.is_some_and(|rate| rate * rtt.as_secs_f64() < window as f64)
}

/// Round trips until a window that doubles with each lets the packet go that is behind `ahead`
/// octets which are not acknowledged. None where the hop's measured rate, in bytes per second,
/// needs no larger window.
fn rounds(ahead: u64, window: u64, measured: Option<f64>, rtt: Duration) -> f64 {
    if is_enough(window, measured, rtt) {
        return 0.0;
    }
    let windows = (ahead + PACKET) as f64 / window.max(1) as f64;
    ((windows + 1.0).log2().ceil() - 1.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FarReport, FeedbackRule};

    const RTT: Duration = Duration::from_millis(50);

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    fn starting(bytes_arrived: u64, cwnd_bytes: u64) -> PathInfo {
        PathInfo {
            cwnd_bytes,
            srtt: RTT,
            min_rtt: RTT,
            bytes_arrived,
            slow_start: true,
            app_limited: true,
            ..PathInfo::default()
        }
    }

    fn while_opening(e: &Estimator, at: u64, sent: u64, acked: u64) -> u128 {
        e.while_opening(ms(at), sent, acked).as_millis()
    }

    #[test]
    fn a_window_doubles_with_each_round_trip() {
        let windows = |ahead| rounds(ahead, 10 * PACKET, None, Duration::ZERO);
        assert_eq!(windows(9 * PACKET), 0.0);
        assert_eq!(windows(10 * PACKET), 1.0);
        assert_eq!(windows(29 * PACKET), 1.0);
        assert_eq!(windows(30 * PACKET), 2.0);
        assert_eq!(windows(70 * PACKET), 3.0);
    }

    #[test]
    fn no_larger_window_is_needed_than_the_measured_rate_takes() {
        let rtt = Duration::from_millis(50);
        let rounds = |rate| rounds(100_000, 50_000, Some(rate), rtt);
        assert_eq!(rounds(0.9e6), 0.0);
        assert_eq!(rounds(1.1e6), 1.0);
    }

    #[test]
    fn what_is_beyond_the_window_waits_for_round_trips() {
        let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
        e.on_path(ms(0), starting(0, INITIAL_WINDOW));
        e.owes_again(ms(0), 0);
        assert_eq!(while_opening(&e, 0, 13_000, 0), 25);
        assert_eq!(while_opening(&e, 0, 20_000, 0), 75);
        // What is acknowledged makes room.
        e.on_path(ms(50), starting(14_000, 2 * INITIAL_WINDOW));
        assert_eq!(while_opening(&e, 50, 20_000, 0), 25);
        // No acknowledgement for longer than a timeout is silence.
        assert_eq!(while_opening(&e, 100, 60_000, 0), 75);
        assert_eq!(while_opening(&e, 400, 60_000, 0), 25);
    }

    #[test]
    fn after_a_pause_the_window_is_the_initial_one_again() {
        let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
        let open = |bytes_arrived| PathInfo {
            slow_start: false,
            ..starting(bytes_arrived, 200_000)
        };
        e.on_path(ms(0), open(0));
        e.on_path(ms(100), open(500_000));
        assert_eq!(while_opening(&e, 150, 600_000, 0), 25);
        assert_eq!(while_opening(&e, 2_000, 500_000, 0), 25);
        e.owes_again(ms(2_000), 500_000);
        assert_eq!(while_opening(&e, 2_000, 520_000, 0), 75);
    }

    #[test]
    fn what_is_acknowledged_in_a_pause_was_so_just_after_the_last_look() {
        let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
        e.on_path(ms(0), starting(0, 200_000));
        e.on_path(ms(5), starting(90_000, 200_000));
        assert_eq!(e.at_once(ms(10), 100_000), None);
        // Five seconds later the rest is seen to have arrived, with an octet of feedback.
        e.on_path(ms(5_000), starting(100_001, 200_000));
        assert_eq!(e.at_once(ms(5_000), 100_001), Some(INITIAL_WINDOW));
        e.owes_again(ms(5_000), 100_001);
        assert_eq!(e.at_once(ms(5_000), 104_001), Some(INITIAL_WINDOW - 4_000));
    }

    #[test]
    fn a_full_window_is_looked_at_for_a_round_trip_after_its_first_octets_are_acknowledged() {
        let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
        e.on_path(ms(100), starting(0, INITIAL_WINDOW));
        e.owes_again(ms(100), 0);
        assert_eq!(e.opens_at(ms(100)), Some(ms(150)));
        let step = RTT / 16;
        assert_eq!(e.opens_at(ms(150)), Some(ms(150) + step));
        assert_eq!(e.opens_at(ms(196)), Some(ms(196) + step));
        // It may be silent.
        assert_eq!(e.opens_at(ms(198)), None);
        // More is acknowledged soon after the first octets.
        e.on_path(ms(150), starting(PACKET, INITIAL_WINDOW + PACKET));
        assert_eq!(e.opens_at(ms(150)), Some(ms(150) + step));
        assert_eq!(e.opens_at(ms(246)), Some(ms(246) + step));
        assert_eq!(e.opens_at(ms(248)), None);
    }

    #[test]
    fn the_window_of_a_helper_opens_with_what_is_acknowledged() {
        let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
        e.on_path(ms(0), starting(0, 1_000_000));
        let report = FarReport {
            rtt: Duration::from_millis(100),
            ..FarReport::default()
        };
        e.on_far_report(ms(0), report);
        e.owes_again(ms(0), 0);
        assert_eq!(while_opening(&e, 0, 13_000, 0), 25 + 50);
        assert_eq!(while_opening(&e, 0, 40_000, 0), 25 + 50 + 100);
        assert_eq!(while_opening(&e, 0, 60_000, 0), 25 + 50 + 200);
        assert_eq!(while_opening(&e, 0, 60_000, 20_000), 25 + 50 + 100);
        // Nothing is owed.
        assert_eq!(while_opening(&e, 0, 60_000, 60_000), 25 + 50);
    }
}
