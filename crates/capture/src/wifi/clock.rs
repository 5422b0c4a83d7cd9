//! Relation of two sniffers' clocks.
//!
//! "Toward Accurate Network Delay Measurement on Android Phones" counts from the beacon before
//! (equation 5), which carries the jitter of each beacon into time stamps (`bridge`). Here all
//! common frames count: a continuous piecewise linear function with as many pieces as the data
//! support (by BIC), so that steady clocks give the least-squares line and drifting ones are
//! followed.

use mpbond_statistics::Sample;

/// Maximum skew between two sniffers: among phones and sniffers it is within ±100 ppm ("Toward
/// Accurate Network Delay Measurement on Android Phones", section 3.2). Twice that is allowed, and
/// 50 ppm for the temperature.
const MAX_SKEW: f64 = 250e-6;
/// Allowance for jitter in the search for the offset.
const SLACK_NS: f64 = 5e6;
/// Minimum number of frames of a piece.
const LEAST_IN_PIECE: usize = 8;
const MAX_PIECES: usize = 1024;
/// Maximum number of frames for the first line, whose cost is quadratic.
const SAMPLED: usize = 400;

/// Relation of clock B to clock A. Times in ns since each capture's start.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockRelation {
    /// Time of A, and B minus A at that time.
    knots: Vec<(f64, f64)>,
}

impl ClockRelation {
    /// Relation of two equal clocks.
    pub fn same() -> Self {
        Self {
            knots: vec![(0.0, 0.0)],
        }
    }

    /// B minus A when A shows `a_ns`; the outer pieces extend beyond the ends.
    pub fn offset_ns(&self, a_ns: f64) -> f64 {
        let after = self.knots.partition_point(|(at, _)| *at <= a_ns);
        let last = self.knots.len().saturating_sub(1);
        let first = after.saturating_sub(1).min(last.saturating_sub(1));
        match (self.knots.get(first), self.knots.get(first + 1)) {
            (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (a_ns - a.0) / (b.0 - a.0),
            (Some(only), None) => only.1,
            _ => 0.0,
        }
    }

    /// Time of A when B shows `b_ns`.
    pub fn to_a(&self, b_ns: f64) -> f64 {
        // Slopes are about 1e-5: each step gains five digits.
        (0..4).fold(b_ns - self.offset_ns(b_ns), |a, _| b_ns - self.offset_ns(a))
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.knots.len().saturating_sub(1)
    }
}

/// Relation of two clocks, with its quality.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockFit {
    /// Relation.
    pub relation: ClockRelation,
    /// Common frames used: time of A, and B minus A.
    pub references: Vec<(f64, f64)>,
    /// Number of common frames discarded as outliers.
    pub outliers: usize,
    /// B minus A at A's start, by the straight line through all, in ns.
    pub offset_ns: f64,
    /// Median of B minus A, in ns.
    pub median_offset_ns: f64,
    /// Skew of B relative to A, by that line.
    pub skew_ppm: f64,
    /// Distance of frames from the relation, median, in ns.
    pub residual_median_ns: f64,
    /// Distance of frames from the relation, 95th percentile, in ns.
    pub residual_p95_ns: f64,
}

impl ClockFit {
    /// Fits common frames, given as pairs of times of A and B, any of which may be wrong. `None`
    /// when fewer than three agree.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let mut points: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*a, b - a)).collect();
        points.sort_by(|p, q| p.0.total_cmp(&q.0));
        let near = densest(&points);
        let (slope, start) = first_line(&near)?;
        // Drift is allowed for: only gross outliers are removed here.
        let mut inliers = trimmed(&near, |a| start + slope * a, 12.0);
        let mut relation = chosen(&inliers)?;
        for _ in 0..3 {
            inliers = trimmed(&near, |a| relation.offset_ns(a), 6.0);
            relation = chosen(&inliers)?;
        }
        let residuals = inliers
            .iter()
            .map(|(a, d)| (d - relation.offset_ns(*a)).abs());
        let residuals: Sample = residuals.collect();
        let line = fit(&inliers, 1)?;
        let offsets: Sample = inliers.iter().map(|p| p.1).collect();
        Some(Self {
            outliers: points.len() - inliers.len(),
            offset_ns: line.offset_ns(0.0),
            median_offset_ns: offsets.median()?,
            skew_ppm: (line.offset_ns(1e9) - line.offset_ns(0.0)) / 1e9 * 1e6,
            residual_median_ns: residuals.median()?,
            residual_p95_ns: residuals.quantile(0.95)?,
            relation,
            references: inliers,
        })
    }
}

