//! Configuration of a primary, checked.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use mpbond_net::DeviceId;
pub use mpbond_net::Endpoint as ProxyAddress;
use mpbond_net::pipe::PipeAddress;
use mpbond_price::PipeRadios;
use mpbond_session::{BufferDelay, FeedbackRule, ReinjectionRule, SchedulerKind};
use serde::Deserialize;

use super::policy::PolicySource;

/// `mpbond primary --config FILE`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrimaryConfig {
    /// File of the device's key; made at the first start.
    pub identity: PathBuf,
    /// Path of the status socket.
    pub status_socket: PathBuf,
    /// Listening address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Whether the daemon gives up what it does not need once it is set up.
    pub sandbox: bool,
    /// Take over from the primary that runs, instead of listening anew.
    pub take_over: bool,
    /// Scheduler of the uplink.
    pub scheduler: SchedulerKind,
    /// Whether slow subflows' bytes are sent again on faster ones.
    pub reinjection: ReinjectionRule,
    /// Routing of pipe information.
    pub feedback: FeedbackRule,
    /// Source of the queueing delay at helpers: for the uplink, and whether helpers' measurements
    /// are sent to the proxy.
    pub buffer_delay: BufferDelay,
    /// TCP congestion control of subflows; unset: the system's.
    pub congestion: Option<String>,
    /// How long open connections wait for a path when none is left.
    pub resume_for: Duration,
    /// What happens to new connections while no path to the proxy works.
    pub on_proxy_loss: OnProxyLoss,
    /// The proxy.
    pub proxy: ProxyRef,
    /// Own links to the proxy.
    pub paths: Vec<PathConfig>,
    /// Helpers.
    pub helpers: Vec<HelperRef>,
    /// SOCKS5 front.
    pub socks5: Option<FrontAddress>,
    /// HTTP proxy front.
    pub http: Option<FrontAddress>,
    /// Interception without any setting in the applications.
    pub transparent: Option<Transparent>,
    /// Rules for new connections.
    pub policy: Option<PolicySource>,
}

/// Handling of new connections while no path to the proxy works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnProxyLoss {
    /// They go direct, over one path, with a warning.
    #[default]
    Direct,
    /// They are refused.
    Fail,
}

impl OnProxyLoss {
    /// The value as it is written in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fail => "fail",
        }
    }
}

/// Addresses and identity of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRef {
    /// Addresses, in order of preference; at least one.
    pub addresses: Vec<ProxyAddress>,
    /// Port that is tried at the same hosts when none of the addresses answers.
    pub fallback_port: Option<u16>,
    /// Its device id, as `mpbond id` prints it there.
    pub id: DeviceId,
}

impl ProxyRef {
    /// A proxy with a single address.
    pub fn at(address: SocketAddr, id: DeviceId) -> Self {
        Self {
            addresses: vec![ProxyAddress::At(address)],
            fallback_port: None,
            id,
        }
    }

    /// The addresses that need no look-up.
    pub fn fixed(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.addresses.iter().filter_map(ProxyAddress::fixed)
    }
}

/// A PS-Path: one of the primary's own links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// Name shown to people.
    pub name: String,
    /// Bind to this interface.
    pub interface: Option<String>,
    /// Bind to this address.
    pub source: Option<IpAddr>,
    /// Addresses of the proxy on this path, in place of those in [`ProxyRef`]; empty: those.
    pub proxy: Vec<ProxyAddress>,
    /// Used only when no other subflow is left.
    pub backup: bool,
}

/// A helper and the pipe to it.
#[derive(Clone, Debug, PartialEq)]
pub struct HelperRef {
    /// Name shown to people.
    pub name: String,
    /// Its address on the pipe.
    pub address: HelperAddress,
    /// Its device id.
    pub id: DeviceId,
    /// Bind the pipe to this interface.
    pub interface: Option<String>,
    /// Bind the pipe to this address.
    pub source: Option<IpAddr>,
    /// Used only when no other subflow is left.
    pub backup: bool,
    /// Its place, the cheapest one first, among the pipes of which the best one is used; `None`
    /// where all are.
    pub place: Option<usize>,
    /// Whether its relays may run over Ethernet frames in place of TCP.
    pub ethernet_frames: bool,
    /// Rules choose among the pipes with a place: none is tried because the used one is too slow.
    pub by_app: bool,
    /// Its radios, where they are named.
    pub radios: Option<PipeRadios>,
}

/// Address of a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelperAddress {
    /// At this address.
    At(PipeAddress),
    /// Found on the local network by its announcements.
    Discover,
}

impl fmt::Display for HelperAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Discover => f.write_str("discover"),
        }
    }
}

impl HelperAddress {
    /// Its address of TCP, where one is configured.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::At(address) => address.tcp(),
            Self::Discover => None,
        }
    }
}

/// Listening address of a front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontAddress {
    /// Address and port.
    pub listen: SocketAddr,
    /// File with the user name and password that clients need; without it, they need none.
    pub credentials: Option<PathBuf>,
}

impl FrontAddress {
    /// A front whose clients need no credentials.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            credentials: None,
        }
    }
}

/// Interception without any setting in the applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transparent {
    /// Kernel mechanism of interception.
    pub mode: TransparentMode,
    /// Address that it redirects to; a port of zero lets the kernel choose.
    pub listen: SocketAddr,
    /// Resolvers for DNS queries, which go over the session; empty: those of the proxy.
    pub resolvers: Vec<SocketAddr>,
    /// Destinations that are not intercepted.
    pub exclude: Vec<IpNet>,
    /// Interfaces whose hosts' traffic is intercepted too.
    pub forwarded: Vec<String>,
    /// Handling of UDP other than DNS and QUIC.
    pub udp: UdpPolicy,
    /// Handling of IPv6.
    pub ipv6: Ipv6Policy,
    /// Whether applications are kept from the network while no primary runs.
    pub kill_switch: KillSwitch,
}

/// Whether rules in the kernel keep applications from the network while no primary runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KillSwitch {
    /// There are none: without the primary, applications connect directly.
    #[default]
    Off,
    /// They stay when the primary crashes or is killed; one that is told to stop removes them.
    UntilStop,
    /// They stay until `mpbond kill-switch off`.
    Permanent,
}

/// Handling of UDP other than DNS and QUIC while interception is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UdpPolicy {
    /// It bypasses the session, over one path.
    #[default]
    Pass,
    /// It is answered with port unreachable.
    Reject,
}

/// Handling of IPv6 while interception is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipv6Policy {
    /// As IPv4.
    #[default]
    Intercept,
    /// It is refused, so that applications fall back to IPv4.
    Reject,
}

/// Kernel mechanism of interception.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransparentMode {
    /// nft `redirect`: local connections.
    #[default]
    Redirect,
    /// nft `tproxy`: forwarded connections too.
    Tproxy,
}
