//! A helper's report on a relay, as far as decisions depend on it.

use std::time::Duration;

use mpbond_units::BitRate;

use crate::ids::RequestId;

/// Interval of a helper's reports while data moves: a few round trips of the pipe, and negligible
/// for a radio beside the data.
pub const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Bytes held at a helper for one hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes that wait at the helper.
    pub bytes: u64,
    /// Throughput of the hop; zero while unknown.
    pub throughput: BitRate,
    /// Time for which the last byte that left had waited there, as far as is known.
    pub sojourn: Option<Duration>,
}

/// A helper's report on one relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The relay, by the request that opened it.
    pub request: RequestId,
    /// Rises with each report of the relay; lower numbers than the last are out of date.
    pub number: u64,
    /// Downlink: held for the pipe.
    pub down: Held,
    /// Uplink: held for the HS-Path.
    pub up: Held,
}
