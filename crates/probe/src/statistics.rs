//! What a number of delays have in common.

use serde::Serialize;

/// Of values in the order in which they came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// How many.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// Their mean.
    pub mean: f64,
    /// Half of the width of the mean's 95 % confidence interval; `None` for one value.
    pub mean_ci95: Option<f64>,
    /// As the next ones, by linear interpolation between neighbours.
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
    /// The most.
    pub max: f64,
    /// Standard deviation (n − 1); `None` for one value.
    pub standard_deviation: Option<f64>,
    /// Mean distance from one value to the next (RFC 3393 with RFC 5481's PDV left out).
    pub jitter: Option<f64>,
    /// Sorted, for pictures.
    #[serde(skip)]
    pub sorted: Vec<f64>,
}

impl Distribution {
    /// `None` without values.
    pub fn of(values: Vec<f64>) -> Option<Self> {
        let count = values.len();
        let steps: f64 = values
            .windows(2)
            .map(|pair| match pair {
                [a, b] => (b - a).abs(),
                _ => 0.0,
            })
            .sum();
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let several = count > 1;
        let standard_deviation = several.then(|| {
            let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
            (squares / (count - 1) as f64).sqrt()
        });
        Some(Self {
            count,
            min,
            mean,
            mean_ci95: standard_deviation.map(|s| student_t(count - 1) * s / (count as f64).sqrt()),
            median: quantile(&sorted, 0.5),
            p25: quantile(&sorted, 0.25),
            p75: quantile(&sorted, 0.75),
            p90: quantile(&sorted, 0.9),
            p95: quantile(&sorted, 0.95),
            p99: quantile(&sorted, 0.99),
            max,
            standard_deviation,
            jitter: several.then(|| steps / (count - 1) as f64),
            sorted,
        })
    }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1)) as f64 * share;
    let low = at.floor() as usize;
    let below = sorted.get(low).copied().unwrap_or_default();
    let above = sorted.get(low + 1).copied().unwrap_or(below);
    below + (above - below) * (at - low as f64)
}

/// The 97.5 % quantile of Student's t: exact for few values, Cornish and Fisher's expansion else
/// (Abramowitz and Stegun 26.7.5), which is right to 0.1 % from 5 degrees of freedom on.
fn student_t(degrees: usize) -> f64 {
    const FEW: [f64; 4] = [12.706_205, 4.302_653, 3.182_446, 2.776_445];
    if let Some(t) = degrees.checked_sub(1).and_then(|i| FEW.get(i)) {
        return *t;
    }
    let (z, n) = (1.959_964_f64, degrees as f64);
    let (z3, z5, z7, z9) = (z.powi(3), z.powi(5), z.powi(7), z.powi(9));
    z + (z3 + z) / (4.0 * n)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n.powi(3))
        + (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * z) / (92_160.0 * n.powi(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand.
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
        assert!((d.mean_ci95.unwrap() - 2.776_445 * s / 5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(Distribution::of(vec![]), None);
        assert_eq!(Distribution::of(vec![1.0]).unwrap().mean_ci95, None);
    }

    #[test]
    fn students_t_agrees_with_tables() {
        for (degrees, t) in [
            (1, 12.706),
            (5, 2.571),
            (10, 2.228),
            (30, 2.042),
            (99, 1.984),
        ] {
            assert!((student_t(degrees) / t - 1.0).abs() < 1e-3, "{degrees}");
        }
    }
}
