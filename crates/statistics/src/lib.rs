//! Descriptive statistics of samples: quantiles, mean, deviation and 95 % confidence intervals; and
//! the relation of two clocks ([`clock`]).
//!
//! Every crate that summarizes measurements uses these definitions, so that figures of different
//! reports can be compared:
//!
//! - A *quantile* is interpolated linearly between order statistics: the sample's sorted values
//!   stand at 0, 1/(n−1), …, 1 (type 7 of Hyndman and Fan, "Sample Quantiles in Statistical
//!   Packages", 1996; the default of R and NumPy). The median is the quantile at 1/2.
//! - The *standard deviation* is the estimate from a sample, divided by n − 1.
//! - A *mean's interval* is Student's t with n − 1 degrees of freedom.
//! - A *ratio of sums* has the interval of the jackknife ([`ratio_of_sums`]).
//! - A *median's interval* comes from order statistics and holds for any distribution.
//!
//! ```
//! use mpbond_statistics::Sample;
//!
//! let delays_ms = Sample::new(vec![4.0, 1.0, 2.0, 3.0, 10.0]);
//! assert_eq!(delays_ms.median(), Some(3.0));
//! assert_eq!(delays_ms.quantile(0.25), Some(2.0));
//! assert_eq!(delays_ms.mean(), Some(4.0));
//! assert!(Sample::new(vec![]).median().is_none());
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

pub mod clock;
mod ratio;

use distrs::StudentsT;

pub use ratio::{Ratio, ratio_of_sums};

/// Values in ascending order. NaN sorts last (negative NaN first).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// A sample of `values`, which may come in any order.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { sorted: values }
    }

    /// The values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether the sample has no values; all its statistics are `None` then.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Smallest value.
    pub fn min(&self) -> Option<f64> {
        self.sorted.first().copied()
    }

    /// Largest value.
    pub fn max(&self) -> Option<f64> {
        self.sorted.last().copied()
    }

    /// Value below which `share` (0 to 1) of the sample lies, interpolated linearly between order
    /// statistics.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let position = share.clamp(0.0, 1.0) * self.sorted.len().checked_sub(1)? as f64;
        let below = *self.sorted.get(position as usize)?;
        match self.sorted.get(position.ceil() as usize) {
            Some(above) if *above != below => Some(below + (above - below) * position.fract()),
            _ => Some(below),
        }
    }

    /// Middle value; the mean of the two middle ones when their number is even.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.sorted.iter().sum();
        (!self.is_empty()).then(|| sum / self.len() as f64)
    }

    /// Standard deviation, estimated from the sample (n − 1); `None` for fewer than two values.
    pub fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.sorted.iter().map(|v| (v - mean).powi(2)).sum();
        (self.len() > 1).then(|| (squares / (self.len() - 1) as f64).sqrt())
    }

    /// Margin of error: half the width of the mean's 95 % confidence interval, by Student's t;
    /// `None` for fewer than two values.
    pub fn margin_of_error(&self) -> Option<f64> {
        let n = self.len() as f64;
        let deviation = self.standard_deviation()?;
        Some(StudentsT::ppf(0.975, n - 1.0) * deviation / n.sqrt())
    }

    /// The mean's 95 % confidence interval: its lower and upper end.
    pub fn mean_interval(&self) -> Option<(f64, f64)> {
        let (mean, error) = (self.mean()?, self.margin_of_error()?);
        Some((mean - error, mean + error))
    }

    /// The median's 95 % confidence interval; `None` for fewer than six values.
    ///
    /// Its ends are order statistics, so that it holds whatever the distribution. It is wider than
    /// 95 % where ranks are coarse.
    pub fn median_interval(&self) -> Option<(f64, f64)> {
        let rank = median_rank(self.len())?;
        let low = *self.sorted.get(rank - 1)?;
        let high = *self.sorted.get(self.len() - rank)?;
        Some((low, high))
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self::new(values.into_iter().collect())
    }
}

