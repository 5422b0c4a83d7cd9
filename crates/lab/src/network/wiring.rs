//! Hosts of an experiment, connected over netlink.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

#[cfg(feature = "measurements")]
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::{
    RouteAttribute, RouteMessage, RouteMetric, RouteScope, RouteType,
};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};

use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Role};
use crate::network::device::{Device, Means};
use crate::network::host::Host;
use crate::network::plan::{self, HostPlan, Route};

/// The hosts of an experiment, connected.
pub struct Network {
    hosts: Vec<(Host, HostPlan)>,
    ends: Vec<LinkEnds>,
}

/// The two devices of an emulated link. The process that reads and writes them is the link.
pub struct LinkEnds {
    /// Name of the link.
    pub link: String,
    /// Device of the near host.
    pub near: Device,
    /// Device of the far host.
    pub far: Device,
}

impl Network {
    /// Creates hosts, devices, addresses, routes and rules.
    ///
    /// # Errors
    /// Errors of the kernel, with the host.
    pub fn build(e: &Experiment) -> Result<Self> {
        let mut hosts = Vec::new();
        for plan in plan::plan(e) {
            let host = Host::new(&plan.name)?;
            prepare(&host, &plan)?;
            hosts.push((host, plan));
        }
        let mut network = Self {
            hosts,
            ends: Vec::new(),
        };
        let mut means = Means::choose()?;
        for link in &e.links {
            let name = link.name.get_ref();
            if link.bluetooth.is_some() {
                continue;
            }
            let near = network.host(link.from.get_ref())?;
            let far = network.host(link.to.get_ref())?;
            if link.down.is_some() {
                let ends = LinkEnds {
                    link: name.clone(),
                    near: means.make(near, name)?,
                    far: means.make(far, name)?,
                };
                network.ends.push(ends);
            } else {
                wire(near, far, name, name)?;
            }
        }
        for (host, plan) in &network.hosts {
            address(host, plan)?;
        }
        Ok(network)
    }

    /// A host by name.
    ///
    /// # Errors
    /// When the experiment has no host of that name.
    pub fn host(&self, name: &str) -> Result<&Host> {
        self.hosts
            .iter()
            .map(|(host, _)| host)
            .find(|host| host.name() == name)
            .ok_or_else(|| Error::run(format!("there is no host {name}")))
    }

    /// The host of a role that exactly one host has.
    ///
    /// # Errors
    /// When there is none.
    pub fn host_in(&self, role: Role) -> Result<&Host> {
        self.hosts
            .iter()
            .find(|(_, plan)| plan.role == role)
            .map(|(host, _)| host)
            .ok_or_else(|| Error::run(format!("no host has the role {role:?}")))
    }

    /// The address that `host` has on the link called `link`.
    pub(crate) fn address(&self, host: &str, link: &str) -> Option<Ipv4Addr> {
        let (_, plan) = self.hosts.iter().find(|(h, _)| h.name() == host)?;
        let interface = plan.interfaces.iter().find(|i| i.link == link)?;
        Some(interface.address)
    }

    /// Takes the devices of the emulated links.
    pub fn take_ends(&mut self) -> Vec<LinkEnds> {
        std::mem::take(&mut self.ends)
    }