/// Largest set of points whose offsets are as close as the clocks allow.
fn densest(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let span = match (points.first(), points.last()) {
        (Some(first), Some(last)) => last.0 - first.0,
        _ => 0.0,
    };
    let width = SLACK_NS + MAX_SKEW * span;
    let mut offsets: Vec<f64> = points.iter().map(|p| p.1).collect();
    offsets.sort_by(f64::total_cmp);
    let (mut low, mut best) = (0, (0, 0.0));
    for (high, d) in offsets.iter().enumerate() {
        while offsets.get(low).is_some_and(|from| d - from > width) {
            low += 1;
        }
        if high + 1 - low > best.0 {
            best = (
                high + 1 - low,
                offsets.get(low).copied().unwrap_or_default(),
            );
        }
    }
    let inside = best.1..=best.1 + width;
    points
        .iter()
        .filter(|p| inside.contains(&p.1))
        .copied()
        .collect()
}

/// Siegel's repeated medians: correct while fewer than half of the points are wrong.
fn first_line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let step = points.len().div_ceil(SAMPLED).max(1);
    let sample: Vec<(f64, f64)> = points.iter().step_by(step).copied().collect();
    if sample.len() < 3 {
        return None;
    }
    let slopes: Sample = sample
        .iter()
        .filter_map(|p| {
            let own = sample.iter().filter(|q| q.0 != p.0);
            let slopes = own.map(|q| (q.1 - p.1) / (q.0 - p.0));
            slopes.collect::<Sample>().median()
        })
        .collect();
    let slope = slopes.median()?;
    let starts = points.iter().map(|p| p.1 - slope * p.0);
    Some((slope, starts.collect::<Sample>().median()?))
}

/// Points within `widths` robust standard deviations of a line.
fn trimmed(points: &[(f64, f64)], line: impl Fn(f64) -> f64, widths: f64) -> Vec<(f64, f64)> {
    let distances = points.iter().map(|p| (p.1 - line(p.0)).abs());
    let typical = distances.collect::<Sample>().median().unwrap_or_default();
    // Time stamps have whole microseconds: smaller distances mean nothing.
    let limit = (1.4826 * typical * widths).max(1500.0);
    points
        .iter()
        .filter(|p| (p.1 - line(p.0)).abs() <= limit)
        .copied()
        .collect()
}

/// Piecewise linear function with the best BIC.
fn chosen(points: &[(f64, f64)]) -> Option<ClockRelation> {
    if points.len() < 3 {
        return None;
    }
    let n = points.len() as f64;
    let mut best: Option<(f64, ClockRelation)> = None;
    let mut pieces = 1;
    while pieces <= MAX_PIECES && (pieces == 1 || points.len() >= pieces * LEAST_IN_PIECE) {
        let relation = fit(points, pieces)?;
        let squares: f64 = points
            .iter()
            .map(|(a, d)| (d - relation.offset_ns(*a)).powi(2))
            .sum();
        // Time stamps have microseconds: nothing is known better than a fraction of one.
        let variance = (squares / n).max(100.0 * 100.0);
        let bic = n * variance.ln() + 3.0 * pieces as f64 * n.ln();
        if best.as_ref().is_none_or(|(least, _)| bic < *least) {
            best = Some((bic, relation));
        }
        pieces *= 2;
    }
    best.map(|(_, relation)| relation)
}

