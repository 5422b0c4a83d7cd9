//! How one sniffer's clock goes against another's.
//!
//! The paper bridges from one beacon to the next (equation 5), which carries the jitter of that
//! beacon into every stamp. Here all common frames tell: a continuous chain of lines, of as many
//! pieces as the data ask for (by BIC) and no more, so that straight clocks give the least-squares
//! line and those that wander are followed.

/// Sniffers' clocks are within ±100 ppm (paper, section 3.2), so two are within 200 of each other.
const MAX_SKEW: f64 = 250e-6;
/// A start that jitter cannot hide.
const SLACK_NS: f64 = 5e6;
/// Frames that one piece needs.
const LEAST_IN_PIECE: usize = 8;
const MAX_PIECES: usize = 1024;
/// The first line goes through so many at most: every pair of them is looked at.
const SAMPLED: usize = 400;

/// How clock B goes against clock A. Times in ns since each capture's start.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockRelation {
    /// Time of A, and B minus A then.
    knots: Vec<(f64, f64)>,
}

impl ClockRelation {
    /// Two clocks that are the same.
    pub fn same() -> Self {
        Self {
            knots: vec![(0.0, 0.0)],
        }
    }

    /// B minus A when A shows `a_ns`; beyond the ends the outer pieces go on.
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

    /// What A shows when B shows `b_ns`.
    pub fn to_a(&self, b_ns: f64) -> f64 {
        // Slopes are some 1e-5: each step gains five digits.
        (0..4).fold(b_ns - self.offset_ns(b_ns), |a, _| b_ns - self.offset_ns(a))
    }

    /// Pieces of the chain.
    pub fn pieces(&self) -> usize {
        self.knots.len().saturating_sub(1)
    }
}

/// A relation, and how well it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockFit {
    /// How the clocks go.
    pub relation: ClockRelation,
    /// Common frames that it rests on.
    pub frames: usize,
    /// Frames that looked common and fit nowhere near.
    pub outliers: usize,
    /// B minus A at A's start, by the straight line through all.
    pub offset_ns: f64,
    /// B minus A, the median.
    pub median_offset_ns: f64,
    /// How much faster B goes, by that line.
    pub skew_ppm: f64,
    /// Distances to the relation, ns: half are below.
    pub residual_median_ns: f64,
    /// Nineteen of twenty are below.
    pub residual_p95_ns: f64,
}

impl ClockFit {
    /// From common frames: times of A and of B, any of which may be wrong. `None` when fewer than
    /// three agree.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let mut points: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*a, b - a)).collect();
        points.sort_by(|p, q| p.0.total_cmp(&q.0));
        let near = densest(&points);
        let (slope, start) = first_line(&near)?;
        // Wander is allowed for: only what lies far from all others goes here.
        let mut inliers = trimmed(&near, |a| start + slope * a, 12.0);
        let mut relation = chosen(&inliers)?;
        for _ in 0..3 {
            inliers = trimmed(&near, |a| relation.offset_ns(a), 6.0);
            relation = chosen(&inliers)?;
        }
        let mut residuals: Vec<f64> = inliers
            .iter()
            .map(|(a, d)| (d - relation.offset_ns(*a)).abs())
            .collect();
        residuals.sort_by(f64::total_cmp);
        let line = fit(&inliers, 1)?;
        let mut offsets: Vec<f64> = inliers.iter().map(|p| p.1).collect();
        offsets.sort_by(f64::total_cmp);
        Some(Self {
            frames: inliers.len(),
            outliers: points.len() - inliers.len(),
            offset_ns: line.offset_ns(0.0),
            median_offset_ns: quantile(&offsets, 0.5),
            skew_ppm: (line.offset_ns(1e9) - line.offset_ns(0.0)) / 1e9 * 1e6,
            residual_median_ns: quantile(&residuals, 0.5),
            residual_p95_ns: quantile(&residuals, 0.95),
            relation,
        })
    }
}

pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// Those whose offsets lie together as closely as clocks allow: the most that do.
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

/// Siegel's repeated medians: right while fewer than half of the points are wrong.
fn first_line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let step = points.len().div_ceil(SAMPLED).max(1);
    let sample: Vec<(f64, f64)> = points.iter().step_by(step).copied().collect();
    if sample.len() < 3 {
        return None;
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| quantile(&values, 0.5))
    };
    let slopes: Vec<f64> = sample
        .iter()
        .filter_map(|p| {
            let own = sample.iter().filter(|q| q.0 != p.0);
            median(own.map(|q| (q.1 - p.1) / (q.0 - p.0)).collect())
        })
        .collect();
    let slope = median(slopes)?;
    let start = median(points.iter().map(|p| p.1 - slope * p.0).collect())?;
    Some((slope, start))
}

/// Those that lie within `widths` robust standard deviations of a line.
fn trimmed(points: &[(f64, f64)], line: impl Fn(f64) -> f64, widths: f64) -> Vec<(f64, f64)> {
    let mut distances: Vec<f64> = points.iter().map(|p| (p.1 - line(p.0)).abs()).collect();
    distances.sort_by(f64::total_cmp);
    // Stamps have whole microseconds: no distance below one means anything.
    let limit = (1.4826 * quantile(&distances, 0.5) * widths).max(1500.0);
    points
        .iter()
        .filter(|p| (p.1 - line(p.0)).abs() <= limit)
        .copied()
        .collect()
}

/// The chain with the best BIC.
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
        // Stamps in µs: nothing is known better than a fraction of one.
        let variance = (squares / n).max(100.0 * 100.0);
        let bic = n * variance.ln() + 3.0 * pieces as f64 * n.ln();
        if best.as_ref().is_none_or(|(least, _)| bic < *least) {
            best = Some((bic, relation));
        }
        pieces *= 2;
    }
    best.map(|(_, relation)| relation)
}

/// The continuous chain of `pieces` lines with the least squares; each has as many points.
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
