//! Form of a primary's configuration file, and its checks.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::Path;

use ipnet::IpNet;
use mpbond_intercept::rules::private_networks;
use mpbond_manager::MAX_ADDRESSES;
use mpbond_net::DeviceId;
use mpbond_session::{BufferDelay, FeedbackRule, ReinjectionRule, SchedulerKind};
use serde::Deserialize;
use toml::Spanned;

use super::RESUME_FOR;
use super::link_names::LinkNames;
use super::place::{self, Role};
use super::policy::PolicySource;
use super::primary::{
    FrontAddress, Ipv6Policy, KillSwitch, OnProxyLoss, PathConfig, PrimaryConfig, ProxyAddress,
    ProxyRef, Transparent, TransparentMode, UdpPolicy,
};
use super::primary_helpers::{HelperFile, helper_refs};
use super::source::{ConfigError, Source};
use super::value::{Congestion, Interface, Name, OneOrMore, Resolver, ResumeFor, Text};

/// Default listening addresses of fronts: this host only, since anyone who reaches a front can use
/// the session.
pub(super) const SOCKS5: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1080);
const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
/// Default listening address of interception; the kernel chooses the port.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Maximum number of links: each is a subflow, of which a session has this many.
pub(super) const MAX_LINKS: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrimaryFile {
    identity: Option<String>,
    status_socket: Option<String>,
    metrics: Option<Text<SocketAddr>>,
    sandbox: Option<bool>,
    scheduler: Option<Text<SchedulerKind>>,
    reinjection: Option<ReinjectionRule>,
    feedback: Option<FeedbackRule>,
    buffer_delay: Option<BufferDelay>,
    congestion: Option<Text<Congestion>>,
    resume_for: Option<Text<ResumeFor>>,
    on_proxy_loss: Option<Spanned<OnProxyLoss>>,
    policy: Option<String>,
    proxy: Option<Spanned<ProxyFile>>,
    #[serde(default)]
    path: Vec<Spanned<PathFile>>,
    #[serde(default)]
    helper: Vec<Spanned<HelperFile>>,
    socks5: Option<FrontFile>,
    http: Option<FrontFile>,
    transparent: Option<TransparentFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyFile {
    address: Option<Spanned<OneOrMore<ProxyAddress>>>,
    fallback_port: Option<NonZeroU16>,
    id: Option<Text<DeviceId>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathFile {
    name: Option<Spanned<Text<Name>>>,
    interface: Option<Text<Interface>>,
    source: Option<Text<IpAddr>>,
    proxy: Option<Spanned<OneOrMore<ProxyAddress>>>,
    #[serde(default)]
    backup: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontFile {
    listen: Option<Spanned<Text<SocketAddr>>>,
    credentials: Option<String>,
    #[serde(default)]
    open: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransparentFile {
    enabled: Option<bool>,
    #[serde(default)]
    mode: TransparentMode,
    listen: Option<Text<SocketAddr>>,
    resolvers: Option<Spanned<OneOrMore<Resolver>>>,
    exclude: Option<OneOrMore<IpNet>>,
    forwarded: Option<OneOrMore<Interface>>,
    udp: Option<Spanned<UdpPolicy>>,
    #[serde(default)]
    ipv6: Ipv6Policy,
    #[serde(default)]
    kill_switch: KillSwitch,
}

impl PrimaryConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// One line naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::of_source(&Source::read(path)?)
    }

    pub(super) fn of_source(source: &Source<'_>) -> Result<Self, ConfigError> {
        let source = &source.of_role(Role::Primary.name())?;
        let file: PrimaryFile = source.parse()?;
        let proxy = proxy(source, file.proxy)?;
        if file.path.is_empty() && file.helper.is_empty() {
            return Err(source.missing(
                "path",
                "no [[path]] and no [[helper]]: add a [[path]] for every own link to the \
                 Internet, and a [[helper]] for every device that lends its link",
            ));
        }
        let pipes: usize = file.helper.iter().map(|h| h.get_ref().pipes()).sum();
        if file.path.len() + pipes > MAX_LINKS {
            let problem = format_args!("at most {MAX_LINKS} paths and pipes to helpers");
            return Err(ConfigError::about_file(source.file, problem));
        }
        let bind_needed = file.path.len() > 1;
        let mut names = LinkNames::new(source);
        let mut paths = Vec::new();
        for path in file.path {
            paths.push(path_config(source, path, bind_needed, &mut names)?);
        }
        let helpers = helper_refs(source, file.helper, &mut names)?;
        let transparent = match file.transparent {
            Some(t) if t.enabled.unwrap_or(true) => Some(transparent(source, t)?),
            _ => None,
        };
        let kill_switch = transparent
            .as_ref()
            .map(|t| t.kill_switch)
            .unwrap_or_default();
        let on_proxy_loss = on_proxy_loss(source, file.on_proxy_loss, kill_switch)?;
        let mut socks5 = front(source, "socks5.listen", file.socks5, SOCKS5)?;
        let http = front(source, "http.listen", file.http, HTTP)?;
        // A primary needs a link.
        if socks5.is_none() && http.is_none() && transparent.is_none() {
            socks5 = Some(FrontAddress::at(SOCKS5));
        }
        let policy = match file.policy {
            Some(path) => Some(PolicySource::read(&source.resolve(&path))?),
            None => None,
        };
        let config = Self {
            identity: super::identity_of(source, file.identity),
            status_socket: file.status_socket.map_or_else(
                || place::status_socket(Role::Primary),
                |path| source.resolve(&path),
            ),
            metrics: file.metrics.map(|t| t.0),
            sandbox: file.sandbox.unwrap_or(true),
            take_over: false,
            scheduler: file.scheduler.map_or_else(SchedulerKind::default, |t| t.0),
            reinjection: file.reinjection.unwrap_or_default(),
            feedback: file.feedback.unwrap_or_default(),
            buffer_delay: file.buffer_delay.unwrap_or_default(),
            congestion: file.congestion.map(|t| t.0.0),
            resume_for: file.resume_for.map_or(RESUME_FOR, |t| t.0.0),
            on_proxy_loss,
            proxy,
            paths,
            helpers,
            socks5,
            http,
            transparent,
            policy,
        };
        config.listens_once(source.file)?;
        match &config.policy {
            Some(policy) => config.check_policy(policy).map(|()| config),
            None => Ok(config),
        }
    }
}

impl PrimaryConfig {
    /// Checks that no two listeners have one address: the second one could not be opened.
    fn listens_once(&self, file: &Path) -> Result<(), ConfigError> {
        let fronts = [("socks5.listen", &self.socks5), ("http.listen", &self.http)];
        let fronts = fronts.map(|(key, front)| (key, front.as_ref().map(|front| front.listen)));
        let listeners = [("metrics", self.metrics), fronts[0], fronts[1]];
        for (n, (key, address)) in listeners.iter().enumerate() {
            let same = |(_, other): &&(&str, Option<SocketAddr>)| other == address;
            // The kernel chooses a port in place of 0.
            if let Some(address) = address.filter(|address| address.port() != 0)
                && let Some((other, _)) = listeners[n + 1..].iter().find(same)
            {
                let problem = format_args!(
                    "{key} and {other} are both {address}: give one of them another port"
                );
                return Err(ConfigError::about_file(file, problem));
            }
        }
        Ok(())
    }
}

/// A kill switch that lets connections go direct would be none.
fn on_proxy_loss(
    source: &Source<'_>,
    written: Option<Spanned<OnProxyLoss>>,
    kill_switch: KillSwitch,
) -> Result<OnProxyLoss, ConfigError> {
    match (kill_switch, written) {
        (KillSwitch::Off, written) => Ok(written.map(Spanned::into_inner).unwrap_or_default()),
        (_, Some(written)) if *written.get_ref() == OnProxyLoss::Direct => Err(source.wrong(
            written.span(),
            "on_proxy_loss",
            "\"direct\" contradicts transparent.kill_switch: leave it out, or write \"fail\"",
        )),
        _ => Ok(OnProxyLoss::Fail),
    }
}

/// Checks that every key of a file, complete or not, belongs to a primary's configuration.
pub(super) fn check_form(source: &Source<'_>) -> Result<(), ConfigError> {
    let source = source.of_role(Role::Primary.name())?;
    source.parse::<PrimaryFile>().map(|_| ())
}

fn proxy(source: &Source<'_>, proxy: Option<Spanned<ProxyFile>>) -> Result<ProxyRef, ConfigError> {
    let Some(proxy) = proxy else {
        return Err(source.missing(
            "proxy",
            "a [proxy] section with `address` and `id` says where the sessions go",
        ));
    };
    let span = proxy.span();
    let proxy = proxy.into_inner();
    let Some(addresses) = proxy.address else {
        return Err(source.wrong(
            span,
            "proxy.address",
            "missing: write the proxy's address and port, such as \"203.0.113.1:4433\"",
        ));
    };
    let Some(Text(id)) = proxy.id else {
        return Err(source.wrong(
            span,
            "proxy.id",
            "missing: run `mpbond id` on the proxy and write what it prints",
        ));
    };
    Ok(ProxyRef {
        addresses: proxy_addresses(source, "proxy.address", addresses)?,
        fallback_port: proxy.fallback_port.map(NonZeroU16::get),
        id,
    })
}

fn proxy_addresses(
    source: &Source<'_>,
    key: &str,
    list: Spanned<OneOrMore<ProxyAddress>>,
) -> Result<Vec<ProxyAddress>, ConfigError> {
    let span = list.span();
    let list = list.into_inner().0;
    match list.len() {
        1..=MAX_ADDRESSES => Ok(list),
        n => Err(source.wrong(
            span,
            key,
            format_args!("from 1 to {MAX_ADDRESSES}, not {n}"),
        )),
    }
}

fn path_config(
    source: &Source<'_>,
    path: Spanned<PathFile>,
    bind_needed: bool,
    names: &mut LinkNames<'_>,
) -> Result<PathConfig, ConfigError> {
    let span = path.span();
    let path = path.into_inner();
    let interface = path.interface.map(|t| t.0.0);
    let address = path.source.map(|t| t.0);
    if bind_needed && interface.is_none() && address.is_none() {
        return Err(source.wrong(
            span,
            "path",
            "with more than one [[path]], each needs `interface` or `source`: \
             otherwise all of them would take the same route",
        ));
    }
    let (name, span) = match path.name {
        Some(name) => (name.get_ref().0.0.clone(), name.span()),
        None => {
            let name = interface.clone();
            let name = name.or_else(|| address.map(|a| a.to_string()));
            (name.unwrap_or_else(|| "direct".to_owned()), span)
        }
    };
    names.add("path.name", &name, span)?;
    Ok(PathConfig {
        name,
        interface,
        source: address,
        proxy: match path.proxy {
            Some(list) => proxy_addresses(source, "path.proxy", list)?,
            None => Vec::new(),
        },
        backup: path.backup,
    })
}

fn front(
    source: &Source<'_>,
    key: &str,
    file: Option<FrontFile>,
    default: SocketAddr,
) -> Result<Option<FrontAddress>, ConfigError> {
    let Some(file) = file else {
        return Ok(None);
    };
    let front = FrontAddress {
        listen: file.listen.as_ref().map_or(default, |t| t.get_ref().0),
        credentials: file.credentials.map(|path| source.resolve(&path)),
    };
    match file.listen {
        Some(listen)
            if !front.listen.ip().is_loopback() && front.credentials.is_none() && !file.open =>
        {
            Err(source.wrong(
                listen.span(),
                key,
                "other hosts reach this address: name a file with `user:password` under \
                 `credentials`, or write `open = true` to serve every host without a password",
            ))
        }
        _ => Ok(Some(front)),
    }
}

fn transparent(source: &Source<'_>, file: TransparentFile) -> Result<Transparent, ConfigError> {
    let forwarded: Vec<String> = file
        .forwarded
        .map_or_else(Vec::new, |list| list.0.into_iter().map(|i| i.0).collect());
    let listen = file.listen.map_or(LISTEN, |listen| listen.0);
    let resolvers = match file.resolvers {
        None => Vec::new(),
        Some(list) if list.get_ref().0.is_empty() => {
            return Err(source.wrong(
                list.span(),
                "transparent.resolvers",
                "empty: write a resolver that the proxy may reach, such as [\"9.9.9.9\"]",
            ));
        }
        Some(list) => list.into_inner().0.into_iter().map(|r| r.0).collect(),
    };
    let udp = match (file.kill_switch, file.udp) {
        (KillSwitch::Off, written) => written.map(Spanned::into_inner).unwrap_or_default(),
        (_, Some(written)) if *written.get_ref() == UdpPolicy::Pass => {
            return Err(source.wrong(
                written.span(),
                "transparent.udp",
                "\"pass\" contradicts kill_switch: leave it out, or write \"reject\"",
            ));
        }
        _ => UdpPolicy::Reject,
    };
    Ok(Transparent {
        mode: file.mode,
        listen,
        resolvers,
        exclude: file.exclude.map_or_else(private_networks, |list| list.0),
        forwarded,
        udp,
        ipv6: file.ipv6,
        kill_switch: file.kill_switch,
    })
}
