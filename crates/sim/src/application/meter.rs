//! Throughput estimate of a video player, as by ExoPlayer 2 (`DefaultBandwidthMeter`): one sample
//! for each transfer, however small; the median of the latest samples, weighted by the square roots
//! of their sizes. Pure: time is an argument.

use std::time::Duration;

/// Initial estimate.
const AT_FIRST_BPS: f64 = 1e6;
/// Total time of transfers from which samples are used ...
const KNOWN_AFTER: Duration = Duration::from_secs(2);
/// ... or their total size.
const KNOWN_AFTER_BYTES: u64 = 512 << 10;
/// Sum of the weights of the latest samples.
const WINDOW_WEIGHT: f64 = 2000.0;

/// The measured throughput.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    /// Weight, and bits per second; the latest is last.
    samples: Vec<(f64, f64)>,
    took: Duration,
    bytes: u64,
}

impl Meter {
    /// Adds a transfer of `bytes` that took this long.
    pub fn transferred(&mut self, bytes: u64, took: Duration) {
        self.took += took;
        self.bytes += bytes;
        if !took.is_zero() {
            let bytes = bytes as f64;
            let bps = bytes * 8.0 / took.as_secs_f64();
            self.samples.push((bytes.sqrt(), bps));
        }
    }

    /// Current estimate, in bits per second.
    pub fn bps(&self) -> f64 {
        let known = self.took >= KNOWN_AFTER || self.bytes >= KNOWN_AFTER_BYTES;
        let median = known.then(|| self.median()).flatten();
        median.unwrap_or(AT_FIRST_BPS)
    }

    fn median(&self) -> Option<f64> {
        let mut weight = 0.0;
        let mut window: Vec<(f64, f64)> = Vec::new();
        for &(w, rate) in self.samples.iter().rev() {
            if weight >= WINDOW_WEIGHT {
                break;
            }
            let w = w.min(WINDOW_WEIGHT - weight);
            weight += w;
            window.push((rate, w));
        }
        window.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0.0;
        for &(rate, w) in &window {
            below += w;
            if below >= weight / 2.0 {
                return Some(rate);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_first_guess_stands_until_enough_was_seen() {
        // 10 000 bytes in 40 ms: 2 Mbit/s, each.
        let mut by_time = Meter::default();
        for _ in 0..49 {
            by_time.transferred(10_000, MS(40));
            assert_eq!(by_time.bps(), AT_FIRST_BPS);
        }
        by_time.transferred(10_000, MS(40));
        assert_eq!(by_time.bps(), 2e6);
        let mut by_bytes = Meter::default();
        by_bytes.transferred(KNOWN_AFTER_BYTES - 1, MS(100));
        assert_eq!(by_bytes.bps(), AT_FIRST_BPS);
        by_bytes.transferred(1, MS(0));
        assert!(by_bytes.bps() > 40e6, "{}", by_bytes.bps());
    }

    #[test]
    fn the_latest_count_by_the_root_of_their_size() {
        let mut meter = Meter::default();
        // Weights of 1000; 8 and 16 Mbit/s.
        for (bytes, ms) in [(1_000_000, 1000), (1_000_000, 500), (1_000_000, 500)] {
            meter.transferred(bytes, MS(ms));
        }
        assert_eq!(meter.bps(), 16e6, "the first one is out of the window");
        // One of 700 and three of 433 in all: the large one decides.
        let mut meter = Meter::default();
        for (bytes, ms) in [(490_000, 1000), (20_864, 1), (20_864, 1), (20_864, 1)] {
            meter.transferred(bytes, MS(ms));
        }
        assert_eq!(meter.bps(), 490_000.0 * 8.0);
    }
}
