//! Configuration of a helper.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use mpbond_net::DeviceId;
use mpbond_net::pipe::PipeAddress;
use mpbond_units::{BitRate, Size};
use serde::Deserialize;
use toml::Spanned;

use super::ProxyAddress;
use super::place::{self, Role};
use super::source::{ConfigError, Source};
use super::value::{Capacity, Congestion, Interface, Level, Name, OneOrMore, Text};
use crate::socket_file::MAX_FOLDER_BYTES;

/// Default bound of bytes waiting at a helper: enough to run ahead of the pipe, too little for
/// queueing delays of many seconds.
const DEFAULT_BUFFER_BYTES: u64 = 4 << 20;
/// Allowed bounds: less does not hold the window of a fast link, more is bufferbloat.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(256 << 20);

/// Unix sockets on which a helper listens at most: as many as a primary has pipes to it.
const MAX_UNIX_SOCKETS: usize = 4;

/// `mpbond helper --config FILE`.
#[derive(Clone, Debug, PartialEq)]
pub struct HelperConfig {
    /// Name shown to people.
    pub name: String,
    /// Listening address for primaries: that of the pipe.
    pub listen: SocketAddr,
    /// Unix sockets on which it listens for primaries besides.
    pub listen_unix: Vec<PathBuf>,
    /// File of the device's key; made at the first start.
    pub identity: PathBuf,
    /// Path of the status socket.
    pub status_socket: PathBuf,
    /// Listening address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Whether the daemon gives up what it does not need once it is set up.
    pub sandbox: bool,
    /// Take over from the helper that runs, instead of listening anew.
    pub take_over: bool,
    /// Primaries that may use this helper, besides those in the trust file.
    pub trust: Vec<DeviceId>,
    /// Proxies: the only destinations of relays. Names are looked up for each relay.
    pub proxies: Vec<ProxyAddress>,
    /// Binding of connections to proxies.
    pub uplink: Uplink,
    /// Maximum bytes waiting here, for each relay and direction.
    pub buffer_bytes: u64,
    /// Maximum bytes relayed in a calendar month.
    pub max_bytes_per_month: Option<u64>,
    /// Level of this device's battery in percent, below which nothing is lent.
    pub battery_floor: Option<u8>,
    /// Whether this device lends its link.
    pub enabled: bool,
    /// Whether it announces itself on the local network to primaries that it trusts.
    pub announce: bool,
    /// Whether primaries may open relays over Ethernet frames in place of TCP.
    pub ethernet_frames: bool,
    /// TCP congestion control of both hops; unset: the system's.
    pub congestion: Option<String>,
}

/// Binding of connections to proxies; none by default: routes decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uplink {
    /// Bind to this interface.
    pub interface: Option<String>,
    /// Bind to this address.
    pub source: Option<IpAddr>,
    /// Capacity of the interface's link towards this device, as its owner states it. Beside own
    /// traffic, relays have what that leaves of it.
    pub capacity_down: Option<BitRate>,
    /// The same from this device.
    pub capacity_up: Option<BitRate>,
    /// Whether its data is charged by volume, for primaries.
    pub metered: Option<bool>,
}

/// Form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HelperFile {
    name: Option<Text<Name>>,
    listen: Option<Spanned<OneOrMore<PipeAddress>>>,
    identity: Option<String>,
    status_socket: Option<String>,
    metrics: Option<Text<SocketAddr>>,
    sandbox: Option<bool>,
    trust: Option<OneOrMore<DeviceId>>,
    proxies: Option<Spanned<OneOrMore<ProxyAddress>>>,
    uplink: Option<UplinkFile>,
    buffer: Option<Spanned<Size>>,
    max_bytes_per_month: Option<Size>,
    battery_floor: Option<Text<Level>>,
    enabled: Option<bool>,
    announce: Option<bool>,
    ethernet_frames: Option<bool>,
    congestion: Option<Text<Congestion>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UplinkFile {
    interface: Option<Text<Interface>>,
    source: Option<Text<IpAddr>>,
    capacity_down: Option<Spanned<Text<Capacity>>>,
    capacity_up: Option<Spanned<Text<Capacity>>>,
    metered: Option<bool>,
}

