//! Routing of interception: batches of `ip` with the routes and routing rules of one address
//! family.
//!
//! Two purposes, each with its own rules and tables:
//!
//! * TPROXY: packets with [`RulesConfig::route_mark`] are delivered to this host.
//! * The [interface](super::interface): a socket of an application without a source address gets
//!   that of the interface for destinations that are intercepted.
//!
//! The rules of the second purpose, in the order of their preferences, after the table `local`:
//!
//! * 9001, 9002: sockets of the daemon pass, to 9009.
//! * 9003 to 9005: only packets without a source address, or with that of the interface, go on. An
//!   application has bound the others, or they are older than the rules, or they answer on a
//!   connection from outside.
//! * 9006, 9007: look-ups of names use the table of names: the interface, for every destination.
//! * 9008: TCP uses the table of connections: the interface, except for excluded networks.
//! * 9009: the rules that follow apply, most often those of the system.
//!
//! The protocol of the rules is `kernel`, because systemd-networkd removes rules of other programs
//! when it starts, except those.

use std::net::IpAddr;

use ipnet::IpNet;

use super::interface::{self, INTERFACE};
use super::{Ipv6, RulesConfig, script};

/// Preferences of the routing rules: after the table `local` (0), so that this host's own addresses
/// stay local, and before the main table's.
const TPROXY: u32 = 9000;
const OWN_MARK: u32 = 9001;
const OWN_UID: u32 = 9002;
const SOURCES: [u32; 3] = [9003, 9004, 9005];
const NAMES_UDP: u32 = 9006;
const NAMES_TCP: u32 = 9007;
const CONNECTIONS: u32 = 9008;
const END: u32 = 9009;

/// Port of name look-ups.
const DNS: u16 = 53;

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The families of intercepted traffic.
    pub(super) fn intercepted(config: &RulesConfig) -> &'static [Self] {
        match config.ipv6 {
            Ipv6::Intercept => &Self::BOTH,
            Ipv6::Reject => &[Self::V4],
        }
    }

    /// Option of `ip`.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// The interface's address.
    pub(super) fn address(self) -> IpAddr {
        match self {
            Self::V4 => interface::V4.into(),
            Self::V6 => interface::V6.into(),
        }
    }

    fn has(self, net: &IpNet) -> bool {
        matches!(
            (self, net),
            (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_))
        )
    }
}

/// Routing table of connections.
fn connections_table(config: &RulesConfig) -> u32 {
    config.route_table + 1
}

/// Routing table of name look-ups.
fn names_table(config: &RulesConfig) -> u32 {
    config.route_table + 2
}

/// Commands that deliver marked packets to this host, for TPROXY.
pub(super) fn tproxy(config: &RulesConfig, family: Family) -> String {
    let everything = match family {
        Family::V4 => "0.0.0.0/0",
        Family::V6 => "::/0",
    };
    let table = config.route_table;
    let rule = tproxy_rule(config);
    format!("route replace local {everything} dev lo table {table}\nrule add {rule}\n")
}

/// Commands that give the interface its address, and fill its tables.
pub(super) fn interface(config: &RulesConfig, family: Family) -> String {
    let address = family.address();
    // Neither address is a choice for traffic of other kinds: `scope link`, `preferred_lft 0`.
    let mut lines = vec![match family {
        Family::V4 => format!("address add {address}/32 dev {INTERFACE} scope link"),
        Family::V6 => format!("address add {address}/128 dev {INTERFACE} nodad preferred_lft 0"),
    }];
    let (connections, names) = (connections_table(config), names_table(config));
    for table in [connections, names] {
        let route = format!("route add default dev {INTERFACE} src {address} table {table}");
        lines.push(route);
    }
    let excluded = script::excluded_networks(config);
    for net in excluded.iter().filter(|net| family.has(net)) {
        lines.push(format!("route add throw {net} table {connections}"));
    }
    lines.join("\n") + "\n"
}

