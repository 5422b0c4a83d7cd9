//! HyStart: ends slow start before a loss, as CUBIC in Linux does (Ha and Rhee, "Taming the
//! elephants", 2011).

use std::time::Duration;

use mpbond_units::Timestamp;

/// Minimum window for HyStart, in segments.
const LOW_WINDOW: f64 = 16.0;
/// Samples evaluated in a round.
const SAMPLES: u32 = 8;
/// Maximum distance of ACKs of one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Bounds of the delay increase that ends slow start: an eighth of the minimum delay.
const LEAST_RISE: Duration = Duration::from_millis(4);
const MOST_RISE: Duration = Duration::from_millis(16);

/// State of the present round trip.
#[derive(Debug, Default)]
pub(super) struct HyStart {
    /// The round ends when this offset is acknowledged.
    round_end: u64,
    started: Timestamp,
    last_ack: Timestamp,
    least: Option<Duration>,
    samples: u32,
}

impl HyStart {
    /// An ACK up to `acked` brought a sample of the round trip, while sending has got to `next`;
    /// `min` is the least round trip ever. Whether slow start should end.
    pub(super) fn on_ack(
        &mut self,
        now: Timestamp,
        (acked, next): (u64, u64),
        window: f64,
        rtt: Duration,
        min: Duration,
    ) -> bool {
        if acked > self.round_end || self.round_end == 0 {
            *self = Self {
                round_end: next,
                started: now,
                last_ack: now,
                least: None,
                samples: 0,
            };
        }
        if window < LOW_WINDOW {
            return false;
        }
        if now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = now;
            if now.since(self.started) > min / 2 {
                return true;
            }
        }
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        least > min + (min / 8).clamp(LEAST_RISE, MOST_RISE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A round of ten ACKs `gap` apart, each with a round trip of `rtt`.
    fn round(hystart: &mut HyStart, start: u64, gap: u64, rtt: u64) -> bool {
        (0..10).any(|i| {
            let now = Timestamp::from_millis(start + i * gap);
            let offsets = (start + i, start + 1_000);
            hystart.on_ack(now, offsets, 40.0, ms(rtt), ms(50))
        })
    }

    #[test]
    fn a_delay_that_rises_over_a_whole_round_ends_it() {
        let mut hystart = HyStart::default();
        assert!(!round(&mut hystart, 1_000, 3, 50));
        assert!(!round(&mut hystart, 3_000, 3, 55), "5 ms of 50 are noise");
        assert!(round(&mut hystart, 5_000, 3, 57));
    }

    #[test]
    fn a_train_longer_than_half_a_round_trip_ends_it() {
        let mut hystart = HyStart::default();
        assert!(!round(&mut hystart, 1_000, 2, 50), "18 ms of ACKs");
        let mut hystart = HyStart::default();
        let train = (0..20).position(|i| {
            let now = Timestamp::from_millis(1_000 + i * 2);
            hystart.on_ack(now, (1_000, 9_000), 40.0, ms(50), ms(50))
        });
        assert_eq!(train, Some(13));
    }

    #[test]
    fn small_windows_are_left_alone() {
        let mut hystart = HyStart::default();
        let ended = (0..100).any(|i| {
            let now = Timestamp::from_millis(1_000 + i);
            hystart.on_ack(now, (1_000, 9_000), 15.0, ms(500), ms(50))
        });
        assert!(!ended);
    }
}
