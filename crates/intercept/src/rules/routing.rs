//! Routing of interception: batches of `ip` with the routes and routing rules of one address
//! family.
//!
//! Two purposes, each with its own rules and tables:
//!
//! * TPROXY: packets with [`RulesConfig::route_mark`] are delivered to this host.
//! * The [interface](super::interface): a socket of an application without a source address gets
//!   that of the interface for destinations that are intercepted.
//!
//! There are two [slots](Slot), since two daemons intercept for a moment during an upgrade. The
//! rules of the second purpose in the first slot, in the order of their preferences, after the
//! table `local`:
//!
//! * 9001, 9002: sockets of the daemon pass, to 9009.
//! * 9003 to 9005: only packets without a source address, or with that of the interface, go on. An
//!   application has bound the others, or they are older than the rules, or they answer on a
//!   connection from outside.
//! * 9006, 9007: look-ups of names use the table of names: the interface, for every destination.
//! * 9008: TCP uses the table of connections: the interface, except for excluded networks.
//! * 9009: the rules that follow apply, most often those of the system.
//!
//! Those of the second slot are 9011 to 9019. While both are there, the first that leads to an
//! interface applies, and both interfaces have the same address.
//!
//! The protocol of the rules is `kernel`, because systemd-networkd removes rules of other programs
//! when it starts, except those.

use super::config::RulesConfig;
use super::family::Family;
use super::script;

/// Preference of the first routing rule: after the table `local` (0), so that this host's own
/// addresses stay local, and before the main table's.
const FIRST: u32 = 9000;

/// Preferences of the routing rules of a slot, from its first one.
const TPROXY: u32 = 0;
const OWN_MARK: u32 = 1;
const OWN_UID: u32 = 2;
const SOURCES: [u32; 3] = [3, 4, 5];
const NAMES_UDP: u32 = 6;
const NAMES_TCP: u32 = 7;
const CONNECTIONS: u32 = 8;
const END: u32 = 9;

/// Number of preferences of a slot.
const RULES: u32 = END + 1;

/// Number of routing tables of a slot: for TPROXY, for connections, for name look-ups.
const TABLES: u32 = 3;

/// Smallest number of the first routing table: smaller ones may be the system's.
pub(super) const MIN_ROUTE_TABLE: u32 = 256;
/// The largest: behind it there is room for the tables of both slots.
pub(super) const MAX_ROUTE_TABLE: u32 = u32::MAX - 2 * TABLES - 1;

/// Port of name look-ups.
const DNS: u16 = 53;

/// A set of preferences, routing tables and an interface. A daemon that takes over uses the one
/// that its predecessor does not use, so that either can remove its own whenever it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    First,
    Second,
}

impl Slot {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Second];

    /// Name of its interface.
    pub(super) fn interface(self) -> &'static str {
        match self {
            Self::First => "mpbond0",
            Self::Second => "mpbond1",
        }
    }

    fn index(self) -> u32 {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }

    fn preference(self, rule: u32) -> u32 {
        FIRST + self.index() * RULES + rule
    }

    fn tables(self, config: &RulesConfig) -> [u32; TABLES as usize] {
        let first = config.route_table + self.index() * TABLES;
        [first, first + 1, first + 2]
    }

    /// Routing table of TPROXY.
    fn tproxy_table(self, config: &RulesConfig) -> u32 {
        self.tables(config)[0]
    }

    /// Routing table of connections.
    fn connections_table(self, config: &RulesConfig) -> u32 {
        self.tables(config)[1]
    }

    /// Routing table of name look-ups.
    fn names_table(self, config: &RulesConfig) -> u32 {
        self.tables(config)[2]
    }
}

/// Commands that deliver marked packets to this host, for TPROXY.
pub(super) fn tproxy(config: &RulesConfig, slot: Slot, family: Family) -> String {
    let everything = match family {
        Family::V4 => "0.0.0.0/0",
        Family::V6 => "::/0",
    };
    let table = slot.tproxy_table(config);
    let rule = tproxy_rule(config, slot);
    // Of this protocol as those of the interface: packets with the mark pass a kill switch, and
    // leave the host without the rule.
    format!(
        "route replace local {everything} dev lo table {table}\nrule add {rule} protocol kernel\n"
    )
}

/// Commands that give the interface its address, and fill its tables.
pub(super) fn interface(config: &RulesConfig, slot: Slot, family: Family) -> String {
    let (address, name) = (family.address(), slot.interface());
    // Neither address is a choice for traffic of other kinds: `scope link`, `preferred_lft 0`.
    let mut lines = vec![match family {
        Family::V4 => format!("address add {address}/32 dev {name} scope link"),
        Family::V6 => format!("address add {address}/128 dev {name} nodad preferred_lft 0"),
    }];
    let (connections, names) = (slot.connections_table(config), slot.names_table(config));
    for table in [connections, names] {
        let route = format!("route add default dev {name} src {address} table {table}");
        lines.push(route);
    }
    let excluded = script::excluded_networks(config);
    for net in excluded.iter().filter(|net| family.has(net)) {
        lines.push(format!("route add throw {net} table {connections}"));
    }
    lines.join("\n") + "\n"
}

