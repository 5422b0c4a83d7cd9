use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use mpbond_net::DeviceId;
use serde::Deserialize;

/// `mpbond helper --config FILE`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperConfig {
    /// For people.
    pub name: String,
    /// Where primaries connect: the pipe's address.
    pub listen: SocketAddr,
    /// The device's key; made at the first start.
    pub identity: PathBuf,
    /// Where `mpbond status` asks.
    pub status_socket: PathBuf,
    /// Where Prometheus asks.
    pub metrics: Option<SocketAddr>,
    /// Primaries that may use this helper.
    pub trust: Vec<DeviceId>,
    /// The only places that relays may go.
    pub proxies: Vec<SocketAddr>,
    /// How to leave towards the proxy.
    pub uplink: Uplink,
    /// Bytes that may wait here, each way and relay.
    pub buffer_bytes: u64,
    /// Most bytes to relay in a calendar month.
    pub max_bytes_per_month: Option<u64>,
    /// The off switch.
    pub enabled: bool,
    /// TCP congestion control of both hops; unset: the system's.
    pub congestion: Option<String>,
}

/// How to leave towards the proxy; by default as routes say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Uplink {
    /// Bind to this interface.
    pub interface: Option<String>,
    /// Bind to this address.
    pub source: Option<IpAddr>,
}
