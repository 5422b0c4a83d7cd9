use std::net::SocketAddr;
use std::path::PathBuf;

use mpbond_net::DeviceId;
use mpbond_net::dest::Rule;
use mpbond_session::SchedulerKind;
use serde::Deserialize;

/// `mpbond proxy --config FILE`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// Where primaries and helpers connect.
    pub listen: Vec<SocketAddr>,
    /// The device's key; made at the first start.
    pub identity: PathBuf,
    /// Where `mpbond status` asks.
    pub status_socket: PathBuf,
    /// Where Prometheus asks.
    pub metrics: Option<SocketAddr>,
    /// Primaries that may connect.
    pub trust: Vec<DeviceId>,
    /// For the downlink.
    pub scheduler: SchedulerKind,
    /// Whether slow subflows' bytes are sent again on faster ones.
    pub reinjection: bool,
    /// TCP congestion control of subflows; unset: the system's.
    pub congestion: Option<String>,
    /// Where streams may lead.
    pub destinations: Destinations,
    /// Ends every stream at this one service, whatever destination it names.
    pub serve: Option<SocketAddr>,
    /// Worker threads; unset: one a core.
    pub workers: Option<usize>,
}

/// Where streams may lead. By default public addresses only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Destinations {
    /// Exceptions to the default refusal.
    pub allow: Vec<Rule>,
    /// Refused in any case.
    pub deny: Vec<Rule>,
}
