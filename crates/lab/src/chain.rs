//! Hosts in a row with emulated links between them, and programs at any host.
//!
//! The parts of a path are separate here. A bus that may sleep and a network behind it, for
//! example, are two links; the host between them only forwards, and captures at its devices show
//! the packets "in the air".

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mpbond_radio::Profiles;
use mpbond_sim::link::{LinkSpec, RateSpec, Shared, SharedRadio};
use mpbond_units::BitRate;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::RouteScope;

use crate::error::{Doing, Error, Result};
use crate::network::device::Means;
use crate::network::foreground::{self, Beside};
use crate::network::host::Host;
use crate::network::tap::Tap;
use crate::network::wiring::wire;
use crate::player::{Clock, Logs, PlayedLink, Player};
use crate::transfer::conditions::told_if_late;

/// Maximum number of links in a row.
const MAX_HOPS: usize = 8;

/// A link to the next host.
#[derive(Debug, Clone)]
pub struct Hop {
    /// Its name, also that of its captures and of the near host's device; the far host's device is
    /// `NAME-b`.
    pub name: String,
    /// Its properties.
    pub link: HopLink,
}

/// The kind of a link between two hosts.
#[derive(Debug, Clone)]
pub enum HopLink {
    /// A link model, played in user space.
    Played {
        /// Rate of each direction.
        rate: BitRate,
        /// Propagation delay of each direction.
        delay: Duration,
        /// Radio (or bus) profile of the host before it.
        radio: Option<String>,
        /// Frame aggregation by the host before it: time for which packets that it sends wait for
        /// others, and the IP bytes that end the waiting ([`LinkConfig::hold`]).
        ///
        /// [`LinkConfig::hold`]: mpbond_sim::link::LinkConfig::hold
        hold: Option<(Duration, u64)>,
    },
    /// A cable: a pair of virtual devices of the kernel, without a model between them.
    Wire,
}

/// A row of hosts, numbered from 0, and what runs at them.
#[derive(Debug, Clone)]
pub struct ChainOptions {
    /// Links in order, beginning at host 0.
    pub hops: Vec<Hop>,
    /// Hosts, and shell commands that run there until the program has ended.
    pub beside: Vec<(usize, String)>,
    /// Log files of packets.
    pub logs: Logs,
    /// Folder, made when absent, for a capture of each device, `DEVICE.pcap`, with the kernel's
    /// timestamps in Unix time.
    pub taps: Option<PathBuf>,
    /// Program at host 0. In its environment, and in that of the shell commands, `MPBOND_HOST_n` is
    /// the address of host n, and `MPBOND_CLOCK_ZERO_NS` the time at which the logs' clock began,
    /// in ns since 1970.
    pub program: Vec<OsString>,
}

/// The address of host `n`.
fn address(n: usize) -> Ipv4Addr {
    // As in [`crate::emulate`]: from the block between customers and providers (RFC 6598).
    Ipv4Addr::new(100, 64, 78, n as u8 + 1)
}