/// Commands that lead applications' sockets to the interface.
pub(super) fn to_interface(config: &RulesConfig, family: Family) -> String {
    let mut rules = interface_rules(config, family);
    // The target of others first.
    rules.reverse();
    let lines = rules
        .iter()
        .map(|rule| format!("rule add {rule} protocol kernel\n"));
    lines.collect()
}

/// Commands that lead them there no longer, of which any may fail.
pub(super) fn away_from_interface(config: &RulesConfig, family: Family) -> String {
    let rules = interface_rules(config, family);
    let lines = rules.iter().map(|rule| format!("rule del {rule}\n"));
    lines.collect()
}

/// Commands that remove everything that the others have added, of which any may fail.
pub(super) fn removal(config: &RulesConfig, family: Family) -> String {
    let mut text = away_from_interface(config, family);
    text.push_str(&format!("rule del {}\n", tproxy_rule(config)));
    for table in tables(config) {
        text.push_str(&format!("route flush table {table}\n"));
    }
    text
}

/// Whether a line of `ip rule show` is a rule of ours, such as `9000: from all fwmark 0x6d700002
/// lookup 28016`.
pub(super) fn is_ours(line: &str, config: &RulesConfig) -> bool {
    let Some((preference, rule)) = line.split_once(':') else {
        return false;
    };
    let Ok(preference @ TPROXY..=END) = preference.trim().parse() else {
        return false;
    };
    let words: Vec<_> = rule.split_ascii_whitespace().collect();
    let has = |key: &str, value: &str| words.windows(2).any(|w| w == [key, value]);
    match preference {
        TPROXY => has("fwmark", &hex(config.route_mark)),
        END => words.contains(&"nop"),
        _ => {
            let goes_to = |to: u32| has("goto", &to.to_string());
            let looks_up = |table: u32| has("lookup", &table.to_string());
            (NAMES_UDP..=END).any(goes_to) || tables(config).into_iter().any(looks_up)
        }
    }
}

fn tables(config: &RulesConfig) -> [u32; 3] {
    let (connections, names) = (connections_table(config), names_table(config));
    [config.route_table, connections, names]
}

fn tproxy_rule(config: &RulesConfig) -> String {
    let (mark, table) = (hex(config.route_mark), config.route_table);
    format!("pref {TPROXY} fwmark {mark} lookup {table}")
}

/// The rules of the interface, in the order of their preferences.
fn interface_rules(config: &RulesConfig, family: Family) -> Vec<String> {
    let own = hex(config.own_mark);
    let mut rules = vec![format!("pref {OWN_MARK} fwmark {own} goto {END}")];
    if let Some(uid) = config.own_uid {
        rules.push(format!("pref {OWN_UID} uidrange {uid}-{uid} goto {END}"));
    }
    let first_of_interface = match config.dns_port {
        Some(_) => NAMES_UDP,
        None => CONNECTIONS,
    };
    let [first, second, third] = SOURCES;
    let address = family.address();
    rules.push(format!(
        "pref {first} from {address} goto {first_of_interface}"
    ));
    rules.extend(match family {
        Family::V4 => [
            format!("pref {second} from 0.0.0.0/32 goto {first_of_interface}"),
            format!("pref {third} from all goto {END}"),
        ],
        // IPv6 matches a socket without an address with no prefix, not even ::/128.
        Family::V6 => [
            format!("pref {second} from ::/1 goto {END}"),
            format!("pref {third} from 8000::/1 goto {END}"),
        ],
    });
    if config.dns_port.is_some() {
        let names = names_table(config);
        rules.push(format!(
            "pref {NAMES_UDP} ipproto udp dport {DNS} lookup {names}"
        ));
        rules.push(format!(
            "pref {NAMES_TCP} ipproto tcp dport {DNS} lookup {names}"
        ));
    }
    let connections = connections_table(config);
    rules.push(format!(
        "pref {CONNECTIONS} ipproto tcp lookup {connections}"
    ));
    rules.push(format!("pref {END} nop"));
    rules
}

fn hex(mark: u32) -> String {
    format!("{mark:#x}")
}
