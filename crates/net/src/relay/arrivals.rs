//! Rate at which bytes arrive over a relay's HS-Path, from readings of a counter. No clock: times
//! are durations since any fixed instant.

use std::time::Duration;

use mpbond_units::BitRate;

/// Time over which a rate is measured, at least: in a shorter one, bytes that a loss held back for
/// a round trip would count as a multiple of the rate.
const AT_LEAST: Duration = Duration::from_millis(150);

/// Time beyond which a reading is of another transfer.
const AT_MOST: Duration = Duration::from_millis(500);

/// Bytes that say something of the link: fewer are a message, or an acknowledgement.
const LEAST_BYTES: u64 = 4 << 10;

/// Rate at which bytes arrive over a relay's HS-Path.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Bytes and time of the reading at which the measurement began.
    began: Option<(u64, Duration)>,
    /// Whether this host was the limit at one of the readings since.
    was_held_up: bool,
}

impl Arrivals {
    /// Enters a reading: bytes that have arrived so far, and whether this host limits them
    /// ([`RelayStats::is_held_up`](super::RelayStats::is_held_up)). Returns the rate since an
    /// earlier reading, if that is long enough ago and bytes came without a pause.
    pub fn read(&mut self, now: Duration, bytes: u64, is_held_up: bool) -> Option<BitRate> {
        let (before, began) = *self.began.get_or_insert((bytes, now));
        let time = now.saturating_sub(began);
        self.was_held_up |= is_held_up;
        if time < AT_LEAST {
            return None;
        }
        self.began = Some((bytes, now));
        let was_held_up = std::mem::replace(&mut self.was_held_up, is_held_up);
        let came = bytes.saturating_sub(before);
        (time <= AT_MOST && came >= LEAST_BYTES && !was_held_up).then(|| BitRate::over(came, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_rate_is_that_of_two_reports() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.read(ms(0), 1_000, false), None);
        assert_eq!(arrivals.read(ms(100), 126_000, false), None);
        let rate = arrivals.read(ms(200), 251_000, false);
        assert_eq!(rate, Some(BitRate::from_mbps(10.0)));
        // Less than 4 KiB, and a pause.
        assert_eq!(arrivals.read(ms(400), 255_000, false), None);
        assert_eq!(arrivals.read(ms(1_000), 455_000, false), None);
        let rate = arrivals.read(ms(1_200), 480_000, false);
        assert_eq!(rate, Some(BitRate::from_mbps(1.0)));
    }

    #[test]
    fn a_full_buffer_hides_the_rate() {
        let mut arrivals = Arrivals::default();
        arrivals.read(ms(0), 0, false);
        arrivals.read(ms(100), 100_000, true);
        assert_eq!(arrivals.read(ms(200), 200_000, false), None);
        assert!(arrivals.read(ms(400), 300_000, false).is_some());
        assert_eq!(arrivals.read(ms(600), 400_000, true), None);
        assert_eq!(arrivals.read(ms(800), 500_000, false), None);
    }
}