/// Builds hosts and links, runs the program, and returns its exit code, or 4 when the machine was
/// too busy to play the links in time.
///
/// Like [`crate::run()`], this runs the calling program a second time, isolated; see
/// [`crate::isolate::isolated`].
///
/// # Errors
/// [`Error::Experiment`] for impossible options; other errors when hosts or links cannot be made.
pub fn chain(options: &ChainOptions) -> Result<u8> {
    let wrong = |why: String| Err(Error::Experiment(why));
    let hops = &options.hops;
    if !(1..=MAX_HOPS).contains(&hops.len()) {
        return wrong(format!("a chain has 1 to {MAX_HOPS} hops"));
    }
    let known = |name: &str| hops.iter().filter(|h| h.name == name).count() == 1;
    for hop in hops {
        let plain = hop
            .name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !(1..=13).contains(&hop.name.len()) || !plain || hop.name == "lo" || !known(&hop.name) {
            return wrong(format!(
                "hop \"{}\": a name is 1 to 13 small letters and digits, different from others",
                hop.name
            ));
        }
    }
    if let Some((host, _)) = options.beside.iter().find(|(host, _)| *host > hops.len()) {
        return wrong(format!(
            "there is no host {host}: hosts are 0 to {}",
            hops.len()
        ));
    }
    let shared = hops.iter().map(shared).collect::<Result<Vec<_>>>()?;
    if let Some(folder) = &options.taps {
        std::fs::create_dir_all(folder).at("make", folder)?;
    }
    foreground::with_terminal(None, |_| {
        let hosts = (0..=hops.len())
            .map(|n| Host::new(&format!("host{n}")))
            .collect::<Result<Vec<_>>>()?;
        for host in &hosts {
            host.refuse_ipv6();
            for (key, value) in [
                ("net.ipv4.conf.all.rp_filter", "0"),
                ("net.ipv4.conf.default.rp_filter", "0"),
                ("net.ipv4.ip_forward", "1"),
            ] {
                host.sysctl(key, value)?;
            }
        }
        let mut means = Means::choose()?;
        let mut links = Vec::new();
        for ((hop, ends), shared) in hops.iter().zip(hosts.windows(2)).zip(shared) {
            let [near, far] = ends else { continue };
            let far_name = format!("{}-b", hop.name);
            let HopLink::Played {
                rate, delay, hold, ..
            } = hop.link
            else {
                wire(near, far, &hop.name, &far_name)?;
                continue;
            };
            let spec = LinkSpec::new(RateSpec::Constant(rate)).with_delay(delay);
            let link = spec
                .resolve(|file| Err::<String, _>(format!("{file}: a chain cannot play recordings")))
                .map_err(|e| Error::Experiment(format!("hop \"{}\": {e}", hop.name)))?;
            links.push(PlayedLink {
                name: hop.name.clone(),
                near: means.make(near, &hop.name)?,
                far: means.make(far, &far_name)?,
                down: link.clone(),
                up: match hold {
                    Some((time, bytes)) => link.with_hold(time, bytes),
                    None => link,
                },
                shared,
            });
        }
        for (n, host) in hosts.iter().enumerate() {
            let back = n.checked_sub(1).and_then(|i| hops.get(i));
            let on = hops.get(n).map(|h| h.name.clone());
            connect(
                host,
                n,
                hosts.len(),
                back.map(|h| format!("{}-b", h.name)),
                on,
            )?;
        }
        let taps = taps(options, &hosts)?;
        let clock = Clock::start();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let zero = now
            .unwrap_or_default()
            .saturating_sub(Duration::from_nanos(clock.now().as_nanos()));
        let player = Player::start(links, clock, 0, &options.logs)?;
        player.begin(Vec::new())?;
        let mut env: Vec<(String, String)> = (0..hosts.len())
            .map(|n| (format!("MPBOND_HOST_{n}"), address(n).to_string()))
            .collect();
        env.push((
            "MPBOND_CLOCK_ZERO_NS".to_owned(),
            zero.as_nanos().to_string(),
        ));
        let mut beside = Beside::default();
        for (n, command) in &options.beside {
            let Some(host) = hosts.get(*n) else { continue };
            beside.start(host, command, &env)?;
        }
        let env: Vec<(&str, String)> = env.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        let code = hosts
            .first()
            .map_or(1, |near| foreground::run(near, &options.program, &env));
        drop(beside);
        let conditions = player.conditions()?;
        // With the player its devices disappear, and captures end. Each is finished even when
        // another fails.
        let taps: Vec<Result<()>> = taps.into_iter().map(Tap::finish).collect();
        player.stop()?;
        taps.into_iter().collect::<Result<()>>()?;
        let late = told_if_late(&conditions);
        Ok(if late && code == 0 { 4 } else { code })
    })
}

/// Captures at both ends of every hop, if wanted.
fn taps(options: &ChainOptions, hosts: &[Host]) -> Result<Vec<Tap>> {
    let mut all = Vec::new();
    let Some(folder) = &options.taps else {
        return Ok(all);
    };
    for (hop, ends) in options.hops.iter().zip(hosts.windows(2)) {
        let [near, far] = ends else { continue };
        all.push(Tap::start(near, &hop.name, folder)?);
        all.push(Tap::start(far, &format!("{}-b", hop.name), folder)?);
    }
    Ok(all)
}

fn shared(hop: &Hop) -> Result<Shared> {
    let radio = |name: &String| -> Result<SharedRadio> {
        let profiles = Profiles::shipped().map_err(Error::run)?;
        let profile = profiles
            .radio(name)
            .map_err(|e| Error::Experiment(format!("hop \"{}\": {e}", hop.name)))?;
        Ok(SharedRadio {
            owner: hop.name.clone(),
            profile: Arc::new(profile.clone()),
        })
    };
    let name = match &hop.link {
        HopLink::Played { radio, .. } => radio.as_ref(),
        HopLink::Wire => None,
    };
    Ok(Shared {
        medium: None,
        near_radio: name.map(radio).transpose()?,
        far_radio: None,
    })
}

/// Gives host `n` of `all` its address, and routes to the others: through `back` to those before
/// it, through `on` to those after it.
fn connect(
    host: &Host,
    n: usize,
    all: usize,
    back: Option<String>,
    on: Option<String>,
) -> Result<()> {
    host.netlink("set its address and routes", async |nl| {
        let index = |name: &str| {
            nix::net::if_::if_nametoindex(name)
                .map_err(|e| rtnetlink::Error::NamespaceError(format!("no device {name}: {e}")))
        };
        let lo = index("lo")?;
        for name in ["lo"]
            .into_iter()
            .chain(back.as_deref())
            .chain(on.as_deref())
        {
            let up = rtnetlink::LinkUnspec::new_with_index(index(name)?)
                .up()
                .build();
            nl.link().set(up).execute().await?;
        }
        nl.address()
            .add(lo, IpAddr::V4(address(n)), 32)
            .execute()
            .await?;
        // Neighbours first: they are the gateways to the others.
        for other in (0..n).rev().chain(n + 1..all) {
            let over = if other < n { &back } else { &on };
            let Some(over) = over else { continue };
            let route = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(address(other), 32)
                .output_interface(index(over)?)
                .pref_source(address(n));
            let route = match other.abs_diff(n) {
                1 => route.scope(RouteScope::Link),
                _ => route.gateway(address(if other < n { n - 1 } else { n + 1 })),
            };
            nl.route().add(route.build()).execute().await?;
        }
        Ok(())
    })
}