    /// Sets the TCP congestion control of all hosts.
    ///
    /// It is set on routes, because a namespace may not make a restricted algorithm its default
    /// (cubic is one where the system's default is bbr).
    ///
    /// # Errors
    /// When the kernel has no such algorithm.
    pub fn set_congestion(&self, algorithm: &str) -> Result<()> {
        for (host, plan) in &self.hosts {
            host.netlink(&format!("use {algorithm} on its routes"), async |nl| {
                for route in &plan.routes {
                    let message = message(route, algorithm)?;
                    nl.route().add(message).replace().execute().await?;
                }
                for message in loopback(algorithm) {
                    nl.route().add(message).replace().execute().await?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Number of packets dropped at device queues because the player did not read them, over all
    /// emulated links but those that lose their carrier, whose devices drop what is sent to them.
    /// Anything but zero makes a run worthless.
    ///
    /// # Errors
    /// When a host's counters cannot be read.
    pub fn device_drops(&self, without_carrier: &BTreeSet<String>) -> Result<u64> {
        let mut total = 0;
        for (host, plan) in &self.hosts {
            total += host
                .enter(|| -> std::io::Result<u64> {
                    let mut dropped = 0;
                    let all = plan.interfaces.iter();
                    for interface in all.filter(|i| !without_carrier.contains(&i.link)) {
                        dropped += counters(&interface.link)?.dropped_sending;
                    }
                    Ok(dropped)
                })?
                .doing("cannot read device counters")?;
        }
        Ok(total)
    }
}

/// Kernel counters of a device.
pub(crate) struct Counters {
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped at its full queue.
    pub dropped_sending: u64,
}

/// The counters of a device in the calling thread's host.
pub(crate) fn counters(device: &str) -> std::io::Result<Counters> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    read_counters(&text, device)
        .ok_or_else(|| std::io::Error::other(format!("no counters of device {device}")))
}

fn read_counters(text: &str, device: &str) -> Option<Counters> {
    let line = text
        .lines()
        .find_map(|l| l.trim().strip_prefix(device)?.strip_prefix(':'))?;
    let column = |index| line.split_whitespace().nth(index)?.parse().ok();
    // Eight columns received, then bytes, packets, errors, drops sent.
    Some(Counters {
        received_bytes: column(0)?,
        received_packets: column(1)?,
        sent_bytes: column(8)?,
        dropped_sending: column(11)?,
    })
}

/// Sets kernel parameters, so that repetitions are independent and hosts alike whatever the
/// machine's settings; then configures the loopback device.
fn prepare(host: &Host, plan: &HostPlan) -> Result<()> {
    let forward = if plan.role == Role::Proxy { "1" } else { "0" };
    for (key, value) in [
        ("net.ipv4.ip_forward", forward),
        // A connection must not profit from metrics of earlier ones.
        ("net.ipv4.tcp_no_metrics_save", "1"),
        // Defaults of the kernel.
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
        // Paths and tables make routes asymmetric.
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        // Routes over a device without a carrier are ignored, and programs get an error.
        ("net.ipv4.conf.all.ignore_routes_with_linkdown", "1"),
    ] {
        host.sysctl(key, value)?;
    }
    host.refuse_ipv6();
    host.netlink("bring up its loopback device", async |nl| {
        let lo = index("lo")?;
        up(nl, lo).await?;
        if let Some(service) = plan.service {
            let service = IpAddr::V4(service);
            nl.address().add(lo, service, 32).execute().await?;
        }
        Ok(())
    })
}

/// Brings up the loopback device of a host.
///
/// # Errors
/// Errors of the kernel.
#[cfg(feature = "measurements")]
pub(crate) fn bring_up_loopback(host: &Host) -> Result<()> {
    host.netlink("bring up its loopback device", async |nl| {
        up(nl, index("lo")?).await
    })
}

/// Creates a veth pair, up, called `name` on the near host and `far_name` on the far one.
///
/// # Errors
/// Errors of the kernel.
pub(crate) fn wire(near: &Host, far: &Host, name: &str, far_name: &str) -> Result<()> {
    // Both ends start on the near host, where their names have to differ.
    let far_fd = far.raw_netns();
    near.netlink(&format!("make wire {name}"), async |nl| {
        let pair = LinkVeth::new(name, "moving").build();
        nl.link().add(pair).execute().await?;
        let moving = index("moving")?;
        let there = LinkUnspec::new_with_index(moving)
            .setns_by_fd(far_fd)
            .build();
        nl.link().set(there).execute().await?;
        let here = index(name)?;
        up(nl, here).await
    })?;
    far.netlink(&format!("take wire {name}"), async |nl| {
        let moved = index("moving")?;
        let named = LinkUnspec::new_with_index(moved)
            .name(far_name)
            .up()
            .build();
        nl.link().set(named).execute().await
    })
}

/// Gives a device an address, and a route to its network.
///
/// # Errors
/// Errors of the kernel.
#[cfg(feature = "measurements")]
pub(crate) fn address_on(host: &Host, device: &str, address: IpAddr, prefix: u8) -> Result<()> {
    host.netlink("set its address", async |nl| {
        let add = nl.address().add(index(device)?, address, prefix);
        add.execute().await
    })
}

/// Has the kernel send single packets over a device, as without segmentation offload.
///
/// # Errors
/// Errors of the kernel.
#[cfg(feature = "measurements")]
pub(crate) fn send_single_packets(host: &Host, device: &str) -> Result<()> {
    host.netlink("turn segmentation offload off", async |nl| {
        let off = LinkUnspec::new_with_index(index(device)?)
            .append_extra_attribute(LinkAttribute::GsoMaxSegs(1))
            .build();
        nl.link().set(off).execute().await
    })
}

fn address(host: &Host, plan: &HostPlan) -> Result<()> {
    host.netlink("set its addresses and rules", async |nl| {
        for interface in &plan.interfaces {
            let index = index(&interface.link)?;
            let address = IpAddr::V4(interface.address);
            nl.address().add(index, address, 32).execute().await?;
        }
        for rule in &plan.rules {
            nl.rule()
                .add()
                .v4()
                .source_prefix(rule.source, 32)
                .table_id(rule.table)
                .priority(rule.priority)
                .action(rtnetlink::packet_route::rule::RuleAction::ToTable)
                .execute()
                .await?;
        }
        Ok(())
    })
}

fn message(route: &Route, algorithm: &str) -> Result<RouteMessage, rtnetlink::Error> {
    let mut builder = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(route.destination, route.prefix)
        .output_interface(index(&route.interface)?)
        .table_id(route.table);
    builder = match route.gateway {
        Some(gateway) => builder.gateway(gateway),
        None => builder.scope(RouteScope::Link),
    };
    if route.metric > 0 {
        builder = builder.priority(route.metric);
    }
    let mut message = builder.build();
    message.attributes.push(congestion(algorithm));
    Ok(message)
}

/// The kernel's own loopback routes, with a congestion control.
fn loopback(algorithm: &str) -> [RouteMessage; 2] {
    const LOCAL_TABLE: u32 = 255;
    const LOOPBACK_INDEX: u32 = 1;
    [(Ipv4Addr::new(127, 0, 0, 0), 8), (Ipv4Addr::LOCALHOST, 32)].map(|(to, prefix)| {
        let mut message = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to, prefix)
            .output_interface(LOOPBACK_INDEX)
            .pref_source(Ipv4Addr::LOCALHOST)
            .kind(RouteType::Local)
            .scope(RouteScope::Host)
            .table_id(LOCAL_TABLE)
            .build();
        message.attributes.push(congestion(algorithm));
        message
    })
}

fn congestion(algorithm: &str) -> RouteAttribute {
    RouteAttribute::Metrics(vec![RouteMetric::CcAlgo(algorithm.to_owned())])
}

/// The index of a device by name, in the calling thread's host.
fn index(name: &str) -> Result<u32, rtnetlink::Error> {
    nix::net::if_::if_nametoindex(name)
        .map_err(|e| rtnetlink::Error::NamespaceError(format!("no device {name}: {e}")))
}

async fn up(nl: &Handle, index: u32) -> Result<(), rtnetlink::Error> {
    let up = LinkUnspec::new_with_index(index).up().build();
    nl.link().set(up).execute().await
}
