//! Paths in the direction of a transfer.

use super::capacity::{Capacity, nanos};
use super::error::IdealError;
use super::topology::{Direction, Hop, Path, Topology};

/// One hop in the order in which the data goes.
#[derive(Debug)]
pub(super) struct Leg<'a> {
    pub(super) capacity: &'a Capacity,
    /// From the begin of the path to here, in nanoseconds.
    pub(super) offset_ns: u64,
    /// Index in [`Topology::media`].
    pub(super) medium: Option<usize>,
}

/// A path in the order in which the data goes.
#[derive(Debug)]
pub(super) struct Route<'a> {
    pub(super) legs: Vec<Leg<'a>>,
    pub(super) delay_ns: u64,
}

/// All paths of a topology, in this direction.
pub(super) fn routes(
    topology: &Topology,
    direction: Direction,
) -> Result<Vec<Route<'_>>, IdealError> {
    topology
        .paths
        .iter()
        .map(|path| route(topology, path, direction))
        .collect()
}

fn route<'a>(
    topology: &'a Topology,
    path: &'a Path,
    direction: Direction,
) -> Result<Route<'a>, IdealError> {
    let hops: Vec<&Hop> = match direction {
        Direction::Down => path.hops.iter().rev().collect(),
        Direction::Up => path.hops.iter().collect(),
    };
    if hops.is_empty() {
        return Err(IdealError::Empty);
    }
    let mut delay_ns = 0_u64;
    let mut legs = Vec::with_capacity(hops.len());
    for hop in hops {
        let medium = match &hop.shared_medium {
            None => None,
            Some(name) => Some(
                topology
                    .media
                    .iter()
                    .position(|medium| medium.name == *name)
                    .ok_or_else(|| IdealError::UnknownMedium {
                        path: path.name.clone(),
                        medium: name.clone(),
                    })?,
            ),
        };
        legs.push(Leg {
            capacity: match direction {
                Direction::Down => &hop.down,
                Direction::Up => &hop.up,
            },
            offset_ns: delay_ns,
            medium,
        });
        delay_ns = delay_ns.saturating_add(nanos(hop.delay));
    }
    Ok(Route { legs, delay_ns })
}
