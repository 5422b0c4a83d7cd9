//! Rate of a link in one direction.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Samples that are kept: some seconds in which bytes moved.
const KEPT: usize = 25;

/// Samples from which a rate is known. The first ones are of a transfer that is starting: a helper
/// that is found too slow by them would not be used again, and not be measured again.
const ENOUGH: usize = 5;

/// Bytes of a sample that says something of the link: fewer are a message, or an acknowledgement.
const LEAST_BYTES: u64 = 4 << 10;

/// Least bytes by which a rate becomes known.
pub(super) const LEAST_TO_KNOW: u64 = LEAST_BYTES * ENOUGH as u64;

/// Age from which a rate is that of another time: the link is measured anew.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// Rate of a link in one direction, from samples while bytes move.
#[derive(Debug, Default)]
pub(super) struct Rate {
    samples: VecDeque<f64>,
    /// When the last one was entered.
    last: Option<Timestamp>,
}

impl Rate {
    /// Enters the bytes that moved in the time that ends now.
    pub(super) fn sample(&mut self, (now, time): (Timestamp, Duration), bytes: u64) {
        if bytes >= LEAST_BYTES && !time.is_zero() {
            self.enter(now, bytes as f64 * 8.0 / time.as_secs_f64());
        }
    }

    /// Enters a sample in bits per second. Those of another time are forgotten.
    pub(super) fn enter(&mut self, now: Timestamp, bps: f64) {
        if self.is_old(now) {
            self.samples.clear();
        }
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(bps);
        self.last = Some(now);
    }

    fn is_old(&self, now: Timestamp) -> bool {
        self.last
            .is_some_and(|last| now.since(last) >= FORGET_AFTER)
    }

    /// The highest sample but one: most are of an application that had less to send, and the
    /// highest may have bytes that had waited for lost ones.
    pub(super) fn known(&self, now: Timestamp) -> Option<BitRate> {
        let (mut first, mut second) = (0.0, 0.0);
        for sample in &self.samples {
            if *sample > first {
                (first, second) = (*sample, first);
            } else if *sample > second {
                second = *sample;
            }
        }
        let is_known = self.samples.len() >= ENOUGH && !self.is_old(now);
        is_known.then(|| BitRate::from_bps(second as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(200);

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn a_rate_is_the_second_highest_sample_of_the_last_25() {
        let mut rate = Rate::default();
        assert_eq!(rate.known(NOW), None);
        rate.sample((NOW, TIME), LEAST_BYTES - 1);
        assert_eq!(rate.known(NOW), None);
        for bytes in [25_000, 50_000, 500_000, 75_000] {
            rate.sample((NOW, TIME), bytes);
            assert_eq!(rate.known(NOW), None);
        }
        rate.sample((NOW, TIME), 10_000);
        assert_eq!(rate.known(NOW), Some(BitRate::from_mbps(3.0)));
        for _ in 0..KEPT {
            rate.sample((NOW, TIME), 12_500);
        }
        assert_eq!(rate.known(NOW), Some(BitRate::from_mbps(0.5)));
    }

    #[test]
    fn samples_of_more_than_an_hour_ago_do_not_come_back_with_a_new_one() {
        let mut rate = Rate::default();
        for _ in 0..KEPT {
            rate.sample((NOW, TIME), 500_000);
        }
        let later = NOW + FORGET_AFTER;
        assert!(rate.known(NOW + (FORGET_AFTER - TIME)).is_some());
        assert_eq!(rate.known(later), None);
        // Too little for a sample.
        rate.sample((later, TIME), LEAST_BYTES - 1);
        assert_eq!(rate.known(later), None);
        for _ in 1..ENOUGH {
            rate.sample((later, TIME), 25_000);
            assert_eq!(rate.known(later), None);
        }
        rate.sample((later, TIME), 25_000);
        assert_eq!(rate.known(later), Some(BitRate::from_mbps(1.0)));
    }
}
