//! Hosts, links and transfers for which a bound is computed.

use std::time::Duration;

use super::capacity::Capacity;

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
