//! Keep-alive probes of an idle connection (RFC 9293, section 3.8.4).

use std::time::Duration;

use mpbond_units::Timestamp;

/// Probes without an answer after which a connection is reset.
const RETRIES: u32 = 3;

/// Delay of the timer of an end that has accepted its connection. Timers of minutes expire up to
/// 16 s late in Linux (timer wheel, at 250 Hz): the two ends hardly ever probe at the same
/// instant, as they would here, where a probe is under way for as long as its answer.
const LATE: Duration = Duration::from_secs(16);

/// Keep-alive timer of one end.
#[derive(Debug)]
pub(super) struct KeepAlive {
    idle: Option<Duration>,
    late: Duration,
    /// When a segment last came, or the connection was established.
    heard: Timestamp,
    probes: u32,
    /// Whether a probe is to be sent.
    pub(super) is_due: bool,
}

impl KeepAlive {
    pub(super) fn new(idle: Option<Duration>, has_accepted: bool) -> Self {
        let late = if has_accepted { LATE } else { Duration::ZERO };
        Self {
            idle,
            late,
            heard: Timestamp::ZERO,
            probes: 0,
            is_due: false,
        }
    }

    /// A segment has come.
    pub(super) fn heard(&mut self, now: Timestamp) {
        self.heard = now;
        self.probes = 0;
        self.is_due = false;
    }

    /// Time of the next probe, or of the reset.
    pub(super) fn timer(&self) -> Option<Timestamp> {
        self.idle
            .map(|idle| self.heard + idle + self.late + idle / 3 * self.probes)
    }

    /// Handles the timer if it is due. Returns whether the connection is to be reset.
    pub(super) fn handle_timeout(&mut self, now: Timestamp) -> bool {
        if self.timer().is_none_or(|at| at > now) {
            return false;
        }
        if self.probes == RETRIES {
            return true;
        }
        self.probes += 1;
        self.is_due = true;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Config, Socket, State};

    fn s(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn ends() -> (Socket, Socket) {
        let config = Config {
            keepalive: Some(Duration::from_secs(240)),
            ..Config::default()
        };
        let (mut a, mut b) = Socket::pair(config, config);
        a.write(b"x");
        while let Some(segment) = a.poll_transmit(s(1)) {
            b.handle_segment(s(1), segment);
        }
        b.read(10);
        b.handle_timeout(s(2));
        while let Some(segment) = b.poll_transmit(s(2)) {
            a.handle_segment(s(2), segment);
        }
        (a, b)
    }

    #[test]
    fn an_idle_connection_is_probed_and_goes_on() {
        let (mut a, mut b) = ends();
        assert_eq!(a.next_timeout(), Some(s(242)));
        a.handle_timeout(s(242));
        let probe = a.poll_transmit(s(242)).unwrap();
        assert!(probe.payload.is_empty() && a.poll_transmit(s(242)).is_none());
        b.handle_segment(s(242), probe);
        a.handle_segment(s(242), b.poll_transmit(s(242)).unwrap());
        assert_eq!(a.next_timeout(), Some(s(482)));
        assert_eq!(b.next_timeout(), Some(s(482)));
    }

    #[test]
    fn the_end_that_has_accepted_is_later() {
        let interval = Some(Duration::from_secs(240));
        let at = [false, true].map(|accepted| KeepAlive::new(interval, accepted).timer());
        assert_eq!(at, [Some(s(240)), Some(s(256))]);
    }

    #[test]
    fn a_connection_is_reset_when_three_probes_have_no_answer() {
        let (mut a, _) = ends();
        for at in [242, 322, 402] {
            assert_eq!(a.next_timeout(), Some(s(at)));
            a.handle_timeout(s(at));
            assert!(a.poll_transmit(s(at)).is_some());
        }
        a.handle_timeout(s(482));
        assert_eq!(a.state(), State::Reset);
    }
}
