//! When an ACK is due: after so many octets, or so long after the first of them.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Delay of an ACK of the first octets after a pause. What paths can do is learnt from ACKs, and at
/// the start of a transfer nothing else is known of them.
const EARLY_DELAY: Duration = Duration::from_millis(5);

/// Octets after a pause that have the shorter delay. Fewer are a message: its answer is likely to
/// take the ACK along. After more, several ACKs have told the paths' rates.
const EARLY_FROM: u64 = 4 << 10;
const EARLY_UNTIL: u64 = 64 << 10;

/// Time without octets that is a pause: longer than round trips of slow start.
const PAUSE: Duration = Duration::from_millis(250);

/// What has arrived and is not acknowledged.
#[derive(Debug)]
pub(super) struct AckDue {
    /// An ACK is due after this many octets ...
    bytes: u64,
    /// ... or this long after the first that asks for one.
    delay: Duration,
    /// Whether the first octets after a pause have a shorter delay.
    early: bool,
    octets: u64,
    since: Option<Timestamp>,
    /// Octets since the last pause, and the time of the last ones.
    burst: u64,
    last: Timestamp,
}

impl AckDue {
    pub(super) fn new(bytes: u64, delay: Duration, early: bool) -> Self {
        Self {
            bytes,
            delay,
            early,
            octets: 0,
            since: None,
            burst: 0,
            last: Timestamp::ZERO,
        }
    }

    /// Octets arrived in a record that asks for an ACK.
    pub(super) fn arrived(&mut self, now: Timestamp, octets: u64) {
        if now.since(self.last) > PAUSE {
            self.burst = 0;
        }
        self.last = now;
        self.burst += octets;
        self.octets += octets;
        self.since.get_or_insert(now);
    }

    /// Something is not acknowledged yet.
    pub(super) fn is_pending(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.octets >= self.bytes || self.deadline().is_some_and(|t| now >= t)
    }

    /// When an ACK is due at the latest.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let is_early = self.early && (EARLY_FROM..EARLY_UNTIL).contains(&self.burst);
        let delay = match is_early {
            true => self.delay.min(EARLY_DELAY),
            false => self.delay,
        };
        self.since.map(|t| t + delay)
    }

    /// An ACK is written.
    pub(super) fn written(&mut self) {
        self.octets = 0;
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    fn due() -> AckDue {
        AckDue::new(64 << 10, Duration::from_millis(25), true)
    }

    #[test]
    fn an_ack_is_due_after_octets_or_time() {
        let mut due = due();
        assert!(!due.is_due(ms(1_000)) && !due.is_pending());
        due.arrived(ms(1_000), 100);
        due.arrived(ms(1_020), 100);
        assert_eq!(due.deadline(), Some(ms(1_025)));
        assert!(!due.is_due(ms(1_024)) && due.is_due(ms(1_025)));
        due.arrived(ms(1_021), 64 << 10);
        assert!(due.is_due(ms(1_021)));
        due.written();
        assert!(!due.is_due(ms(9_000)) && !due.is_pending());
    }

    #[test]
    fn the_first_octets_after_a_pause_are_acknowledged_sooner() {
        let mut due = due();
        for start in [1_000, 2_000] {
            // A message.
            due.arrived(ms(start), 2_000);
            assert_eq!(due.deadline(), Some(ms(start + 25)));
            due.arrived(ms(start + 2), 3_000);
            assert_eq!(due.deadline(), Some(ms(start + 5)));
            due.written();
            due.arrived(ms(start + 100), 60_000);
            due.written();
            due.arrived(ms(start + 300), 5_000);
            assert_eq!(due.deadline(), Some(ms(start + 325)));
            due.written();
        }
    }
}
