//! Transparent interception: applications need no settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use mpbond_intercept::rules::kill_switch::Remover;
use mpbond_intercept::rules::{
    Ipv6, Method, Rules, RulesConfig, Udp, kill_switch, private_networks, remove_stale,
};
use mpbond_intercept::{Front, FrontConfig, Protocol};
use socket2::SockRef;
use tracing::{debug, info, warn};

use super::local_names::LocalResolvers;
use super::state::Primary;
use super::{dns, fronts};
use crate::config::{
    HelperAddress, Ipv6Policy, KillSwitch, PrimaryConfig, Transparent, TransparentMode, UdpPolicy,
};
use crate::own_mark::OWN_MARK;

/// Sets interception up, if configured. Dropping the result removes the rules, except those of the
/// kill switch.
pub(super) async fn start(primary: &Rc<Primary>) -> anyhow::Result<Option<Interception>> {
    let Some(config) = primary.config.transparent.clone() else {
        clean();
        return Ok(None);
    };
    let (protocol, method) = match config.mode {
        TransparentMode::Redirect => (Protocol::Redirect, Method::Redirect),
        TransparentMode::Tproxy => (Protocol::Tproxy, Method::Tproxy),
    };
    let front = || FrontConfig::new(protocol);
    let local = fronts::open(primary, config.listen, front(), "transparent")?;
    let ipv6 = config.ipv6 == Ipv6Policy::Intercept && ipv6_works();
    if ipv6 {
        let (v6, name) = (Ipv6Addr::LOCALHOST, "transparent IPv6");
        fronts::open(primary, SocketAddr::from((v6, local.port())), front(), name)?;
    }
    let names = Arc::new(LocalResolvers::new(config.exclude.clone()));
    let loopback = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    let bound = dns::start(primary, loopback, &config.resolvers, &names, None)
        .await
        .context("DNS stub")?;
    let dns_port = bound.first().map(SocketAddr::port);
    if ipv6 && let Some(port) = dns_port {
        let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        dns::start(primary, vec![address], &config.resolvers, &names, None)
            .await
            .context("DNS stub for IPv6")?;
    }
    let rules = RulesConfig {
        method,
        port: local.port(),
        dns_port,
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
    let installed = Rules::install(&rules).with_context(|| advice(&config))?;
    match installed.addresses() {
        Ok(addresses) if !config.forwarded.is_empty() => {
            serve_others(primary, &config, &names, addresses, &rules).await?;
        }
        Ok(_) => {}
        Err(error) if !config.forwarded.is_empty() => {
            let advice = advice(&config);
            bail!("transparent.forwarded needs the interface mpbond0: {error}; {advice}")
        }
        Err(error) => {
            warn!(%error, "connections have the addresses of links");
            primary.notes.borrow_mut().push(format!(
                "connections need a default route, and end with the address of its link: {error}"
            ));
        }
    }
    info!(
        table = installed.table(),
        port = local.port(),
        "interception is on"
    );
    if has_kill_switch {
        info!("kill switch is on");
    } else if kill_switch::remove()? {
        warn!("the kill switch of an earlier run is off now, as the configuration says");
    }
    let remover = match config.kill_switch {
        KillSwitch::UntilStop => Some(Remover::start()?),
        KillSwitch::Off | KillSwitch::Permanent => None,
    };
    Ok(Some(Interception {
        rules: installed,
        remover,
    }))
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

/// Opens fronts and a stub for other hosts, at the addresses of the interface.
async fn serve_others(
    primary: &Rc<Primary>,
    config: &Transparent,
    names: &Arc<LocalResolvers>,
    addresses: &[IpAddr],
    rules: &RulesConfig,
) -> anyhow::Result<()> {
    if config.mode == TransparentMode::Redirect {
        for ip in addresses {
            // Of the same family, it is open there already.
            if config.listen.ip().is_unspecified() && ip.is_ipv4() == config.listen.is_ipv4() {
                continue;
            }
            let address = SocketAddr::new(*ip, rules.port);
            let front = Front::bind(address, FrontConfig::new(Protocol::Redirect));
            let front = front.with_context(|| format!("front for other hosts on {address}"))?;
            if let Some(listener) = front.listener() {
                SockRef::from(listener).set_mark(OWN_MARK)?;
            }
            fronts::run(primary, front);
        }
    }
    if let Some(port) = rules.dns_port {
        let listen = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
        dns::start(
            primary,
            listen.collect(),
            &config.resolvers,
            names,
            Some(OWN_MARK),
        )
        .await
        .context("DNS stub for other hosts")?;
    }
    Ok(())
}

/// Interception in force.
pub(super) struct Interception {
    rules: Rules,
    /// Of a kill switch that ends with an orderly stop.
    remover: Option<Remover>,
}

impl Interception {
    /// Ends interception when the primary is told to stop.
    pub(super) fn stop(self) {
        self.rules.remove();
        match self.remover.map(Remover::remove) {
            Some(Ok(())) => info!("kill switch is off"),
            Some(Err(e)) => warn!(
                error = %e,
                "the kill switch is not removed: run `mpbond kill-switch off`"
            ),
            None => {}
        }
    }
}

/// What is never intercepted, and passes the kill switch.
fn exceptions(primary: &PrimaryConfig, config: &Transparent) -> RulesConfig {
    let of_paths = primary.paths.iter().flat_map(|p| &p.proxy);
    let proxy = primary.proxy.addresses.iter().chain(of_paths);
    let mut endpoints: Vec<IpAddr> = proxy.filter_map(|a| Some(a.fixed()?.ip())).collect();
    let helpers = &primary.helpers;
    endpoints.extend(helpers.iter().filter_map(|h| match h.address {
        HelperAddress::At(address) => Some(address.ip()),
        HelperAddress::Discover => None,
    }));
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
        bail!("the configuration has no transparent.kill_switch: write \"permanent\" there");
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
