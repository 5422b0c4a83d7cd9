//! Merges captures: each transmission once, at its time by the main sniffer's clock.

use super::alignment::{Bridging, Clocks};
use super::matching::Matching;
use super::merged::{Merged, Times};
use super::sniffer::{Seen, Sniffer};

/// Maximum number of captures: origins are bits of a word.
const MAX_SNIFFERS: usize = 64;
/// Limits of the tolerance between time stamps: at the upper one, retransmissions run together.
const TOLERANCE_NS: (f64, f64) = (10e3, 2e6);

/// Reason why captures cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Wrong number of captures.
    #[error("at least two captures are needed, at most {MAX_SNIFFERS}")]
    Number,
    /// Clocks cannot be compared.
    #[error("{file}: no frames in common with {main}, or too few that agree on the time")]
    NothingCommon {
        /// Capture whose clock is unknown.
        file: String,
        /// Capture that it was compared with, directly or through others.
        main: String,
    },
}

/// Merges captures of the same channel; the first is the main one.
///
/// # Errors
/// [`MergeError`] when there are too few, or one has nothing in common with the others.
pub fn merge(sniffers: &[Sniffer], times: Times) -> Result<Merged<'_>, MergeError> {
    merge_by(sniffers, times, Bridging::Fit)
}

/// Merges captures as [`merge`], with a choice of the relation of clocks.
///
/// # Errors
/// As [`merge`].
pub fn merge_by(
    sniffers: &[Sniffer],
    times: Times,
    bridging: Bridging,
) -> Result<Merged<'_>, MergeError> {
    if !(2..=MAX_SNIFFERS).contains(&sniffers.len()) {
        return Err(MergeError::Number);
    }
    // A frame has the same identity in all captures only by the octets that all of them have.
    let with_check = sniffers.iter().all(|s| s.with_check);
    let octets = sniffers.iter().map(|s| s.kept_octets).min();
    let octets = octets.unwrap_or_default();
    let seen: Vec<Vec<Seen>> = sniffers
        .iter()
        .map(|s| s.identified(octets, with_check))
        .collect();
    let clocks = Clocks::of(&seen, bridging);
    let main = sniffers.first().map_or("", |s| &s.file);
    let mut known = Vec::new();
    for (clock, sniffer) in clocks.0.into_iter().zip(sniffers) {
        known.push(clock.ok_or_else(|| MergeError::NothingCommon {
            file: sniffer.file.clone(),
            main: main.to_owned(),
        })?);
    }
    let widest = known.iter().map(|c| c.residual_p95_ns).fold(0.0, f64::max);
    // Bridged, a time has the scatter of two frames.
    let scatter = match bridging {
        Bridging::Fit => 1.0,
        Bridging::Nearest | Bridging::NearestSkew => std::f64::consts::SQRT_2,
    };
    let tolerance_ns = (6.0 * widest * scatter).clamp(TOLERANCE_NS.0, TOLERANCE_NS.1);
    let mut matching = Matching::new(&seen, tolerance_ns);
    let mut order: Vec<(f64, usize, usize)> = Vec::new();
    for (who, (frames, clock)) in seen.iter().zip(&known).enumerate() {
        let own = frames.iter().enumerate();
        order.extend(own.map(|(i, s)| (clock.to_main(s.at_ns), who, i)));
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    for (at, who, i) in order {
        matching.take(at, who, i);
    }
    Ok(matching.finish(sniffers, &known, times))
}