/// Continuous piecewise linear function of `pieces` pieces with the least squares; each has equally
/// many points.
fn fit(points: &[(f64, f64)], pieces: usize) -> Option<ClockRelation> {
    let mut at: Vec<f64> = (0..=pieces)
        .filter_map(|i| points.get((points.len() - 1) * i / pieces).map(|p| p.0))
        .collect();
    at.dedup_by(|b, a| *b - *a < 1e6);
    if at.len() < 2 {
        return None;
    }
    let k = at.len();
    // Normal equations of hat functions: three diagonals.
    let (mut diagonal, mut beside, mut right) = (vec![0.0; k], vec![0.0; k], vec![0.0; k]);
    let base = points.first()?.1;
    let mut piece = 0;
    for (x, d) in points {
        while piece + 2 < k && at.get(piece + 1).is_some_and(|next| *next <= *x) {
            piece += 1;
        }
        let (from, to) = (*at.get(piece)?, *at.get(piece + 1)?);
        let share = (x - from) / (to - from);
        let (left_weight, right_weight) = (1.0 - share, share);
        *diagonal.get_mut(piece)? += left_weight * left_weight;
        *diagonal.get_mut(piece + 1)? += right_weight * right_weight;
        *beside.get_mut(piece)? += left_weight * right_weight;
        *right.get_mut(piece)? += left_weight * (d - base);
        *right.get_mut(piece + 1)? += right_weight * (d - base);
    }
    // Thomas' elimination.
    for i in 1..k {
        let factor = beside.get(i - 1)? / diagonal.get(i - 1)?;
        let (up, up_right) = (*beside.get(i - 1)?, *right.get(i - 1)?);
        *diagonal.get_mut(i)? -= factor * up;
        *right.get_mut(i)? -= factor * up_right;
    }
    let mut values = vec![0.0; k];
    for i in (0..k).rev() {
        let next = values.get(i + 1).copied().unwrap_or_default();
        let carried = if i + 1 < k {
            beside.get(i)? * next
        } else {
            0.0
        };
        *values.get_mut(i)? = (right.get(i)? - carried) / diagonal.get(i)?;
    }
    if values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let knots = at.into_iter().zip(values.into_iter().map(|v| v + base));
    Some(ClockRelation {
        knots: knots.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise without a generator: the golden ratio's multiples, through a rough normal quantile.
    fn noise(i: usize) -> f64 {
        let u = |k: f64| (i as f64 * k).fract();
        (u(0.618_034) + u(0.754_878) + u(0.569_84) + u(0.819_173) - 2.0) * 3.0_f64.sqrt()
    }

    #[test]
    fn a_straight_clock_gives_one_line() {
        let pairs: Vec<(f64, f64)> = (0..1000)
            .map(|i| {
                let a = i as f64 * 102.4e6;
                (a, a * (1.0 + 15e-6) + 3e9 + 4000.0 * noise(i))
            })
            .collect();
        let fit = ClockFit::of(&pairs).unwrap();
        assert_eq!(fit.relation.pieces(), 1);
        assert!((fit.skew_ppm - 15.0).abs() < 0.02, "{}", fit.skew_ppm);
        assert!((fit.offset_ns - 3e9).abs() < 500.0);
        let back = fit.relation.to_a(50e9 * (1.0 + 15e-6) + 3e9);
        assert!((back - 50e9).abs() < 500.0, "{back}");
    }

    /// A day in which the skew goes from 10 to 20 ppm and back; and every tenth pair is wrong.
    #[test]
    fn a_clock_that_wanders_is_followed() {
        let day = 86_400e9_f64;
        let truth = |a: f64| {
            let turn = a / day * std::f64::consts::TAU;
            -7e9 + 15e-6 * a - 5e-6 * day / std::f64::consts::TAU * turn.sin()
        };
        let pairs: Vec<(f64, f64)> = (0..20_000)
            .map(|i| {
                let a = i as f64 * day / 20_000.0;
                let wrong = if i % 10 == 3 {
                    1e12 * noise(i + 7)
                } else {
                    0.0
                };
                (a, a + truth(a) + 4000.0 * noise(i) + wrong)
            })
            .collect();
        let fit = ClockFit::of(&pairs).unwrap();
        assert!(fit.relation.pieces() > 10);
        let worst = (0..200)
            .map(|i| fit.relation.offset_ns(i as f64 * day / 200.0))
            .zip((0..200).map(|i| truth(i as f64 * day / 200.0)))
            .map(|(is, should)| (is - should).abs())
            .fold(0.0, f64::max);
        assert!(worst < 5_000.0, "{worst} ns; a line would be off by 50 ms");
        assert!(fit.outliers.abs_diff(2000) < 50, "{}", fit.outliers);
    }

    #[test]
    fn too_few_give_nothing() {
        assert_eq!(ClockFit::of(&[]), None);
        assert_eq!(ClockFit::of(&[(0.0, 1.0), (1e9, 1e9)]), None);
        assert_eq!(ClockFit::of(&[(5.0, 1.0); 9]), None);
    }
}
