//! Round-trip time of frames and the time-out that follows from it.

use std::time::Duration;

use crate::receiver::ACK_DELAY;

/// Minimum of the time-out without the peer's delay: more than most pauses of a busy host.
const MIN_TIMEOUT: Duration = Duration::from_millis(20);
/// Multiple of the round-trip time in the time-out.
const ROUND_TRIPS: u32 = 4;
/// Longest sample that counts: that of a host which was suspended says nothing of the link. Bounds
/// the time-out, and so the time until a dead peer is found.
const MAX_SAMPLE: Duration = Duration::from_millis(300);
/// Weight of one sample is one in this many (RFC 6298, section 2).
const WEIGHT: u32 = 8;

/// Smoothed round-trip time, without the time for which the peer may keep an acknowledgement back.
///
/// A sample does not show whether its acknowledgement was delayed. So each counts as delayed by
/// [`ACK_DELAY`], which the time-out adds again (RFC 9002, section 6.2.1): for a sample `s` of at
/// least that delay `d`, 4·(s − d) + d is at least `s`, so a time-out is never shorter than the
/// round trips from which it follows, up to its maximum of 1125 ms.
#[derive(Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
}

impl RoundTrip {
    /// Adds the time from sending a frame once to its acknowledgement.
    pub(crate) fn sample(&mut self, took: Duration) {
        let sample = took.min(MAX_SAMPLE).saturating_sub(ACK_DELAY);
        self.smoothed = Some(match self.smoothed {
            None => sample,
            Some(old) => (old * (WEIGHT - 1) + sample) / WEIGHT,
        });
    }

    /// Time without an acknowledgement after which a frame is sent again.
    pub(crate) fn timeout(&self) -> Duration {
        let smoothed = self.smoothed.unwrap_or_default();
        MIN_TIMEOUT.max(smoothed * ROUND_TRIPS) + ACK_DELAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_timeout_is_45_ms_on_a_fast_link_and_longer_than_a_slow_round_trip() {
        let mut short = RoundTrip::default();
        assert_eq!(short.timeout(), ms(45));
        short.sample(ms(1));
        short.sample(ms(25));
        assert_eq!(short.timeout(), ms(45));
        for round_trip in [30, 45, 100, 1000] {
            let mut long = RoundTrip::default();
            long.sample(ms(round_trip));
            assert!(long.timeout() >= ms(round_trip), "{round_trip}");
        }
        let mut long = RoundTrip::default();
        long.sample(ms(105));
        assert_eq!(long.timeout(), ms(4 * 80 + 25));
    }

    #[test]
    fn a_timeout_is_at_most_1125_ms() {
        let mut round_trip = RoundTrip::default();
        round_trip.sample(Duration::from_secs(60));
        assert_eq!(round_trip.timeout(), ms(1125));
    }

    #[test]
    fn one_slow_sample_counts_an_eighth() {
        let mut round_trip = RoundTrip::default();
        round_trip.sample(ms(25));
        round_trip.sample(ms(105));
        assert_eq!(round_trip.timeout(), ms(4 * 10 + 25));
    }
}