/// Commands that lead applications' sockets to the interface.
pub(super) fn to_interface(config: &RulesConfig, slot: Slot, family: Family) -> String {
    let rules = interface_rules(config, slot, family);
    let lines = rules
        .iter()
        .map(|rule| format!("rule add {rule} protocol kernel\n"));
    lines.collect()
}

/// Commands that lead them there no longer, of which any may fail.
pub(super) fn away_from_interface(config: &RulesConfig, slot: Slot, family: Family) -> String {
    let rules = interface_rules(config, slot, family);
    let lines = rules.iter().rev();
    lines.map(|rule| format!("rule del {rule}\n")).collect()
}

/// Commands that remove everything that the others have added, of which any may fail.
pub(super) fn removal(config: &RulesConfig, slot: Slot, family: Family) -> String {
    let mut text = away_from_interface(config, slot, family);
    text.push_str(&format!("rule del {}\n", tproxy_rule(config, slot)));
    for table in slot.tables(config) {
        text.push_str(&format!("route flush table {table}\n"));
    }
    text
}

/// Whether a line of `ip rule show` is a rule of this slot, such as `9000: from all fwmark
/// 0x6d700002 lookup 28016`.
pub(super) fn is_of(slot: Slot, line: &str, config: &RulesConfig) -> bool {
    let Some((preference, rule)) = line.split_once(':') else {
        return false;
    };
    let preference = preference.trim().parse().ok();
    let Some(number) = preference.and_then(|p: u32| p.checked_sub(slot.preference(0))) else {
        return false;
    };
    let words: Vec<_> = rule.split_ascii_whitespace().collect();
    let has = |key: &str, value: &str| words.windows(2).any(|w| w == [key, value]);
    match number {
        TPROXY => has("fwmark", &hex(config.route_mark)),
        OWN_MARK..END => {
            let goes_to = |to: u32| has("goto", &slot.preference(to).to_string());
            let looks_up = |table: u32| has("lookup", &table.to_string());
            (NAMES_UDP..=END).any(goes_to) || slot.tables(config).into_iter().any(looks_up)
        }
        END => words.contains(&"nop"),
        _ => false,
    }
}

fn tproxy_rule(config: &RulesConfig, slot: Slot) -> String {
    let (mark, table) = (hex(config.route_mark), slot.tproxy_table(config));
    format!(
        "pref {} fwmark {mark} lookup {table}",
        slot.preference(TPROXY)
    )
}

/// The rules of the interface, in an order in which they can be added, and removed from the last:
/// those that lead to it come last, behind the others' target and all that makes packets pass them.
fn interface_rules(config: &RulesConfig, slot: Slot, family: Family) -> Vec<String> {
    let (own, end) = (hex(config.own_mark), slot.preference(END));
    let at = |rule: u32| slot.preference(rule);
    let mut rules = vec![
        format!("pref {end} nop"),
        format!("pref {} fwmark {own} goto {end}", at(OWN_MARK)),
    ];
    if let Some(uid) = config.own_uid {
        let preference = at(OWN_UID);
        rules.push(format!("pref {preference} uidrange {uid}-{uid} goto {end}"));
    }
    let first_of_interface = match config.dns_port {
        Some(_) => at(NAMES_UDP),
        None => at(CONNECTIONS),
    };
    let [first, second, third] = SOURCES.map(at);
    let address = family.address();
    rules.push(format!(
        "pref {first} from {address} goto {first_of_interface}"
    ));
    rules.extend(match family {
        Family::V4 => [
            format!("pref {second} from 0.0.0.0/32 goto {first_of_interface}"),
            format!("pref {third} from all goto {end}"),
        ],
        // IPv6 matches a socket without an address with no prefix, not even ::/128.
        Family::V6 => [
            format!("pref {second} from ::/1 goto {end}"),
            format!("pref {third} from 8000::/1 goto {end}"),
        ],
    });
    if config.dns_port.is_some() {
        let names = slot.names_table(config);
        for (rule, protocol) in [(NAMES_UDP, "udp"), (NAMES_TCP, "tcp")] {
            let preference = at(rule);
            rules.push(format!(
                "pref {preference} ipproto {protocol} dport {DNS} lookup {names}"
            ));
        }
    }
    let connections = slot.connections_table(config);
    let preference = at(CONNECTIONS);
    rules.push(format!(
        "pref {preference} ipproto tcp lookup {connections}"
    ));
    rules
}

fn hex(mark: u32) -> String {
    format!("{mark:#x}")
}
