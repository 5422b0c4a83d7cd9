//! Frames common to two sniffers, by which their clocks are compared.

use std::collections::HashMap;

use super::clock::ClockFit;
use super::frame::FrameKind;
use super::sniffer::Seen;

/// Number of beacons from which other frames are not used: time stamps of beacons scatter least
/// ("Toward Accurate Network Delay Measurement on Android Phones", section 3.2).
const ENOUGH_BEACONS: usize = 20;

/// Relation of `b`'s clock to `a`'s, by beacons or else by all frames that each has once.
pub(super) fn compare(a: &[Seen], b: &[Seen]) -> Option<ClockFit> {
    let beacons = common(a, b, |s| s.kind == FrameKind::Beacon);
    if beacons.len() >= ENOUGH_BEACONS {
        return ClockFit::of(&beacons);
    }
    ClockFit::of(&common(a, b, |s| s.numbered() && !s.retry))
}

/// Times of frames that both have exactly once.
fn common(a: &[Seen], b: &[Seen], wanted: impl Fn(&Seen) -> bool) -> Vec<(f64, f64)> {
    let once = |seen: &[Seen]| {
        let mut all: HashMap<u64, Option<f64>> = HashMap::new();
        for s in seen.iter().filter(|s| wanted(s)) {
            let known = all.entry(s.identity).or_insert(Some(s.at_ns));
            if *known != Some(s.at_ns) {
                *known = None;
            }
        }
        all
    };
    let (of_a, of_b) = (once(a), once(b));
    let both = of_a.iter().filter_map(|(identity, at)| {
        let other = of_b.get(identity).copied().flatten()?;
        Some(((*at)?, other))
    });
    both.collect()
}
