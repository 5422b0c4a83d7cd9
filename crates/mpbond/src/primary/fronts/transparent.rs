//! Transparent interception: applications need no settings.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use mpbond_intercept::dns::{DnsSockets, Family};
use mpbond_intercept::rules::kill_switch::Remover;
use mpbond_intercept::rules::{
    Ipv6, Method, Rules, RulesConfig, Udp, kill_switch, private_networks, remove_stale,
};
use mpbond_intercept::{Front, FrontConfig, Protocol, Reception};
use socket2::SockRef;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{debug, info, warn};

use super::dns;
use super::local_names::LocalResolvers;
use crate::config::{
    HelperAddress, Ipv6Policy, KillSwitch, PrimaryConfig, Transparent, TransparentMode, UdpPolicy,
};
use crate::own_mark::OWN_MARK;
use crate::primary::fronts;
use crate::primary::state::Primary;
use crate::upgrade::Listeners;

/// Beginning of the names of its listeners at an upgrade.
const FRONT: &str = "transparent";

/// Interval at which a process from which another one has taken over looks whether its rules are
/// removed, and the time after which it looks no longer.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const REMOVED_WITHIN: Duration = Duration::from_secs(3);

/// Interception in force.
pub(in crate::primary) struct Interception {
    rules: Rules,
    /// Fronts, and sockets of stubs, which are not served yet.
    fronts: Vec<Front>,
    stubs: Vec<Vec<DnsSockets>>,
    names: Arc<LocalResolvers>,
    /// Of the kill switch of an earlier run, which the configuration does not have any more.
    earlier: Option<Remover>,
    /// Of a kill switch that ends with an orderly stop.
    remover: Option<Remover>,
}

/// Sets interception up, if configured, beside that of the process before, if there is one.
/// Dropping the result removes the rules, except those of the kill switch.
pub(in crate::primary) async fn start(
    primary: &Primary,
    own: &mut Listeners,
) -> anyhow::Result<Option<Interception>> {
    let Some(config) = primary.config.transparent.clone() else {
        if is_handed_over(own) {
            bail!(
                "the primary that runs intercepts connections, and this configuration has no \
                 [transparent]: stop it, and start this one"
            );
        }
        clean();
        return Ok(None);
    };
    let (protocol, method) = match config.mode {
        TransparentMode::Redirect => (Protocol::Redirect, Method::Redirect),
        TransparentMode::Tproxy => (Protocol::Tproxy, Method::Tproxy),
    };
    if is_handed_over(own) && !own.has_any(&front_name(config.mode)) {
        bail!(
            "the primary that runs has another `mode` of [transparent], in which its connections \
             go on: stop it, and start this one"
        );
    }
    let front = open(own, config.mode, config.listen, protocol)?;
    let port = front.local_addr().port();
    let mut fronts = vec![front];
    let ipv6 = config.ipv6 == Ipv6Policy::Intercept && ipv6_works();
    if ipv6 {
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        fronts.push(open(own, config.mode, v6, protocol)?);
    }
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sockets = dns::open(own, v4, None).await.context("DNS stub")?;
    let dns_port = sockets.udp.local_addr()?.port();
    let mut stubs = vec![vec![sockets]];
    if ipv6 {
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, dns_port));
        let sockets = dns::open(own, v6, None).await;
        stubs.push(vec![sockets.context("DNS stub for IPv6")?]);
    }
    let rules = RulesConfig {
        method,
        port,
        dns_port: Some(dns_port),
        udp: match config.udp {
            UdpPolicy::Pass => Udp::Pass,
            UdpPolicy::Reject => Udp::Reject,
        },
        ipv6: if ipv6 { Ipv6::Intercept } else { Ipv6::Reject },
        ..exceptions(&primary.config, &config)
    };
    primary
        .notes
        .borrow_mut()
        .extend(rules.notes().into_iter().map(str::to_owned));
    primary
        .notes
        .borrow_mut()
        .push(dns::note(&config.resolvers));
    let has_kill_switch = config.kill_switch != KillSwitch::Off;
    // Before interception begins, and removed after: there is no gap, and a primary that finds
    // another one intercepting removes nothing of that one's.
    if has_kill_switch {
        kill_switch::install(&rules).context("kill switch")?;
    }
    // On this thread, though it blocks for a moment: another thread would keep privileges that this
    // one is about to give up.
    let installed = match &own.predecessor {
        Some(before) => Rules::install_beside(&rules, before.process()),
        None => Rules::install(&rules),
    };
    let installed = installed.with_context(|| advice(&config))?;
    match installed.addresses() {
        Ok(addresses) if !config.forwarded.is_empty() => {
            fronts.extend(fronts_for_others(own, &config, addresses, &rules)?);
            stubs.push(stub_for_others(own, addresses, dns_port).await?);
        }
        Ok(_) => {}
        Err(error) if !config.forwarded.is_empty() => {
            let advice = advice(&config);
            bail!("transparent.forwarded needs an interface of its own: {error}; {advice}")
        }
        Err(error) => {
            warn!(%error, "connections have the addresses of links");
            primary.notes.borrow_mut().push(format!(
                "connections need a default route, and end with the address of its link: {error}"
            ));
        }
    }
    info!(table = installed.table(), port, "interception is on");
    if has_kill_switch {
        info!("kill switch is on");
    }
    // Processes of their own, with the privileges that this one gives up before.
    let earlier = match has_kill_switch {
        false if kill_switch::is_installed()? => Some(Remover::start()?),
        _ => None,
    };
    let remover = match config.kill_switch {
        KillSwitch::UntilStop => Some(Remover::start()?),
        KillSwitch::Off | KillSwitch::Permanent => None,
    };
    Ok(Some(Interception {
        rules: installed,
        fronts,
        stubs,
        names: Arc::new(LocalResolvers::new(config.exclude)),
        earlier,
        remover,
    }))
}

