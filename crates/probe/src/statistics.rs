//! Statistics of delays.

use mpbond_statistics::Sample;
use serde::Serialize;

/// Distribution of values, given in the order in which they were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: usize,
    /// Smallest value.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Margin of error of the mean: half the width of its 95 % confidence interval; `None` for one
    /// value.
    pub mean_ci95: Option<f64>,
    /// Median. Quantiles are interpolated as [`mpbond_statistics`] defines them.
    pub median: f64,
    /// First quartile.
    pub p25: f64,
    /// Third quartile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
    /// Standard deviation (n − 1); `None` for one value.
    pub standard_deviation: Option<f64>,
    /// Mean absolute difference between successive values (delay variation of RFC 3393, not the PDV
    /// of RFC 5481).
    pub jitter: Option<f64>,
    /// All values, for charts.
    #[serde(skip)]
    pub sample: Sample,
}

impl Distribution {
    /// The distribution of `values`; `None` without values.
    pub fn of(values: Vec<f64>) -> Option<Self> {
        let count = values.len();
        let steps: f64 = values
            .windows(2)
            .map(|pair| match pair {
                [a, b] => (b - a).abs(),
                _ => 0.0,
            })
            .sum();
        let sample = Sample::new(values);
        let quantile = |share| sample.quantile(share);
        Some(Self {
            count,
            min: sample.min()?,
            mean: sample.mean()?,
            mean_ci95: sample.margin_of_error(),
            median: sample.median()?,
            p25: quantile(0.25)?,
            p75: quantile(0.75)?,
            p90: quantile(0.9)?,
            p95: quantile(0.95)?,
            p99: quantile(0.99)?,
            max: sample.max()?,
            standard_deviation: sample.standard_deviation(),
            jitter: (count > 1).then(|| steps / (count - 1) as f64),
            sample,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand.
    #[test]
    fn a_small_sample_is_described() {
        let d = Distribution::of(vec![4.0, 1.0, 2.0, 3.0, 10.0]).unwrap();
        assert_eq!(
            (d.count, d.min, d.mean, d.median, d.max),
            (5, 1.0, 4.0, 3.0, 10.0)
        );
        assert_eq!((d.p25, d.p75), (2.0, 4.0));
        assert!((d.p90 - 7.6).abs() < 1e-9);
        // |1-4| + |2-1| + |3-2| + |10-3| = 12, over four steps.
        assert_eq!(d.jitter, Some(3.0));
        // Squares 0 + 9 + 4 + 1 + 36 = 50, s = sqrt(12.5); t(4) = 2.776445.
        let s = 12.5_f64.sqrt();
        assert!((d.standard_deviation.unwrap() - s).abs() < 1e-12);
        assert!((d.mean_ci95.unwrap() - 2.776_445 * s / 5_f64.sqrt()).abs() < 1e-6);
        assert_eq!(Distribution::of(vec![]), None);
        assert_eq!(Distribution::of(vec![1.0]).unwrap().mean_ci95, None);
    }
}
