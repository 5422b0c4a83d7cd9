//! Bytes of metered links.

use crate::experiment::Experiment;
use crate::player::Passed;

/// Bytes that metered links have carried, both ways, in MB; `links` are the names by the packets'
/// link numbers. `None` where no link is metered.
pub(crate) fn metered_mb(e: &Experiment, links: &[String], passed: &[Passed]) -> Option<f64> {
    let metered: Vec<&String> = (e.links.iter())
        .filter(|link| link.metered)
        .map(|link| link.name.get_ref())
        .collect();
    let is_metered = |p: &&Passed| {
        links
            .get(p.link)
            .is_some_and(|name| metered.contains(&name))
    };
    let bytes: u64 = passed
        .iter()
        .filter(is_metered)
        .map(|p| u64::from(p.bytes))
        .sum();
    (!metered.is_empty()).then_some(bytes as f64 / 1e6)
}