/// Whether the process before intercepts, and hands that over.
pub(in crate::primary) fn is_handed_over(own: &Listeners) -> bool {
    own.has_any(FRONT)
}

/// Opens the front at this address, or takes it over.
fn open(
    own: &mut Listeners,
    mode: TransparentMode,
    address: SocketAddr,
    protocol: Protocol,
) -> anyhow::Result<Front> {
    let name = format!("{} {address}", front_name(mode));
    let config = FrontConfig::new(protocol);
    // Until it is known which families are carried.
    let front = fronts::open(own, name, address, config, Reception::Defer);
    front.with_context(|| format!("transparent front on {address}"))
}

/// Name of the fronts of a mode, by which processes of other versions find them.
fn front_name(mode: TransparentMode) -> String {
    let mode = match mode {
        TransparentMode::Redirect => "Redirect",
        TransparentMode::Tproxy => "Tproxy",
    };
    format!("{FRONT} {mode}")
}

/// What to do where the start fails after the kill switch is on.
fn advice(config: &Transparent) -> &'static str {
    match config.kill_switch {
        KillSwitch::Off => "interception did not start",
        KillSwitch::UntilStop | KillSwitch::Permanent => {
            "interception did not start; the kill switch stays on until `mpbond kill-switch off`"
        }
    }
}

/// Opens fronts for other hosts, at the addresses of the interface.
fn fronts_for_others(
    own: &mut Listeners,
    config: &Transparent,
    addresses: &[IpAddr],
    rules: &RulesConfig,
) -> anyhow::Result<Vec<Front>> {
    let mut opened = Vec::new();
    if config.mode == TransparentMode::Tproxy {
        return Ok(opened);
    }
    for ip in addresses {
        // Of the same family, it is open there already.
        if config.listen.ip().is_unspecified() && ip.is_ipv4() == config.listen.is_ipv4() {
            continue;
        }
        let to = SocketAddr::new(*ip, rules.port);
        let front = open(own, TransparentMode::Redirect, to, Protocol::Redirect)?;
        if let Some(socket) = front.socket() {
            SockRef::from(&socket).set_mark(OWN_MARK)?;
        }
        opened.push(front);
    }
    Ok(opened)
}

/// Opens the sockets of the stub for other hosts, at the addresses of the interface.
async fn stub_for_others(
    own: &mut Listeners,
    addresses: &[IpAddr],
    port: u16,
) -> anyhow::Result<Vec<DnsSockets>> {
    let mut sockets = Vec::new();
    for ip in addresses {
        let opened = dns::open(own, SocketAddr::new(*ip, port), Some(OWN_MARK)).await;
        sockets.push(opened.context("DNS stub for other hosts")?);
    }
    Ok(sockets)
}

