//! Links for the player, their timed changes, and logs of their packets.

use std::path::PathBuf;
use std::time::Duration;

use mpbond_sim::link::{LinkChange, LinkConfig, Shared};

use super::bluetooth::PlayedBluetooth;
use crate::experiment::Direction;
use crate::network::device::Device;

/// An emulated link, ready to be played.
pub struct PlayedLink {
    /// Name of the link.
    pub name: String,
    /// Device of the near host.
    pub near: Device,
    /// Device of the far host.
    pub far: Device,
    /// Model of the direction from far to near.
    pub down: LinkConfig,
    /// Model of the direction from near to far.
    pub up: LinkConfig,
    /// Medium and radios shared with other links, or between its directions.
    pub shared: Shared,
}

/// All links of a player. They are numbered in this order.
#[derive(Default)]
pub struct Emulated {
    /// Links that carry packets.
    pub links: Vec<PlayedLink>,
    /// Links that carry byte streams.
    pub bluetooth: Vec<PlayedBluetooth>,
}

impl From<Vec<PlayedLink>> for Emulated {
    fn from(links: Vec<PlayedLink>) -> Self {
        Self {
            links,
            bluetooth: Vec::new(),
        }
    }
}

/// Logs of packets; those of Bluetooth links are in none.
#[derive(Debug, Clone, Default)]
pub struct Logs {
    /// File for the packet log, as CSV.
    pub packets: Option<PathBuf>,
    /// Folder for one capture of each link (`LINK.pcap`), created when absent: packets sent and
    /// received by the near host's device.
    pub pcap: Option<PathBuf>,
}

/// A change of one direction of a link, at a time after [`Player::begin`].
///
/// [`Player::begin`]: super::Player::begin
#[derive(Debug, Clone)]
pub struct TimedChange {
    /// Time after the beginning.
    pub at: Duration,
    /// Name of the link.
    pub link: String,
    /// Direction that changes.
    pub direction: Direction,
    /// The change.
    pub change: LinkChange,
    /// New state of the carrier of the device at the end of this direction; `None` keeps it.
    pub carrier: Option<bool>,
}
