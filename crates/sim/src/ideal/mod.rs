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
mod error;
mod route;
mod shared;
mod slow_start;
#[cfg(test)]
mod tests;
mod topology;
mod unshared;

use std::time::Duration;

pub use capacity::Capacity;
pub use error::IdealError;
pub use slow_start::slow_start_time;
pub use topology::{Direction, Hop, Medium, Path, Topology, Transfer};

use capacity::HORIZON_NS;
use route::{Route, routes};

/// Payload bytes in a full packet: 1500 less 20 of IP, 20 of TCP, 12 of
/// timestamps.
pub const MSS: u64 = 1448;

/// IP bytes of a full packet.
pub const PACKET_BYTES: u64 = 1500;

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
