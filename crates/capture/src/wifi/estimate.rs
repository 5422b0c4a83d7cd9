//! Consensus time of a transmission, and the number of frames that all sniffers missed.

use super::alignment::Clock;

/// Weight of each sniffer's time stamps. A residual contains the jitter of both clocks, which
/// cannot be separated: the main clock counts as the best of the others.
pub(super) fn weights(clocks: &[Clock]) -> Vec<f64> {
    // Time stamps have whole microseconds.
    let of = |ns: f64| 1.0 / ns.max(1e3).powi(2);
    let others = clocks.iter().skip(1).map(|c| of(c.residual_p95_ns));
    let best = others.clone().fold(0.0, f64::max);
    std::iter::once(best).chain(others).collect()
}

pub(super) fn consensus(stamps: &[(usize, f64)], weights: &[f64]) -> Option<f64> {
    let (_, base) = *stamps.first()?;
    let (mut sum, mut all) = (0.0, 0.0);
    for (who, at) in stamps {
        let weight = weights.get(*who)?;
        sum += weight * (at - base);
        all += weight;
    }
    Some(base + sum / all)
}

/// Estimated number of frames, when sniffers miss them independently: the N for which `N (1 - Π (1
/// - n_i / N))` frames are captured by any.
pub(super) fn estimate(seen: u64, had: &[u64]) -> f64 {
    let seen = seen as f64;
    let mut total = seen;
    for _ in 0..200 {
        let missed: f64 = had
            .iter()
            .map(|n| 1.0 - *n as f64 / total.max(1.0))
            .product();
        let next = seen / (1.0 - missed).max(1e-9);
        // Sniffers without a common frame give no estimate of what all missed.
        if !next.is_finite() || (next - total).abs() < 1e-6 * total {
            break;
        }
        total = next;
    }
    total
}
