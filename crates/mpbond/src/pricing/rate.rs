//! Rate of a link in one direction.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::BitRate;

/// Samples that are kept: some seconds in which bytes moved.
const KEPT: usize = 25;

/// Samples from which a rate is known. The first ones are of a transfer that is starting: a helper
/// that is found too slow by them would not be used again, and not be measured again.
const ENOUGH: usize = 5;

/// Bytes of a sample that says something of the link: fewer are a message, or an acknowledgement.
const LEAST_BYTES: u64 = 4 << 10;

/// Rate of a link in one direction, from samples while bytes move.
#[derive(Debug, Default)]
pub(super) struct Rate(VecDeque<f64>);

impl Rate {
    /// Enters the bytes that moved in this time.
    pub(super) fn sample(&mut self, bytes: u64, time: Duration) {
        if bytes >= LEAST_BYTES && !time.is_zero() {
            self.enter(bytes as f64 * 8.0 / time.as_secs_f64());
        }
    }

    /// Enters a sample in bits per second.
    pub(super) fn enter(&mut self, bps: f64) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(bps);
    }

    /// The highest sample but one: most are of an application that had less to send, and the
    /// highest may have bytes that had waited for lost ones.
    pub(super) fn known(&self) -> Option<BitRate> {
        let (mut first, mut second) = (0.0, 0.0);
        for sample in &self.0 {
            if *sample > first {
                (first, second) = (*sample, first);
            } else if *sample > second {
                second = *sample;
            }
        }
        (self.0.len() >= ENOUGH).then(|| BitRate::from_bps(second as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(200);

    #[test]
    fn a_rate_is_the_second_highest_sample_of_the_last_25() {
        let mut rate = Rate::default();
        assert_eq!(rate.known(), None);
        rate.sample(LEAST_BYTES - 1, TIME);
        assert_eq!(rate.known(), None);
        for bytes in [25_000, 50_000, 500_000, 75_000] {
            rate.sample(bytes, TIME);
            assert_eq!(rate.known(), None);
        }
        rate.sample(10_000, TIME);
        assert_eq!(rate.known(), Some(BitRate::from_mbps(3.0)));
        for _ in 0..KEPT {
            rate.sample(12_500, TIME);
        }
        assert_eq!(rate.known(), Some(BitRate::from_mbps(0.5)));
    }
}
