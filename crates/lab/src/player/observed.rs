//! Packets carried by links, and the timing of the player.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::experiment::Direction;

/// A packet carried by a link; of a Bluetooth link, bytes that arrived at one time, without
/// headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Number of the link, in the order of the player's links.
    pub link: usize,
    /// Direction of the packet.
    pub direction: Direction,
    /// Size, IP headers included.
    pub bytes: u32,
    /// Time at which its last bit left the queue.
    pub departed: Timestamp,
    /// Time of its arrival at the far end.
    pub arrived: Timestamp,
}

/// Timing of the player since [`Player::begin`].
///
/// [`Player::begin`]: super::Player::begin
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Number of packets released.
    pub packets: u64,
    /// Median lateness: time of release after due time.
    pub lateness_p50: Duration,
    /// 99th percentile of the lateness.
    pub lateness_p99: Duration,
    /// Maximum lateness.
    pub lateness_max: Duration,
    /// Number of packets refused by a device, or lost before they were read.
    pub lost: u64,
    /// Whether the player ran with real-time priority.
    pub realtime: bool,
    /// Processor time used by the player.
    pub cpu: Duration,
}