/// The largest k for which the k-th smallest and k-th largest of n values enclose the median with
/// 95 % confidence.
///
/// Each value falls below the median with probability 1/2, so that P(X < k) of the binomial
/// distribution lies outside on either side.
fn median_rank(n: usize) -> Option<usize> {
    // As a logarithm: 2^-n itself is below the smallest f64 from n = 1075 on.
    let mut log_probability = n as f64 * 0.5_f64.ln();
    let mut tail = 0.0;
    let mut best = None;
    for k in 1..=n / 2 {
        tail += log_probability.exp(); // P(X = k - 1)
        if tail > 0.025 {
            break;
        }
        best = Some(k);
        log_probability += ((n - k + 1) as f64 / k as f64).ln();
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

    #[test]
    fn quantiles_are_interpolated_between_order_statistics() {
        let sample = Sample::new(vec![4.0, 1.0, 2.0, 3.0, 10.0]);
        assert_eq!((sample.min(), sample.max()), (Some(1.0), Some(10.0)));
        assert_eq!(sample.quantile(0.25), Some(2.0));
        assert_eq!(sample.quantile(0.75), Some(4.0));
        assert!(near(sample.quantile(0.9), 7.6)); // 3.6 of 4 steps: 4 + 0.6 * 6
        assert_eq!(sample.quantile(0.0), Some(1.0));
        assert_eq!(sample.quantile(1.0), Some(10.0));
        assert_eq!(sample.quantile(2.0), Some(10.0));
        assert_eq!(sample.quantile(f64::NAN), Some(1.0));
        // R: quantile(c(1, 2, 4, 8), c(0.1, 0.5, 0.95))
        let sample = Sample::new(vec![1.0, 2.0, 4.0, 8.0]);
        assert!(near(sample.quantile(0.1), 1.3));
        assert_eq!(sample.median(), Some(3.0));
        assert!(near(sample.quantile(0.95), 7.4));
        // Equal infinities have no difference to interpolate.
        let sample = Sample::new(vec![f64::INFINITY; 2]);
        assert_eq!(sample.median(), Some(f64::INFINITY));
    }

    #[test]
    fn mean_deviation_and_interval_by_hand() {
        // Mean 5, squares 9+1+1+1+0+0+4+16 = 32, over 7; t(7) = 2.364624.
        let sample = Sample::new(vec![2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(sample.mean(), Some(5.0));
        let deviation = (32.0_f64 / 7.0).sqrt();
        assert!(near(sample.standard_deviation(), deviation));
        let error = 2.364_624 * deviation / 8.0_f64.sqrt();
        assert!((sample.margin_of_error().unwrap() - error).abs() < 1e-6);
        let (low, high) = sample.mean_interval().unwrap();
        assert!((low - (5.0 - error)).abs() < 1e-6 && (high - (5.0 + error)).abs() < 1e-6);
    }

    #[test]
    fn small_samples_have_no_intervals() {
        let none = Sample::default();
        assert!(none.is_empty() && none.median().is_none() && none.mean().is_none());
        let one = Sample::new(vec![3.0]);
        assert_eq!((one.median(), one.mean()), (Some(3.0), Some(3.0)));
        assert_eq!(one.standard_deviation(), None);
        assert_eq!(one.mean_interval(), None);
        assert_eq!(one.median_interval(), None);
    }

    /// Binomial tables: n = 20 takes the 6th and 15th value (95.9 %), n = 10 the 2nd and 9th
    /// (97.9 %), n = 6 the extremes (96.9 %), n = 5 nothing.
    #[test]
    fn ranks_of_the_median_are_those_of_binomial_tables() {
        assert_eq!(median_rank(20), Some(6));
        assert_eq!(median_rank(10), Some(2));
        assert_eq!(median_rank(6), Some(1));
        assert_eq!(median_rank(5), None);
        assert_eq!(median_rank(0), None);
        let sample: Sample = (1..=20).rev().map(f64::from).collect();
        assert_eq!(sample.median(), Some(10.5));
        assert_eq!(sample.median_interval(), Some((6.0, 15.0)));
    }

    /// The same rank from a row of Pascal's triangle in which each row is halved, so that no value
    /// that matters is too small.
    fn rank_from_pascals_triangle(n: usize) -> Option<usize> {
        let mut row = vec![1.0_f64];
        for _ in 0..n {
            let left = std::iter::once(0.0).chain(row.iter().copied());
            let right = row.iter().copied().chain(std::iter::once(0.0));
            row = left.zip(right).map(|(a, b)| (a + b) / 2.0).collect();
        }
        let mut tail = 0.0;
        let inside = row.iter().take(n / 2).take_while(|p| {
            tail += **p;
            tail <= 0.025
        });
        Some(inside.count()).filter(|k| *k > 0)
    }

    #[test]
    fn ranks_of_large_samples_are_those_of_the_exact_distribution() {
        for n in [5, 6, 20, 1_074, 1_075, 1_100, 2_000] {
            assert_eq!(median_rank(n), rank_from_pascals_triangle(n), "{n}");
        }
        assert_eq!(median_rank(2_000), Some(956));
        // By the normal approximation: n / 2 - 1.96 sqrt(n) / 2 + 1 / 2.
        assert_eq!(median_rank(1_000_000), Some(499_020));
    }

    /// The probability that |T| is at most `t`, by Simpson's rule over the density: independent of
    /// the quantile's algorithm.
    fn within(degrees: usize, t: f64) -> f64 {
        let n = degrees as f64;
        // Gamma((n+1)/2) / (sqrt(n pi) Gamma(n/2)), from n to n + 2.
        let first = if degrees % 2 == 1 { 1 } else { 2 };
        let mut scale = match first {
            1 => std::f64::consts::FRAC_1_PI,
            _ => 0.5 / 2.0_f64.sqrt(),
        };
        for k in (first..degrees).step_by(2) {
            let k = k as f64;
            scale *= (k + 1.0) / k * (k / (k + 2.0)).sqrt();
        }
        let density = |x: f64| scale * (1.0 + x * x / n).powf(-(n + 1.0) / 2.0);
        let steps = 20_000;
        let h = t / f64::from(steps);
        let inner: f64 = (1..steps)
            .map(|i| density(h * f64::from(i)) * if i % 2 == 1 { 4.0 } else { 2.0 })
            .sum();
        2.0 * (density(0.0) + inner + density(t)) * h / 3.0
    }

    #[test]
    fn student_t_leaves_five_percent_outside() {
        for degrees in 1..=200 {
            let inside = within(degrees, StudentsT::ppf(0.975, degrees as f64));
            assert!((inside - 0.95).abs() < 1e-6, "{degrees}: {inside}");
        }
        assert!((StudentsT::ppf(0.975, 1e6) - 1.959_966).abs() < 1e-6);
    }
}
