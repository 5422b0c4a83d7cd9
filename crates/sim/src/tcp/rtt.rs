//! Round-trip time and retransmission timeout (RFC 6298, with constants of Linux).

use std::time::Duration;

use mpbond_units::Timestamp;

/// Linux's minimum; that of RFC 6298 is one second.
const MIN_RTO: Duration = Duration::from_millis(200);
/// RFC 6298, section 2.1.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// Linux's maximum.
const MAX_RTO: Duration = Duration::from_secs(120);

/// Smoothed round-trip time and the retransmission timeout (RFC 6298).
#[derive(Debug, Default)]
pub(super) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    min: Option<Duration>,
    backoff: u32,
}

impl Rtt {
    pub(super) fn sample(&mut self, sent: Timestamp, now: Timestamp) {
        let rtt = now.since(sent);
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                let off = smoothed.abs_diff(rtt);
                self.variation = (self.variation * 3 + off) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
    }

    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub(super) fn min(&self) -> Option<Duration> {
        self.min
    }

    /// The timeout with its back-off.
    pub(super) fn timeout(&self) -> Duration {
        // As in Linux the floor is under the variation, not under the sum, so
        // that a steady path still waits 200 ms beyond its round trip.
        let base = self.smoothed.map_or(INITIAL_RTO, |smoothed| {
            smoothed + (self.variation * 4).max(MIN_RTO)
        });
        base.saturating_mul(1 << self.backoff.min(10)).min(MAX_RTO)
    }

    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    pub(super) fn progress(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298_with_the_floor_of_linux() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(), ms(1_000));
        rtt.sample(Timestamp::ZERO, Timestamp::from_millis(100));
        assert_eq!(rtt.timeout(), ms(300));
        rtt.sample(Timestamp::ZERO, Timestamp::from_millis(180));
        assert_eq!(rtt.smoothed(), Some(ms(110)));
        // Variation (3 * 50 + 80) / 4 = 57.5 ms, four times which exceeds the floor.
        assert_eq!(rtt.timeout(), ms(340));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), ms(1_360));
        rtt.progress();
        assert_eq!(rtt.timeout(), ms(340));
        assert_eq!(rtt.min(), Some(ms(100)));
    }
}
