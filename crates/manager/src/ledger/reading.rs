//! Inputs of the ledger.

use std::time::Duration;

/// Counts of one direction since some time before the first reading, in bytes with all headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// All that has passed the link.
    pub all_bytes: u64,
    /// The part of it that was lent.
    pub lent_bytes: u64,
    /// How often relays were held back by the lent rate.
    pub held_back: u64,
}

/// State of a link at one instant.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// What has passed towards the device.
    pub down: Passed,
    /// What has passed away from it.
    pub up: Passed,
    /// Round-trip times over the link that were measured since the last reading, each with the
    /// number of its relay; a relay that is measured in two ways has two.
    pub round_trips: Vec<(u64, Duration)>,
}
