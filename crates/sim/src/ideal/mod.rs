//! Lower bound of the time of a transfer over the links of a topology, for any scheduler (fluid
//! model).
//!
//! Data is a fluid that all paths carry at once, with the overhead of TCP's packets ([`MSS`] bytes
//! in packets of [`PACKET_BYTES`]). For a download the links open when the request has reached the
//! server over the fastest path. The data that path *i* has delivered by *t* is, for a pipe behind
//! an HS-Path,
//!
//! > D_i(t) = min over s of \[ A_hs(s) + C_pipe(s, t) \]
//!
//! with A_hs the data that the HS-Path can have carried by *s*, C_pipe the capacity of the pipe
//! between *s* and *t*, and each hop's one-way delay added: the helper buffers without bound. The
//! result is the smallest *t* at which the D_i add up to the transfer. Hops that share a medium
//! share its one capacity (a maximum flow over time). For an upload data leaves at once, and the
//! one-way delay of the response is added.
//!
//! [`slow_start_time`] is a higher bound: what TCP's windows permit after an idle time.

mod capacity;
mod shared;
mod slow_start;
#[cfg(test)]
mod tests;
mod unshared;

use std::time::Duration;

pub use capacity::Capacity;
pub use slow_start::slow_start_time;

use capacity::nanos;

/// Payload bytes in a full packet: 1500 less 20 of IP, 20 of TCP, 12 of
/// timestamps.
pub const MSS: u64 = 1448;

/// IP bytes of a full packet.
pub const PACKET_BYTES: u64 = 1500;

/// Time after which a transfer counts as endless.
const HORIZON_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// Topology of hosts and links.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    /// Paths between primary and proxy.
    pub paths: Vec<Path>,
    /// Capacities that several hops share.
    pub media: Vec<Medium>,
}

/// A path between primary and proxy.
#[derive(Debug, Clone)]
pub struct Path {
    /// Name, for errors.
    pub name: String,
    /// Its links, from the primary to the proxy: the PS-Path alone, or pipe
    /// and HS-Path.
    pub hops: Vec<Hop>,
}

/// One link of a path.
#[derive(Debug, Clone)]
pub struct Hop {
    /// Towards the primary.
    pub down: Capacity,
    /// Away from the primary.
    pub up: Capacity,
    /// One way, the same in both directions.
    pub delay: Duration,
    /// The [`Medium`] that it shares with other hops, by name.
    pub shared_medium: Option<String>,
}

/// A capacity that hops share beside having their own: a cell, a WiFi channel.
#[derive(Debug, Clone)]
pub struct Medium {
    /// Name, by which hops refer to it.
    pub name: String,
    /// Joint capacity of all hops on it.
    pub capacity: Capacity,
}

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Proxy to primary.
    Down,
    /// Primary to proxy.
    Up,
}

/// Bytes to carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Application bytes.
    pub bytes: u64,
    /// Direction.
    pub direction: Direction,
}

/// Reason for which no bound can be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdealError {
    /// The topology has no path, or one of them no hop.
    #[error("a topology needs a path, and each path a hop")]
    Empty,
    /// A hop names a medium that the topology does not have.
    #[error("path {path}: there is no medium named \"{medium}\"")]
    UnknownMedium {
        /// The path.
        path: String,
        /// The name.
        medium: String,
    },
    /// A shared medium is neither at the first hop nor at the last hop of all paths that share it,
    /// as the maximum flow requires.
    #[error(
        "medium \"{medium}\" is shared in the middle of paths, or at both ends of one: \
         not supported"
    )]
    MediumInTheMiddle {
        /// The medium.
        medium: String,
    },
    /// The transfer takes longer than a day.
    #[error("the links do not carry the transfer within a day")]
    Never,
}

/// One hop in the order in which the data goes.
#[derive(Debug)]
struct Leg<'a> {
    capacity: &'a Capacity,
    /// From the begin of the path to here, in nanoseconds.
    offset_ns: u64,
    /// Index in [`Topology::media`].
    medium: Option<usize>,
}

/// A path in the order in which the data goes.
#[derive(Debug)]
struct Route<'a> {
    legs: Vec<Leg<'a>>,
    delay_ns: u64,
}

/// Lower bound of the transfer's time: for a download from the request to the last byte, for an
/// upload from the first byte to the response. Exact to the nanosecond, except for paths that share
/// a medium and have capacities with hundreds of changes (recorded traces): rates are then averaged
/// over 1/400 of the time, and the bound is lower than the exact one.
///
/// # Errors
/// See [`IdealError`].
pub fn ideal_time(topology: &Topology, transfer: Transfer) -> Result<Duration, IdealError> {
    let routes = routes(topology, transfer.direction)?;
    let fastest = routes.iter().map(|route| route.delay_ns).min();
    let fastest = fastest.ok_or(IdealError::Empty)?;
    let (begin, after) = match transfer.direction {
        Direction::Down => (fastest, 0),
        Direction::Up => (0, fastest),
    };
    let bits = transfer.bytes as f64 * 8.0 * PACKET_BYTES as f64 / MSS as f64;
    let (shared, alone): (Vec<Route>, Vec<Route>) = routes
        .into_iter()
        .partition(|route| route.legs.iter().any(|leg| leg.medium.is_some()));
    let network = shared::Network::new(topology, &shared)?;
    // f64 has fifteen digits: a bit in 100 TB is below its precision.
    let enough = bits * (1.0 - 1e-12) - 1e-3;
    let carried = |until: u64| {
        let alone: f64 = alone
            .iter()
            .map(|route| unshared::delivered_bits(route, begin, until))
            .sum();
        alone >= enough || alone + network.delivered_bits(begin, until, bits) >= enough
    };
    let end = earliest(begin, carried).ok_or(IdealError::Never)?;
    Ok(Duration::from_nanos(end.saturating_add(after)))
}

/// The first nanosecond from `begin` on at which `reached` holds, for a monotonic condition.
fn earliest(begin: u64, reached: impl Fn(u64) -> bool) -> Option<u64> {
    let mut step = 1_000_000_000;
    let mut low = begin;
    let mut high = begin;
    while !reached(high) {
        if high - begin > HORIZON_NS {
            return None;
        }
        low = high;
        high += step;
        step *= 2;
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if reached(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

fn routes(topology: &Topology, direction: Direction) -> Result<Vec<Route<'_>>, IdealError> {
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
