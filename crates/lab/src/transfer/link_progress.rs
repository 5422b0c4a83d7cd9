//! Progress curves as in the paper's Figure 4: bytes that each link had carried, over time.

use mpbond_units::Timestamp;

use crate::error::Result;
use crate::experiment::{Direction, Experiment, Scheme, Workload};
use crate::player::Passed;
use crate::record::{IdealProgress, LinkProgress};
use crate::transfer::ideal::ideal_time;

/// Bytes of IP, TCP and timestamps in every packet.
const HEADER_BYTES: u32 = 52;
/// Maximum number of points of a curve, so that records stay small.
const MAX_POINTS: usize = 150;
/// Number of points of the bound's curve, which is straight between changes of rates.
const IDEAL_POINTS: u64 = 24;
/// Maximum number of curves of bounds; each costs time with recordings.
const MAX_IDEALS: usize = 60;

/// The curves of those of `links` that carried packets in `direction`. Seconds count from the first
/// packet on any link.
pub(crate) fn of_links(
    links: &[String],
    passed: &[Passed],
    direction: Direction,
) -> Vec<LinkProgress> {
    let start = passed.iter().map(|p| p.departed).min().unwrap_or_default();
    let curve = |(number, name): (usize, &String)| {
        let mine = passed
            .iter()
            .filter(|p| p.link == number && p.direction == direction)
            .map(|p| (p.arrived, p.bytes.saturating_sub(HEADER_BYTES)))
            .filter(|(_, bytes)| *bytes > 0);
        let points = cumulated(start, mine.collect());
        (!points.is_empty()).then(|| LinkProgress {
            link: name.clone(),
            points,
        })
    };
    links.iter().enumerate().filter_map(curve).collect()
}

fn cumulated(start: Timestamp, mut packets: Vec<(Timestamp, u32)>) -> Vec<(f64, u64)> {
    packets.sort_by_key(|(at, _)| *at);
    let step = packets.len().div_ceil(MAX_POINTS).max(1);
    let last = packets.len().saturating_sub(1);
    let mut sum = 0;
    let mut points = Vec::new();
    for (i, (at, bytes)) in packets.into_iter().enumerate() {
        sum += u64::from(bytes);
        if i % step == 0 || i == last {
            let seconds = at.since(start).as_secs_f64();
            // Rounded to microseconds, so that records stay small.
            points.push(((seconds * 1e6).round() / 1e6, sum));
        }
    }
    points
}

/// The bound's curve for every scheme and transfer, up to a maximum number. Applications, which are
/// no single transfer, have none.
///
/// # Errors
/// As [`ideal_time`].
pub(crate) fn ideals(e: &Experiment) -> Result<Vec<IdealProgress>> {
    let mut all = Vec::new();
    for scheme in &e.schemes {
        for workload in e.workloads_of(scheme) {
            if workload.application().is_none() && all.len() < MAX_IDEALS {
                all.push(IdealProgress {
                    scheme: scheme.name.get_ref().clone(),
                    workload: workload.name.get_ref().clone(),
                    points: ideal(e, scheme, workload)?,
                });
            }
        }
    }
    Ok(all)
}

/// The times at which the bound has carried each part of the workload.
fn ideal(e: &Experiment, scheme: &Scheme, workload: &Workload) -> Result<Vec<(f64, u64)>> {
    let whole = workload.bytes.0;
    let parts = (0..=IDEAL_POINTS).map(|i| (whole / IDEAL_POINTS * i).max(1));
    let parts = parts.chain([whole]);
    let mut points: Vec<(f64, u64)> = Vec::new();
    for bytes in parts {
        let seconds = ideal_time(e, scheme, workload, bytes)?.as_secs_f64();
        if points.last().is_none_or(|(_, before)| *before < bytes) {
            points.push((seconds, bytes));
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn packet(link: usize, direction: Direction, bytes: u32, ms: u64) -> Passed {
        let at = Timestamp::ZERO + Duration::from_millis(1_000 + ms);
        Passed {
            link,
            direction,
            bytes,
            departed: at,
            arrived: at + Duration::from_millis(20),
        }
    }

    #[test]
    fn links_add_up_what_came() {
        let passed = [
            packet(0, Direction::Up, 200, 0),
            packet(1, Direction::Down, 1_500, 30),
            packet(0, Direction::Down, 1_052, 10),
            packet(0, Direction::Down, 52, 15), // an ACK
            packet(0, Direction::Down, 1_500, 20),
        ];
        let names = ["a", "b", "idle"].map(str::to_owned);
        let curves = of_links(&names, &passed, Direction::Down);
        assert_eq!(curves.len(), 2, "{curves:?}");
        assert_eq!(curves[0].link, "a");
        assert_eq!(curves[0].points, [(0.03, 1_000), (0.04, 2_448)]);
        assert_eq!(curves[1].points, [(0.05, 1_448)]);
    }

    #[test]
    fn long_curves_keep_their_end() {
        let many: Vec<Passed> = (0..10_001)
            .map(|i| packet(0, Direction::Up, 1_052, i))
            .collect();
        let curves = of_links(&["a".to_owned()], &many, Direction::Up);
        let points = &curves[0].points;
        assert!(points.len() <= MAX_POINTS + 1, "{}", points.len());
        assert_eq!(points.last(), Some(&(10.02, 10_001_000)));
        assert!(points.is_sorted_by_key(|p| p.1));
    }

    #[test]
    fn the_bound_grows_to_its_end() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/single.toml");
        let e = Experiment::load(std::path::Path::new(file)).unwrap();
        let all = ideals(&e).unwrap();
        assert_eq!(all.len(), 2);
        for (curve, workload) in all.iter().zip(&e.workloads) {
            let whole = ideal_time(&e, &e.schemes[0], workload, workload.bytes.0).unwrap();
            let end = curve.points[curve.points.len() - 1];
            assert_eq!(end, (whole.as_secs_f64(), workload.bytes.0));
            assert!(
                curve
                    .points
                    .windows(2)
                    .all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1)
            );
        }
    }
}
