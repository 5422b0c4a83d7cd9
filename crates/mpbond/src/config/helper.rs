use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use mpbond_net::DeviceId;
use serde::Deserialize;
use toml::Spanned;

use super::place::{self, Role};
use super::source::{ConfigError, Source};
use super::value::{Congestion, Interface, Name, OneOrMore, Size, Text};

/// The paper's bound (MPBond, section 4.3.2): enough to run ahead, too little to drown.
const DEFAULT_BUFFER_BYTES: u64 = 4 << 20;
/// Less holds no window of a fast link; more is bufferbloat by configuration.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(256 << 20);

/// `mpbond helper --config FILE`.
#[derive(Clone, Debug, PartialEq)]
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
    /// Whether the daemon gives up what it does not need once it is set up.
    pub sandbox: bool,
    /// Primaries that may use this helper, besides those in the trust file.
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
    /// Whether primaries that it trusts find it on the local network.
    pub announce: bool,
    /// TCP congestion control of both hops; unset: the system's.
    pub congestion: Option<String>,
}

/// How to leave towards the proxy; by default as routes say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uplink {
    /// Bind to this interface.
    pub interface: Option<String>,
    /// Bind to this address.
    pub source: Option<IpAddr>,
}

/// The file's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HelperFile {
    name: Option<Text<Name>>,
    listen: Option<Text<SocketAddr>>,
    identity: Option<String>,
    status_socket: Option<String>,
    metrics: Option<Text<SocketAddr>>,
    sandbox: Option<bool>,
    trust: Option<OneOrMore<DeviceId>>,
    proxies: Option<Spanned<OneOrMore<SocketAddr>>>,
    uplink: Option<UplinkFile>,
    buffer: Option<Spanned<Size>>,
    max_bytes_per_month: Option<Size>,
    enabled: Option<bool>,
    announce: Option<bool>,
    congestion: Option<Text<Congestion>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UplinkFile {
    interface: Option<Text<Interface>>,
    source: Option<Text<IpAddr>>,
}

impl HelperConfig {
    /// Where it listens unless told otherwise.
    pub const LISTEN: SocketAddr =
        SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 4434);

    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// One line naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        const PROXIES: &str = "the addresses of the proxies that relays may go to, \
                               such as [\"203.0.113.1:4433\"]; a helper relays nowhere else";
        let source = Source::read(path)?;
        let file: HelperFile = source.parse()?;
        let proxies = match file.proxies {
            None => return Err(source.missing("proxies", PROXIES)),
            Some(list) if list.get_ref().0.is_empty() => {
                let problem = format_args!("empty: {PROXIES}");
                return Err(source.wrong(list.span(), "proxies", problem));
            }
            Some(list) => list.into_inner().0,
        };
        let buffer_bytes = match file.buffer {
            None => DEFAULT_BUFFER_BYTES,
            Some(size) if !BUFFER_BYTES.contains(&size.get_ref().0) => {
                return Err(source.wrong(size.span(), "buffer", "from \"64 KiB\" to \"256 MiB\""));
            }
            Some(size) => size.get_ref().0,
        };
        let uplink = file.uplink.map_or_else(Uplink::default, |u| Uplink {
            interface: u.interface.map(|t| t.0.0),
            source: u.source.map(|t| t.0),
        });
        Ok(Self {
            name: file.name.map_or_else(host_name, |t| t.0.0),
            listen: file.listen.map_or(Self::LISTEN, |t| t.0),
            identity: super::identity_of(&source, file.identity),
            status_socket: file.status_socket.map_or_else(
                || place::status_socket(Role::Helper),
                |path| source.resolve(&path),
            ),
            metrics: file.metrics.map(|t| t.0),
            sandbox: file.sandbox.unwrap_or(true),
            trust: file.trust.map_or_else(Vec::new, |list| list.0),
            proxies,
            uplink,
            buffer_bytes,
            max_bytes_per_month: file.max_bytes_per_month.map(|s| s.0),
            enabled: file.enabled.unwrap_or(true),
            announce: file.announce.unwrap_or(false),
            congestion: file.congestion.map(|t| t.0.0),
        })
    }
}

/// What this machine is called; "helper" where that is no name for a hello.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty() && name.len() <= mpbond_session::wire::MAX_NAME_BYTES)
        .unwrap_or_else(|| "helper".to_owned())
}
