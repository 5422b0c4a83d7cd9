//! Addresses, routes and rules of an experiment's hosts. Pure.
//!
//! Link number i has the addresses 10.77.i.1 (near) and 10.77.i.2 (far). Proxy and origin have
//! their service addresses on their loopback devices, so that every link of the proxy leads to the
//! same address. The proxy's host is also the router to the origin, so that plain TCP takes the
//! same links as mpbond.

use std::net::Ipv4Addr;

use crate::experiment::{Experiment, Link, Role};

/// A network interface of a host, at one end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub link: String,
    pub address: Ipv4Addr,
    pub peer: Ipv4Addr,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub destination: Ipv4Addr,
    pub prefix: u8,
    pub interface: String,
    /// Next hop; `None` for a TUN device.
    pub gateway: Option<Ipv4Addr>,
    pub table: u32,
    pub metric: u32,
}

/// A rule that packets from an address use a table of their own, so that each path keeps to its
/// interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub source: Ipv4Addr,
    pub table: u32,
    pub priority: u32,
}

/// Plan of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPlan {
    pub name: String,
    pub role: Role,
    /// Address on its loopback device.
    pub service: Option<Ipv4Addr>,
    pub interfaces: Vec<Interface>,
    pub routes: Vec<Route>,
    pub rules: Vec<Rule>,
}

const MAIN_TABLE: u32 = 254;
/// First routing tables of the primary's direct paths and of its pipes.
const PATH_TABLES: u32 = 1000;
const PIPE_TABLES: u32 = 2000;
const ANYWHERE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// Near and far address of link number `index` (below 256).
fn addresses(index: usize) -> (Ipv4Addr, Ipv4Addr) {
    let third = index as u8;
    (
        Ipv4Addr::new(10, 77, third, 1),
        Ipv4Addr::new(10, 77, third, 2),
    )
}

/// The plans of all hosts, in the order of the file.
pub(crate) fn plan(e: &Experiment) -> Vec<HostPlan> {
    e.hosts
        .iter()
        .map(|host| {
            let mut plan = HostPlan {
                name: host.name.get_ref().clone(),
                role: host.role,
                service: host.address,
                interfaces: Vec::new(),
                routes: Vec::new(),
                rules: Vec::new(),
            };
            for (index, link) in e.links.iter().enumerate() {
                attach(&mut plan, e, index, link);
            }
            plan
        })
        .collect()
}

