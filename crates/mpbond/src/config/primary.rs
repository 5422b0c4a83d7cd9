use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use mpbond_net::DeviceId;
use mpbond_session::{BufferDelay, FeedbackRule, SchedulerKind};
use serde::Deserialize;

/// `mpbond primary --config FILE`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrimaryConfig {
    /// The device's key; made at the first start.
    pub identity: PathBuf,
    /// Where `mpbond status` asks.
    pub status_socket: PathBuf,
    /// Where Prometheus asks.
    pub metrics: Option<SocketAddr>,
    /// Whether the daemon gives up what it does not need once it is set up.
    pub sandbox: bool,
    /// For the uplink.
    pub scheduler: SchedulerKind,
    /// Whether slow subflows' bytes are sent again on faster ones.
    pub reinjection: bool,
    /// Over which subflows feedback travels.
    pub feedback: FeedbackRule,
    /// How the time that bytes wait at a helper is known: for the uplink, and whether the proxy is
    /// told what helpers measure.
    pub buffer_delay: BufferDelay,
    /// TCP congestion control of subflows; unset: the system's.
    pub congestion: Option<String>,
    /// How long open connections wait for a path when none is left.
    pub resume_for: Duration,
    /// What happens to new connections while no path to the proxy works.
    pub on_proxy_loss: OnProxyLoss,
    /// The far end.
    pub proxy: ProxyRef,
    /// Own links to the proxy.
    pub paths: Vec<PathConfig>,
    /// Devices that lend theirs.
    pub helpers: Vec<HelperRef>,
    /// SOCKS5 front.
    pub socks5: Option<FrontAddress>,
    /// HTTP proxy front.
    pub http: Option<FrontAddress>,
    /// Interception without any setting in the applications.
    pub transparent: Option<Transparent>,
}

/// What to do with new connections while no path to the proxy works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnProxyLoss {
    /// They go the ordinary way, single path; a warning says so.
    #[default]
    Direct,
    /// They are refused.
    Fail,
}

/// The proxy and how to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRef {
    /// Address and port.
    pub address: SocketAddr,
    /// Its device id, as `mpbond id` prints it there.
    pub id: DeviceId,
}

/// A PS-Path: one of the primary's own links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// For people.
    pub name: String,
    /// Bind to this interface.
    pub interface: Option<String>,
    /// Bind to this address.
    pub source: Option<IpAddr>,
    /// Used only when no other subflow is left.
    pub backup: bool,
}

/// A helper and the pipe to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperRef {
    /// For people.
    pub name: String,
    /// Where it is on the pipe.
    pub address: HelperAddress,
    /// Its device id.
    pub id: DeviceId,
    /// Bind the pipe to this interface.
    pub interface: Option<String>,
    /// Bind the pipe to this address.
    pub source: Option<IpAddr>,
    /// Used only when no other subflow is left.
    pub backup: bool,
}

/// Where a helper is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperAddress {
    /// At this address and port.
    At(SocketAddr),
    /// On the local network, wherever it announces itself.
    Discover,
}

/// Where a front listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontAddress {
    /// Address and port.
    pub listen: SocketAddr,
}

/// Interception without any setting in the applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transparent {
    /// How the kernel hands connections over.
    pub mode: TransparentMode,
    /// Where it hands them to; ports are chosen by the kernel when zero.
    pub listen: SocketAddr,
    /// Resolvers that DNS questions go to, over the session.
    pub resolvers: Vec<SocketAddr>,
    /// Destinations that are left alone.
    pub exclude: Vec<IpNet>,
    /// Interfaces whose hosts' traffic is intercepted too.
    pub forwarded: Vec<String>,
    /// What becomes of UDP that is neither DNS nor QUIC.
    pub udp: UdpPolicy,
    /// What becomes of IPv6.
    pub ipv6: Ipv6Policy,
}

/// What becomes of UDP that is neither DNS nor QUIC, while interception is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UdpPolicy {
    /// It goes past the session, over one path.
    #[default]
    Pass,
    /// It is answered with port unreachable.
    Reject,
}

/// What becomes of IPv6, while interception is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipv6Policy {
    /// As IPv4.
    #[default]
    Intercept,
    /// It is refused, so that applications fall back to IPv4.
    Reject,
}

/// How the kernel hands connections over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransparentMode {
    /// nft `redirect`: local connections.
    #[default]
    Redirect,
    /// nft `tproxy`: forwarded connections too.
    Tproxy,
}
