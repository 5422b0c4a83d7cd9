//! Medians, means and how sure of them one may be.

use crate::record::Estimate;

/// What `values` say: median and mean, each with its 95 % confidence
/// interval; none without values.
pub fn estimate(values: impl IntoIterator<Item = f64>) -> Option<Estimate> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let upper = *values.get(n / 2)?;
    let lower = *values.get((n - 1) / 2)?;
    let interval = rank(n).and_then(|k| Some((*values.get(k - 1)?, *values.get(n - k)?)));
    let mean = values.iter().sum::<f64>() / n as f64;
    let standard_deviation = (n > 1).then(|| {
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        (squares / (n - 1) as f64).sqrt()
    });
    let mean_interval = standard_deviation.map(|s| {
        let half = student_t(n - 1) * s / (n as f64).sqrt();
        (mean - half, mean + half)
    });
    Some(Estimate {
        median: (lower + upper) / 2.0,
        interval,
        mean,
        standard_deviation,
        mean_interval,
    })
}

/// The largest k for which the k-th smallest and k-th largest of n values
/// enclose the median with 95 % confidence, whatever the distribution: each
/// value falls below the median with probability 1/2, so what lies outside
/// has the binomial tail P(X < k) on either side.
fn rank(n: usize) -> Option<usize> {
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut tail = 0.0;
    let mut best = None;
    for k in 1..=n / 2 {
        tail += probability; // P(X = k - 1)
        if tail > 0.025 {
            break;
        }
        best = Some(k);
        probability *= (n - k + 1) as f64 / k as f64;
    }
    best
}

/// 97.5 % quantiles of Student's t for 1 to 10 degrees of freedom, where the
/// expansion below is not good enough.
const SMALL_T: [f64; 10] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004,
    2.262_157, 2.228_139,
];

/// The 97.5 % quantile of Student's t: a mean lies within so many standard
/// errors of the truth in 95 of 100 cases.
///
/// Beyond the table by the expansion around the normal quantile (Abramowitz
/// and Stegun, 26.7.5).
fn student_t(degrees: usize) -> f64 {
    if let Some(t) = degrees.checked_sub(1).and_then(|i| SMALL_T.get(i)) {
        return *t;
    }
    const X: f64 = 1.959_963_985;
    let n = degrees as f64;
    let (x3, x5, x7, x9) = (X.powi(3), X.powi(5), X.powi(7), X.powi(9));
    X + (x3 + X) / (4.0 * n)
        + (5.0 * x5 + 16.0 * x3 + 3.0 * X) / (96.0 * n.powi(2))
        + (3.0 * x7 + 19.0 * x5 + 17.0 * x3 - 15.0 * X) / (384.0 * n.powi(3))
        + (79.0 * x9 + 776.0 * x7 + 1482.0 * x5 - 1920.0 * x3 - 945.0 * X) / (92160.0 * n.powi(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_binomial_tables() {
        // Known: n = 20 takes the 6th and 15th value (95.9 %), n = 10 the 2nd
        // and 9th (97.9 %), n = 6 the extremes (96.9 %), n = 5 nothing.
        assert_eq!(rank(20), Some(6));
        assert_eq!(rank(10), Some(2));
        assert_eq!(rank(6), Some(1));
        assert_eq!(rank(5), None);
        assert_eq!(rank(0), None);
    }

    #[test]
    fn median_and_interval() {
        let e = estimate((1..=20).rev().map(f64::from)).unwrap();
        assert_eq!(e.median, 10.5);
        assert_eq!(e.interval, Some((6.0, 15.0)));
        assert_eq!(estimate([3.0]).unwrap().median, 3.0);
        assert_eq!(estimate([]), None);
    }

    #[test]
    fn mean_and_interval() {
        // By hand: mean 5, squares 9+1+1+1+0+0+4+16 = 32, over 7.
        let e = estimate([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(e.mean, 5.0);
        let deviation = e.standard_deviation.unwrap();
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let half = 2.364_624 * deviation / 8.0_f64.sqrt();
        let (low, high) = e.mean_interval.unwrap();
        assert!((low - (5.0 - half)).abs() < 1e-9 && (high - (5.0 + half)).abs() < 1e-9);
        // One value says nothing about how far values lie apart.
        let e = estimate([3.0]).unwrap();
        assert_eq!(
            (e.mean, e.standard_deviation, e.mean_interval),
            (3.0, None, None)
        );
    }

    /// The probability that |T| is at most `t`, by Simpson's rule over the
    /// density: independent of how the quantile is found.
    fn within(degrees: usize, t: f64) -> f64 {
        let n = degrees as f64;
        // Gamma((n+1)/2) / (sqrt(n pi) Gamma(n/2)), from n to n + 2.
        let first = if degrees % 2 == 1 { 1 } else { 2 };
        let mut scale = match first {
            1 => 1.0 / std::f64::consts::PI.sqrt() / std::f64::consts::PI.sqrt(),
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
            let inside = within(degrees, student_t(degrees));
            assert!((inside - 0.95).abs() < 1e-5, "{degrees}: {inside}");
        }
        assert!((student_t(1_000_000) - 1.959_966).abs() < 1e-5);
    }
}