fn attach(plan: &mut HostPlan, e: &Experiment, index: usize, link: &Link) {
    // It joins sockets, not interfaces.
    if link.bluetooth.is_some() {
        return;
    }
    let (near, far) = addresses(index);
    let is_near = *link.from.get_ref() == plan.name;
    let (address, peer, other) = if is_near {
        (near, far, &link.to)
    } else if *link.to.get_ref() == plan.name {
        (far, near, &link.from)
    } else {
        return;
    };
    let interface = link.name.get_ref().clone();
    let gateway = link.down.is_none().then_some(peer);
    let route = |destination, prefix, gateway, table, metric| Route {
        destination,
        prefix,
        interface: interface.clone(),
        gateway,
        table,
        metric,
    };
    plan.interfaces.push(Interface {
        link: interface.clone(),
        address,
        peer,
    });
    plan.routes.push(route(peer, 32, None, MAIN_TABLE, 0));
    match (plan.role, e.role_of(other.get_ref())) {
        (Role::Primary, Some(Role::Proxy)) => {
            let is_path = |rule: &&Rule| rule.table < PIPE_TABLES;
            let number = plan.rules.iter().filter(is_path).count() as u32;
            // The first path is the default; the others serve sockets bound to their interface or
            // address.
            plan.routes
                .push(route(ANYWHERE, 0, gateway, MAIN_TABLE, 100 + number));
            let table = PATH_TABLES + number;
            plan.routes.push(route(ANYWHERE, 0, gateway, table, 0));
            plan.rules.push(Rule {
                source: address,
                table,
                priority: table,
            });
        }
        (Role::Primary, Some(Role::Helper)) => {
            // For a helper that forwards packets: only sockets bound to the address on the pipe use
            // this table.
            let table = PIPE_TABLES + index as u32;
            plan.routes.push(route(ANYWHERE, 0, gateway, table, 0));
            plan.rules.push(Rule {
                source: address,
                table,
                priority: table,
            });
        }
        (Role::Helper, Some(Role::Proxy)) | (Role::Origin, _) => {
            plan.routes.push(route(ANYWHERE, 0, gateway, MAIN_TABLE, 0));
        }
        (Role::Proxy, Some(Role::Origin)) => {
            if let Some(origin) = e.host(Role::Origin).address {
                plan.routes.push(route(origin, 32, gateway, MAIN_TABLE, 0));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_paths_and_a_helper() -> Vec<HostPlan> {
        let mut text = String::from("name = \"t\"\n");
        for (name, role) in [
            ("primary", "primary"),
            ("phone", "helper"),
            ("proxy", "proxy"),
            ("origin", "origin"),
        ] {
            let address = "address = \"198.51.100.1\"\n";
            text += &format!("[[host]]\nname = \"{name}\"\nrole = \"{role}\"\n{address}");
        }
        for (name, from, to) in [
            ("a", "primary", "proxy"),
            ("b", "primary", "proxy"),
            ("pipe", "primary", "phone"),
            ("hs", "phone", "proxy"),
        ] {
            let rates = "down = 1\nup = 1\n";
            text +=
                &format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{rates}");
        }
        text += "[[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n";
        text += "[[scheme]]\nname = \"s\"\nscheme = \"single\"\n";
        text += "[[workload]]\nname = \"w\"\ndirection = \"down\"\nbytes = 1\n";
        plan(&Experiment::parse("t.toml", &text).unwrap())
    }

    fn defaults(plan: &HostPlan) -> Vec<(&str, u32, u32)> {
        plan.routes
            .iter()
            .filter(|r| r.prefix == 0)
            .map(|r| (r.interface.as_str(), r.table, r.metric))
            .collect()
    }

    #[test]
    fn each_path_of_the_primary_keeps_to_its_interface() {
        let plans = two_paths_and_a_helper();
        let primary = &plans[0];
        assert_eq!(
            defaults(primary),
            [
                ("a", MAIN_TABLE, 100),
                ("a", 1000, 0),
                ("b", MAIN_TABLE, 101),
                ("b", 1001, 0),
                ("pipe", 2002, 0),
            ],
            "the first path is the default, and the pipe only of its own address"
        );
        let sources: Vec<_> = primary.rules.iter().map(|r| (r.source, r.table)).collect();
        let near = |link| Ipv4Addr::new(10, 77, link, 1);
        assert_eq!(sources, [(near(0), 1000), (near(1), 1001), (near(2), 2002)]);
    }

    #[test]
    fn every_host_has_a_route_back() {
        let plans = two_paths_and_a_helper();
        assert_eq!(defaults(&plans[1]), [("hs", MAIN_TABLE, 0)]);
        assert_eq!(defaults(&plans[2]), [], "the proxy knows every place");
        assert_eq!(defaults(&plans[3]), [("core", MAIN_TABLE, 0)]);
        // A wire needs a next hop; a TUN device has only one.
        let far_end = Ipv4Addr::new(10, 77, 4, 1);
        let back = plans[3].routes.iter().find(|r| r.prefix == 0).unwrap();
        assert_eq!(back.gateway, Some(far_end));
        for plan in &plans {
            for interface in &plan.interfaces {
                let to_peer = |r: &&Route| r.destination == interface.peer && r.prefix == 32;
                assert_eq!(plan.routes.iter().filter(to_peer).count(), 1);
            }
        }
    }
}
