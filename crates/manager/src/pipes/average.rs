//! Average of a rate over time.

use std::time::Duration;

use mpbond_units::BitRate;

/// Exponentially weighted average of a rate.
#[derive(Debug)]
pub(super) struct Average {
    /// Time constant.
    span: Duration,
    bytes_per_sec: f64,
}

impl Average {
    pub(super) const fn over(span: Duration) -> Self {
        Self {
            span,
            bytes_per_sec: 0.0,
        }
    }

    /// So many bytes have moved in the time that ends now.
    pub(super) fn add(&mut self, bytes: u64, time: Duration) {
        let (time, span) = (time.as_secs_f64(), self.span.as_secs_f64());
        if time > 0.0 {
            let share = 1.0 - (-time / span).exp();
            self.bytes_per_sec += (bytes as f64 / time - self.bytes_per_sec) * share;
        }
    }

    pub(super) fn rate(&self) -> BitRate {
        BitRate::from_bytes_per_sec(self.bytes_per_sec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_within_its_time_constant() {
        let mut average = Average::over(Duration::from_secs(1));
        average.add(5_000, Duration::ZERO);
        assert_eq!(average.rate(), BitRate::ZERO);
        for _ in 0..10 {
            average.add(12_500, Duration::from_millis(100));
        }
        // 1 - 1/e of 1 Mbit/s.
        assert!((average.rate().mbps() - 0.632).abs() < 0.001);
        average.add(0, Duration::from_secs(20));
        assert!(average.rate().bps() < 10);
    }
}
