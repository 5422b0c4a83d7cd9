//! Kalman filter of one slowly varying value, for the strength of a signal (ADR 0023).

/// Variance of the change of Bluetooth's signal in 0.2 s, in dB².
pub const SIGNAL_CHANGE: f64 = 0.27;
/// Variance of a sample of it around its mean, in dB².
pub const SIGNAL_NOISE: f64 = 20.5;

/// Filter of a value that changes by a random walk and is seen with noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kalman {
    change: f64,
    noise: f64,
    /// Estimate and its variance; `None` before the first sample.
    state: Option<(f64, f64)>,
}

impl Default for Kalman {
    /// The filter of Bluetooth's signal strength, sampled every 0.2 s.
    fn default() -> Self {
        Self::new(SIGNAL_CHANGE, SIGNAL_NOISE)
    }
}

impl Kalman {
    /// A filter with the variance Q of the change between two samples, and the variance R of a
    /// sample.
    pub fn new(change: f64, noise: f64) -> Self {
        Self {
            change,
            noise,
            state: None,
        }
    }

    /// Takes a sample, and returns the estimate. A sample that is no number is ignored.
    pub fn update(&mut self, sample: f64) -> Option<f64> {
        if !sample.is_finite() {
            return self.estimate();
        }
        let (x, p) = match self.state {
            None => (sample, self.noise),
            Some((x, p)) => {
                let before = p + self.change;
                let gain = before / (before + self.noise);
                (x + gain * (sample - x), (1.0 - gain) * before)
            }
        };
        self.state = Some((x, p));
        Some(x)
    }

    /// Estimate; `None` before the first sample.
    pub fn estimate(&self) -> Option<f64> {
        self.state.map(|(x, _)| x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_by_hand() {
        // P- = 4 + 1 = 5, K = 5 / 9, x = -60 - 5 = -65, P = 4 / 9 * 5 = 20 / 9.
        let mut filter = Kalman::new(1.0, 4.0);
        assert_eq!(filter.update(-60.0), Some(-60.0));
        let x = filter.update(-69.0).unwrap();
        assert!((x + 65.0).abs() < 1e-12, "{x}");
        // P- = 29 / 9, K = 29 / 65.
        let x = filter.update(0.0).unwrap();
        assert!((x + 65.0 - 29.0).abs() < 1e-12, "{x}");
        assert_eq!(filter.update(f64::NAN), Some(x));
    }

    #[test]
    fn a_step_is_followed_and_noise_is_smoothed() {
        let mut filter = Kalman::default();
        for n in 0..200 {
            let x = filter.update(if n % 2 == 0 { -47.0 } else { -53.0 });
            if n > 50 {
                assert!((x.unwrap() + 50.0).abs() < 0.6, "{x:?}");
            }
        }
        // K tends to 0.108 with Q/R = 0.0132: 90 % of a step takes 20 samples, 4 s.
        let after: Vec<f64> = (0..25).filter_map(|_| filter.update(-70.0)).collect();
        assert!(after[18] > -68.0 && after[21] < -68.0, "{after:?}");
    }
}