impl HelperConfig {
    /// Default listening addresses.
    pub const LISTEN: SocketAddr =
        SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 4434);

    /// Whether relays to this address are allowed that this entry of `proxies` has allowed.
    pub fn lends_to(&self, entry: &ProxyAddress, address: SocketAddr) -> bool {
        let names = |own: &ProxyAddress| own == entry || own.fixed() == Some(address);
        self.enabled && self.proxies.iter().any(names)
    }

    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// One line naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::of_source(&Source::read(path)?)
    }

    pub(super) fn of_source(source: &Source<'_>) -> Result<Self, ConfigError> {
        const PROXIES: &str = "the addresses of the proxies that relays may go to, \
                               such as [\"203.0.113.1:4433\"]; a helper relays nowhere else";
        let source = &source.of_role(Role::Helper.name())?;
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
        let (listen, listen_unix) = listeners(source, file.listen)?;
        let uplink = match file.uplink {
            Some(uplink) => uplink_of(source, uplink)?,
            None => Uplink::default(),
        };
        Ok(Self {
            name: file.name.map_or_else(host_name, |t| t.0.0),
            listen,
            listen_unix,
            identity: super::identity_of(source, file.identity),
            status_socket: file.status_socket.map_or_else(
                || place::status_socket(Role::Helper),
                |path| source.resolve(&path),
            ),
            metrics: file.metrics.map(|t| t.0),
            sandbox: file.sandbox.unwrap_or(true),
            take_over: false,
            trust: file.trust.map_or_else(Vec::new, |list| list.0),
            proxies,
            uplink,
            buffer_bytes,
            max_bytes_per_month: file.max_bytes_per_month.map(|s| s.0),
            battery_floor: file.battery_floor.map(|t| t.0.0),
            enabled: file.enabled.unwrap_or(true),
            announce: file.announce.unwrap_or(false),
            ethernet_frames: file.ethernet_frames.unwrap_or(false),
            congestion: file.congestion.map(|t| t.0.0),
        })
    }
}

/// The link that is lent. A capacity is that of one interface.
fn uplink_of(source: &Source<'_>, file: UplinkFile) -> Result<Uplink, ConfigError> {
    let interface = file.interface.map(|t| t.0.0);
    let capacity = |key, stated: Option<Spanned<Text<Capacity>>>| match stated {
        Some(stated) if interface.is_none() => {
            let problem = "write `interface` as well: the capacity is that of one interface";
            Err(source.wrong(stated.span(), key, problem))
        }
        stated => Ok(stated.map(|t| t.into_inner().0.0)),
    };
    Ok(Uplink {
        capacity_down: capacity("uplink.capacity_down", file.capacity_down)?,
        capacity_up: capacity("uplink.capacity_up", file.capacity_up)?,
        interface,
        source: file.source.map(|t| t.0),
        metered: file.metered,
    })
}

/// The listening address of TCP, and the Unix sockets.
fn listeners(
    source: &Source<'_>,
    listen: Option<Spanned<OneOrMore<PipeAddress>>>,
) -> Result<(SocketAddr, Vec<PathBuf>), ConfigError> {
    let (mut tcp, mut unix) = (None, Vec::new());
    let Some(listen) = listen else {
        return Ok((HelperConfig::LISTEN, unix));
    };
    let span = listen.span();
    for address in listen.into_inner().0 {
        match address {
            PipeAddress::Tcp(address) if tcp.is_none() => tcp = Some(address),
            PipeAddress::Tcp(_) => {
                return Err(source.wrong(span, "listen", "one address of TCP at most"));
            }
            PipeAddress::Unix(path) if has_long_folder(&path) => {
                let problem = format_args!(
                    "the folder of a Unix socket has {MAX_FOLDER_BYTES} octets at most"
                );
                return Err(source.wrong(span, "listen", problem));
            }
            PipeAddress::Unix(path) if unix.len() < MAX_UNIX_SOCKETS => unix.push(path),
            PipeAddress::Unix(_) => {
                let problem = format_args!("{MAX_UNIX_SOCKETS} Unix sockets at most");
                return Err(source.wrong(span, "listen", problem));
            }
        }
    }
    Ok((tcp.unwrap_or(HelperConfig::LISTEN), unix))
}

fn has_long_folder(socket: &Path) -> bool {
    let folder = socket.parent().map_or(0, |f| f.as_os_str().len());
    folder > MAX_FOLDER_BYTES
}

/// File with the host name of this machine.
pub const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Host name of this machine; "helper" where a hello cannot carry it.
pub fn host_name() -> String {
    std::fs::read_to_string(HOST_NAME)
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty() && name.len() <= mpbond_session::wire::MAX_NAME_BYTES)
        .unwrap_or_else(|| "helper".to_owned())
}