impl Interception {
    /// Serves applications. Until now the process before did, if there is one.
    pub(in crate::primary) fn serve(&mut self, primary: &Rc<Primary>) {
        let fronts = std::mem::take(&mut self.fronts);
        for front in fronts {
            let family = Family::from(front.local_addr().ip());
            fronts::run(primary, front, Some(family));
        }
        let config = primary.config.transparent.as_ref();
        let resolvers = config.map(|c| &*c.resolvers).unwrap_or_default();
        for stub in std::mem::take(&mut self.stubs) {
            dns::start(primary, stub, resolvers, &self.names);
        }
        match self.earlier.take().map(Remover::remove) {
            Some(Ok(())) => {
                warn!("the kill switch of an earlier run is off now, as the configuration says");
            }
            Some(Err(e)) => not_removed(e),
            None => {}
        }
    }

    /// Removes the rules once another process has installed its own. Until that is done, fronts and
    /// stubs have to be served. The kill switch is the other process's.
    pub(in crate::primary) async fn hand_over(&mut self) {
        self.remover = None;
        self.rules.begin_removal();
        let deadline = Instant::now() + REMOVED_WITHIN;
        while self.rules.in_force() && Instant::now() < deadline {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the process that holds the rules has been killed: they are gone then.
    pub(in crate::primary) async fn lost(&mut self) {
        let Ok(mut ended) = signal(SignalKind::child()) else {
            return std::future::pending().await;
        };
        while self.rules.in_force() {
            ended.recv().await;
        }
    }

    /// Ends interception when the primary is told to stop.
    pub(in crate::primary) fn stop(self) {
        self.rules.remove();
        match self.remover.map(Remover::remove) {
            Some(Ok(())) => info!("kill switch is off"),
            Some(Err(e)) => not_removed(e),
            None => {}
        }
    }
}

fn not_removed(error: io::Error) {
    warn!(%error, "the kill switch is not removed: run `mpbond kill-switch off`");
}

/// What is never intercepted, and passes the kill switch.
fn exceptions(primary: &PrimaryConfig, config: &Transparent) -> RulesConfig {
    let of_paths = primary.paths.iter().flat_map(|p| &p.proxy);
    let proxy = primary.proxy.addresses.iter().chain(of_paths);
    let mut endpoints: Vec<IpAddr> = proxy.filter_map(|a| Some(a.fixed()?.ip())).collect();
    let helpers = &primary.helpers;
    endpoints.extend(helpers.iter().filter_map(|h| Some(h.address.tcp()?.ip())));
    let mut exclude = config.exclude.clone();
    if helpers.iter().any(|h| h.address == HelperAddress::Discover) {
        // The helper's address on the local network is not known yet.
        exclude.extend(private_networks());
    }
    RulesConfig {
        own_mark: OWN_MARK,
        endpoints,
        exclude,
        forwarded: config.forwarded.clone(),
        ..RulesConfig::new(0)
    }
}

/// Installs the kill switch of this configuration.
///
/// # Errors
/// The configuration has none, or the kernel refuses.
pub fn install_kill_switch(config: &PrimaryConfig) -> anyhow::Result<()> {
    let transparent = config.transparent.as_ref();
    let Some(transparent) = transparent.filter(|t| t.kill_switch != KillSwitch::Off) else {
        bail!("there is no `kill_switch` under [transparent]: write `kill_switch = \"permanent\"`");
    };
    kill_switch::install(&exceptions(config, transparent))?;
    Ok(())
}

/// Removes rules of an earlier run that was killed together with its guard process.
fn clean() {
    match remove_stale() {
        Ok(found) if found.is_empty() => {}
        Ok(found) => warn!(
            ?found,
            "removed interception rules that a dead process left"
        ),
        // Without nft or privileges, an earlier run cannot have left any.
        Err(error) => debug!(%error, "cannot look for rules of earlier runs"),
    }
}

/// Whether this host has IPv6.
fn ipv6_works() -> bool {
    std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}
