//! Generation of the nft script.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::config::{Ipv6, Method, RulesConfig, Udp};
use super::family::Family;

/// Networks never intercepted: this host and this link.
const ALWAYS_EXCLUDED: [&str; 7] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    // Multicast, reserved and broadcast.
    "224.0.0.0/3",
    "::/127",
    "fe80::/10",
    "ff00::/8",
];

/// Matches the first packet of a connection.
const FIRST: &str = "tcp flags & (syn | ack) == syn";

const PORT_UNREACHABLE: &str = "reject with icmpx type port-unreachable";

/// DHCP of clients and relays, from ports that are for root: other programs reach no port 67 or 547
/// by it.
const DHCP: &str = "udp sport { 67, 68, 546, 547 } udp dport { 67, 547 } accept";

/// The nft commands that create the table, one per line. External input in them is limited to
/// numbers, addresses and validated interface names.
///
/// `addresses` are those of the interface: connections of other hosts are redirected to them, since
/// the kernel discards packets of others for loopback addresses. Without one of a
/// family, to the address of the interface that they came by, where nothing listens: a reset.
pub(super) fn script(
    config: &RulesConfig,
    addresses: &[IpAddr],
    table: &str,
    owned: bool,
) -> String {
    let mut out = Script {
        addresses,
        table,
        text: String::new(),
        // `reject` before routing came to Linux with 5.9, owners with 5.12.
        unreceived: if owned {
            "reject with tcp reset"
        } else {
            "drop"
        },
    };
    let flags = if owned { " { flags owner; }" } else { "" };
    out.line(&format!("add table inet {table}{flags}"));
    out.own_and_excluded(config);
    out.nat(config);
    if config.method == Method::Tproxy {
        out.tproxy(config);
    }
    out.refusals(config);
    out.text
}

/// The nft commands of the kill switch, for one transaction: an earlier table is replaced.
pub(super) fn kill_switch(config: &RulesConfig, table: &str) -> String {
    let mut out = Script {
        addresses: &[],
        table,
        text: String::new(),
        unreceived: "drop",
    };
    // `delete` fails where there is no table.
    out.line(&format!("add table inet {table}"));
    out.line(&format!("delete table inet {table}"));
    out.line(&format!("add table inet {table}"));
    out.own_and_excluded(config);
    out.kill_switch(config);
    out.text
}

struct Script<'t> {
    addresses: &'t [IpAddr],
    table: &'t str,
    text: String,
    /// Statement for packets that TPROXY has no socket for.
    unreceived: &'static str,
}

impl Script<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Adds a chain; `kind` is empty for the target of a jump.
    fn chain(&mut self, name: &str, kind: &str) {
        let body = match kind {
            "" => String::new(),
            kind => format!(" {{ {kind}; policy accept; }}"),
        };
        self.line(&format!("add chain inet {} {name}{body}", self.table));
    }

    fn rule(&mut self, chain: &str, rule: &str) {
        self.line(&format!("add rule inet {} {chain} {rule}", self.table));
    }

    /// Chain `own`: traffic of the daemon itself, and traffic within this host. Chain `excluded`:
    /// destinations reached directly.
    fn own_and_excluded(&mut self, config: &RulesConfig) {
        self.chain("own", "");
        self.rule("own", &format!("meta mark {:#x} accept", config.own_mark));
        if let Some(uid) = config.own_uid {
            self.rule("own", &format!("meta skuid {uid} accept"));
        }
        self.rule("own", "oifname \"lo\" accept");

        self.chain("excluded", "");
        let (v4, v6): (Vec<_>, Vec<_>) = excluded_networks(config)
            .into_iter()
            .partition(|net| matches!(net, IpNet::V4(_)));
        self.rule("excluded", &format!("ip daddr {} accept", set(&v4)));
        self.rule("excluded", &format!("ip6 daddr {} accept", set(&v6)));
    }

    /// NAT chains. DNS always uses NAT: the stub answers from one address, and NAT restores the
    /// source address that the client expects.
    fn nat(&mut self, config: &RulesConfig) {
        if config.method != Method::Redirect && config.dns_port.is_none() {
            return;
        }
        self.chain("nat_output", "type nat hook output priority -100");
        self.rule("nat_output", "jump own");
        self.redirects("nat_output", config, to_loopback);
        if let Some(interfaces) = forwarded(config) {
            let chain = "nat_prerouting";
            self.chain(chain, "type nat hook prerouting priority -100");
            self.rule(chain, &format!("iifname != {interfaces} accept"));
            self.rule(chain, "fib daddr type local accept");
            let addresses = self.addresses;
            self.redirects(chain, config, |port| to_addresses(addresses, port));
            self.closed_addresses();
            if config.method == Method::Redirect {
                self.resets(config);
            }
        }
    }

    /// Other hosts reach the addresses of the interface by redirection alone.
    fn closed_addresses(&mut self) {
        if self.addresses.is_empty() {
            return;
        }
        let chain = "filter_input";
        self.chain(chain, "type filter hook input priority 0");
        self.rule(chain, "iifname \"lo\" accept");
        self.rule(chain, "ct status dnat accept");
        for address in self.addresses {
            let family = match address {
                IpAddr::V4(_) => "ip",
                IpAddr::V6(_) => "ip6",
            };
            self.rule(chain, &format!("{family} daddr {address} drop"));
        }
    }

    /// Resets to other hosts, whose connections a listener refuses. They have the address of the
    /// interface, without the mark of the daemon's sockets, and would be routed there.
    fn resets(&mut self, config: &RulesConfig) {
        let chain = "mangle_output";
        self.chain(chain, "type route hook output priority -150");
        let reset = "ct direction reply ct status dnat tcp flags & rst == rst";
        let mark = config.own_mark;
        self.rule(chain, &format!("{reset} meta mark set {mark:#x}"));
    }

    /// `targets` are matches of an address family with their statements, for a port.
    fn redirects(
        &mut self,
        chain: &str,
        config: &RulesConfig,
        targets: impl Fn(u16) -> Vec<(&'static str, String)>,
    ) {
        if let Some(port) = config.dns_port {
            let dns = "meta l4proto { tcp, udp } th dport 53";
            for (family, target) in targets(port) {
                self.rule(chain, &format!("{family}{dns} {target}"));
            }
        }
        if config.method == Method::Redirect {
            self.rule(chain, "jump excluded");
            let families = tcp_families(config);
            // Without the match on flags, a connection older than the table would count as new if
            // conntrack was not active before.
            for (family, target) in targets(config.port) {
                self.rule(chain, &format!("{families}{family}{FIRST} {target}"));
            }
        }
    }

    /// TPROXY chains. A connection gets a conntrack mark at its SYN; packets of marked connections
    /// get the same packet mark, and the routing rule for the mark delivers them to this host,
    /// where TPROXY finds their socket. Connections older than the table have no mark and are not
    /// affected. Where there is no socket, because the listener refuses clients, a program of this
    /// host that listens at all addresses would be taken for the destination.
    fn tproxy(&mut self, config: &RulesConfig) {
        let mark = format!("{:#x}", config.route_mark);
        let family = tcp_families(config);
        let begin = format!("{family}{FIRST} ct mark set {mark}");
        let marked = format!("meta l4proto tcp ct mark {mark} ct direction original");

        self.chain("mangle_output", "type route hook output priority -150");
        self.rule("mangle_output", "jump own");
        if config.dns_port.is_some() {
            self.rule("mangle_output", "tcp dport 53 accept");
        }
        self.rule("mangle_output", "jump excluded");
        self.rule("mangle_output", &begin);
        self.rule("mangle_output", &format!("{marked} meta mark set {mark}"));

        let chain = "mangle_prerouting";
        self.chain(chain, "type filter hook prerouting priority -150");
        let ports = [("ipv4", "ip to 127.0.0.1"), ("ipv6", "ip6 to [::1]")]
            .map(|(family, to)| (family, format!("tproxy {to}:{}", config.port)));
        for (family, tproxy) in &ports {
            let ours = format!("iifname \"lo\" meta mark {mark} meta nfproto {family}");
            self.rule(chain, &format!("{ours} meta l4proto tcp {tproxy} accept"));
        }
        let unreceived = self.unreceived;
        let ours = format!("iifname \"lo\" meta mark {mark} meta l4proto tcp");
        self.rule(chain, &format!("{ours} {unreceived}"));
        let Some(interfaces) = forwarded(config) else {
            return;
        };
        self.rule(chain, &format!("iifname != {interfaces} accept"));
        self.rule(chain, "fib daddr type local accept");
        if config.dns_port.is_some() {
            self.rule(chain, "tcp dport 53 accept");
        }
        self.rule(chain, "jump excluded");
        self.rule(chain, &begin);
        for (family, tproxy) in &ports {
            let set = format!("meta nfproto {family} meta mark set {mark}");
            self.rule(chain, &format!("{marked} {set} {tproxy} accept"));
        }
        self.rule(chain, &format!("{marked} {unreceived}"));
    }

    /// Rejects traffic that would leak past the session.
    fn refusals(&mut self, config: &RulesConfig) {
        self.chain("filter_output", "type filter hook output priority 0");
        self.rule("filter_output", "jump own");
        self.refuse("filter_output", config);
        if let Some(interfaces) = forwarded(config) {
            self.chain("filter_forward", "type filter hook forward priority 0");
            self.rule("filter_forward", &format!("iifname != {interfaces} accept"));
            self.refuse("filter_forward", config);
        }
    }

    /// Rejects all that is neither the daemon's own nor bound for an excluded destination. Packets
    /// marked for TPROXY are on their way to this host. What hosts beyond the forwarded interfaces
    /// send is none of the kill switch's business.
    fn kill_switch(&mut self, config: &RulesConfig) {
        self.chain("reject_all", "");
        self.rule("reject_all", &format!("{FIRST} reject with tcp reset"));
        // Not reset: an answer on a connection from outside that is older than connection tracking
        // looks like one of this host's own until the other end sends something.
        self.rule("reject_all", "meta l4proto tcp drop");
        self.rule("reject_all", PORT_UNREACHABLE);

        self.chain("pass", "");
        self.rule(
            "pass",
            "meta l4proto { tcp, udp } th dport 53 jump reject_all",
        );
        self.rule("pass", "jump excluded");
        // Connections from outside are answered; errors refer to a connection.
        self.rule("pass", "ct direction reply accept");
        let icmp = "meta l4proto { icmp, ipv6-icmp }";
        self.rule("pass", &format!("{icmp} ct state related accept"));
        // Addresses of this link: DHCP, and neighbours, which answer from any of their addresses.
        self.rule("pass", DHCP);
        let neighbours = "{ nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert }";
        self.rule("pass", &format!("icmpv6 type {neighbours} accept"));

        let chain = "filter_output";
        self.chain(chain, "type filter hook output priority 0");
        self.rule(chain, "jump own");
        self.rule(chain, &format!("meta mark {:#x} accept", config.route_mark));
        self.rule(chain, "jump pass");
        self.rule(chain, "jump reject_all");
        if let Some(interfaces) = forwarded(config) {
            let chain = "filter_forward";
            self.chain(chain, "type filter hook forward priority 0");
            self.rule(chain, &format!("iifname != {interfaces} accept"));
            self.rule(chain, "jump pass");
            self.rule(chain, "jump reject_all");
        }
    }

    fn refuse(&mut self, chain: &str, config: &RulesConfig) {
        self.rule(chain, "jump excluded");
        self.rule(
            chain,
            &format!("udp dport {{ 443, 853 }} {PORT_UNREACHABLE}"),
        );
        if config.udp == Udp::Reject {
            // Only DHCP renewals pass this chain, and their server need not be in an excluded
            // network.
            self.rule(chain, DHCP);
            self.rule(chain, &format!("meta l4proto udp {PORT_UNREACHABLE}"));
        }
        if config.ipv6 == Ipv6::Reject {
            let v6 = "meta nfproto ipv6 meta l4proto";
            self.rule(chain, &format!("{v6} tcp reject with tcp reset"));
            self.rule(chain, &format!("{v6} udp {PORT_UNREACHABLE}"));
        }
    }
}

/// Redirection of this host's packets, for which the kernel chooses loopback.
fn to_loopback(port: u16) -> Vec<(&'static str, String)> {
    vec![("", format!("redirect to :{port}"))]
}

/// Redirection of other hosts' packets.
fn to_addresses(addresses: &[IpAddr], port: u16) -> Vec<(&'static str, String)> {
    let to = |address: &IpAddr| {
        let (family, kind) = match address {
            IpAddr::V4(_) => ("meta nfproto ipv4 ", "ip"),
            IpAddr::V6(_) => ("meta nfproto ipv6 ", "ip6"),
        };
        let to = SocketAddr::new(*address, port);
        (family, format!("dnat {kind} to {to}"))
    };
    let mut targets: Vec<_> = addresses.iter().map(to).collect();
    if targets.len() < Family::BOTH.len() {
        targets.extend(to_loopback(port));
    }
    targets
}

/// Address family match in front of rules that intercept TCP.
fn tcp_families(config: &RulesConfig) -> &'static str {
    match config.ipv6 {
        Ipv6::Intercept => "",
        Ipv6::Reject => "meta nfproto ipv4 ",
    }
}

/// The `forwarded` interfaces as an nft set.
fn forwarded(config: &RulesConfig) -> Option<String> {
    let mut names: Vec<_> = config
        .forwarded
        .iter()
        .map(|n| format!("\"{n}\""))
        .collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| set(&names))
}

/// All excluded networks, without overlaps, which nft rejects.
pub(super) fn excluded_networks(config: &RulesConfig) -> Vec<IpNet> {
    let always = ALWAYS_EXCLUDED.iter().filter_map(|net| net.parse().ok());
    let endpoints = config
        .endpoints
        .iter()
        .map(|ip| IpNet::from(ip.to_canonical()));
    let all: Vec<IpNet> = always
        .chain(endpoints)
        .chain(config.exclude.iter().map(IpNet::trunc))
        .collect();
    IpNet::aggregate(&all)
}

fn set(elements: &[impl std::fmt::Display]) -> String {
    let mut text = String::from("{");
    for (i, element) in elements.iter().enumerate() {
        let comma = if i == 0 { " " } else { ", " };
        text.push_str(comma);
        text.push_str(&element.to_string());
    }
    text + " }"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(config: &RulesConfig) -> String {
        script(config, &[], "T", true)
    }

    #[test]
    fn redirect_for_this_host() {
        let mut config = RulesConfig::new(1080);
        config.dns_port = Some(1053);
        config.own_uid = Some(33);
        config.endpoints = vec![
            "203.0.113.5".parse().unwrap(),
            "2001:db8::5".parse().unwrap(),
        ];
        config.exclude = vec![
            "10.1.0.0/16".parse().unwrap(),
            "10.1.2.3/24".parse().unwrap(),
        ];
        let want = "\
add table inet T { flags owner; }
add chain inet T own
add rule inet T own meta mark 0x6d700001 accept
add rule inet T own meta skuid 33 accept
add rule inet T own oifname \"lo\" accept
add chain inet T excluded
add rule inet T excluded ip daddr { 0.0.0.0/8, 10.1.0.0/16, 127.0.0.0/8, 169.254.0.0/16, 203.0.113.5/32, 224.0.0.0/3 } accept
add rule inet T excluded ip6 daddr { ::/127, 2001:db8::5/128, fe80::/10, ff00::/8 } accept
add chain inet T nat_output { type nat hook output priority -100; policy accept; }
add rule inet T nat_output jump own
add rule inet T nat_output meta l4proto { tcp, udp } th dport 53 redirect to :1053
add rule inet T nat_output jump excluded
add rule inet T nat_output tcp flags & (syn | ack) == syn redirect to :1080
add chain inet T filter_output { type filter hook output priority 0; policy accept; }
add rule inet T filter_output jump own
add rule inet T filter_output jump excluded
add rule inet T filter_output udp dport { 443, 853 } reject with icmpx type port-unreachable
";
        assert_eq!(lines(&config), want);
    }

    #[test]
    fn tproxy_for_other_hosts_too() {
        let mut config = RulesConfig::new(1080);
        config.method = Method::Tproxy;
        config.dns_port = Some(1053);
        config.forwarded = vec!["lan1".into(), "lan0".into(), "lan1".into()];
        config.udp = Udp::Reject;
        config.ipv6 = Ipv6::Reject;
        let own_and_excluded = "\
add table inet T { flags owner; }
add chain inet T own
add rule inet T own meta mark 0x6d700001 accept
add rule inet T own oifname \"lo\" accept
add chain inet T excluded
add rule inet T excluded ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } accept
add rule inet T excluded ip6 daddr { ::/127, fe80::/10, ff00::/8 } accept
";
        let nat = "\
add chain inet T nat_output { type nat hook output priority -100; policy accept; }
add rule inet T nat_output jump own
add rule inet T nat_output meta l4proto { tcp, udp } th dport 53 redirect to :1053
add chain inet T nat_prerouting { type nat hook prerouting priority -100; policy accept; }
add rule inet T nat_prerouting iifname != { \"lan0\", \"lan1\" } accept
add rule inet T nat_prerouting fib daddr type local accept
add rule inet T nat_prerouting meta l4proto { tcp, udp } th dport 53 redirect to :1053
";
        let mangle = "\
add chain inet T mangle_output { type route hook output priority -150; policy accept; }
add rule inet T mangle_output jump own
add rule inet T mangle_output tcp dport 53 accept
add rule inet T mangle_output jump excluded
add rule inet T mangle_output meta nfproto ipv4 tcp flags & (syn | ack) == syn ct mark set 0x6d700002
add rule inet T mangle_output meta l4proto tcp ct mark 0x6d700002 ct direction original meta mark set 0x6d700002
add chain inet T mangle_prerouting { type filter hook prerouting priority -150; policy accept; }
add rule inet T mangle_prerouting iifname \"lo\" meta mark 0x6d700002 meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:1080 accept
add rule inet T mangle_prerouting iifname \"lo\" meta mark 0x6d700002 meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:1080 accept
add rule inet T mangle_prerouting iifname \"lo\" meta mark 0x6d700002 meta l4proto tcp reject with tcp reset
add rule inet T mangle_prerouting iifname != { \"lan0\", \"lan1\" } accept
add rule inet T mangle_prerouting fib daddr type local accept
add rule inet T mangle_prerouting tcp dport 53 accept
add rule inet T mangle_prerouting jump excluded
add rule inet T mangle_prerouting meta nfproto ipv4 tcp flags & (syn | ack) == syn ct mark set 0x6d700002
add rule inet T mangle_prerouting meta l4proto tcp ct mark 0x6d700002 ct direction original meta nfproto ipv4 meta mark set 0x6d700002 tproxy ip to 127.0.0.1:1080 accept
add rule inet T mangle_prerouting meta l4proto tcp ct mark 0x6d700002 ct direction original meta nfproto ipv6 meta mark set 0x6d700002 tproxy ip6 to [::1]:1080 accept
add rule inet T mangle_prerouting meta l4proto tcp ct mark 0x6d700002 ct direction original reject with tcp reset
";
        let refuse = |chain: &str| {
            format!(
                "\
add rule inet T {chain} jump excluded
add rule inet T {chain} udp dport {{ 443, 853 }} reject with icmpx type port-unreachable
add rule inet T {chain} udp sport {{ 67, 68, 546, 547 }} udp dport {{ 67, 547 }} accept
add rule inet T {chain} meta l4proto udp reject with icmpx type port-unreachable
add rule inet T {chain} meta nfproto ipv6 meta l4proto tcp reject with tcp reset
add rule inet T {chain} meta nfproto ipv6 meta l4proto udp reject with icmpx type port-unreachable
"
            )
        };
        let filter_output = "\
add chain inet T filter_output { type filter hook output priority 0; policy accept; }
add rule inet T filter_output jump own
";
        let filter_forward = "\
add chain inet T filter_forward { type filter hook forward priority 0; policy accept; }
add rule inet T filter_forward iifname != { \"lan0\", \"lan1\" } accept
";
        let want = [
            own_and_excluded,
            nat,
            mangle,
            filter_output,
            &refuse("filter_output"),
            filter_forward,
            &refuse("filter_forward"),
        ]
        .concat();
        assert_eq!(lines(&config), want);
    }

    #[test]
    fn redirect_for_other_hosts_to_the_interface() {
        let mut config = RulesConfig::new(1080);
        config.dns_port = Some(1053);
        config.forwarded = vec!["lan0".into()];
        config.ipv6 = Ipv6::Reject;
        let addresses = ["198.18.109.112", "fd6d::1"].map(|a| a.parse().unwrap());
        let chain = |addresses: &[IpAddr]| {
            let text = script(&config, addresses, "T", true);
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("add rule inet T "));
            let lines = lines.filter(|line| {
                ["nat_prer", "input", "mangle"]
                    .iter()
                    .any(|chain| line.contains(chain))
            });
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        let want = "\
nat_prerouting iifname != { \"lan0\" } accept
nat_prerouting fib daddr type local accept
nat_prerouting meta nfproto ipv4 meta l4proto { tcp, udp } th dport 53 dnat ip to 198.18.109.112:1053
nat_prerouting meta nfproto ipv6 meta l4proto { tcp, udp } th dport 53 dnat ip6 to [fd6d::1]:1053
nat_prerouting jump excluded
nat_prerouting meta nfproto ipv4 meta nfproto ipv4 tcp flags & (syn | ack) == syn dnat ip to 198.18.109.112:1080
nat_prerouting meta nfproto ipv4 meta nfproto ipv6 tcp flags & (syn | ack) == syn dnat ip6 to [fd6d::1]:1080
filter_input iifname \"lo\" accept
filter_input ct status dnat accept
filter_input ip daddr 198.18.109.112 drop
filter_input ip6 daddr fd6d::1 drop
mangle_output ct direction reply ct status dnat tcp flags & rst == rst meta mark set 0x6d700001
";
        assert_eq!(chain(&addresses), want);
        let text = chain(&addresses[..1]);
        assert!(text.contains("dport 53 redirect to :1053\n"), "{text}");
    }

    #[test]
    fn kill_switch_of_a_host_with_others_behind_it() {
        let mut config = RulesConfig::new(0);
        config.forwarded = vec!["lan0".into()];
        config.endpoints = vec!["203.0.113.5".parse().unwrap()];
        let want = "\
add table inet K
delete table inet K
add table inet K
add chain inet K own
add rule inet K own meta mark 0x6d700001 accept
add rule inet K own oifname \"lo\" accept
add chain inet K excluded
add rule inet K excluded ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 203.0.113.5/32, 224.0.0.0/3 } accept
add rule inet K excluded ip6 daddr { ::/127, fe80::/10, ff00::/8 } accept
add chain inet K reject_all
add rule inet K reject_all tcp flags & (syn | ack) == syn reject with tcp reset
add rule inet K reject_all meta l4proto tcp drop
add rule inet K reject_all reject with icmpx type port-unreachable
add chain inet K pass
add rule inet K pass meta l4proto { tcp, udp } th dport 53 jump reject_all
add rule inet K pass jump excluded
add rule inet K pass ct direction reply accept
add rule inet K pass meta l4proto { icmp, ipv6-icmp } ct state related accept
add rule inet K pass udp sport { 67, 68, 546, 547 } udp dport { 67, 547 } accept
add rule inet K pass icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept
add chain inet K filter_output { type filter hook output priority 0; policy accept; }
add rule inet K filter_output jump own
add rule inet K filter_output meta mark 0x6d700002 accept
add rule inet K filter_output jump pass
add rule inet K filter_output jump reject_all
add chain inet K filter_forward { type filter hook forward priority 0; policy accept; }
add rule inet K filter_forward iifname != { \"lan0\" } accept
add rule inet K filter_forward jump pass
add rule inet K filter_forward jump reject_all
";
        assert_eq!(kill_switch(&config, "K"), want);
    }

    #[test]
    fn nothing_but_what_is_asked_for() {
        let mut config = RulesConfig::new(1080);
        config.method = Method::Tproxy;
        let text = lines(&config);
        assert!(!text.contains("dport 53"), "{text}");
        assert!(!text.contains("type nat"), "{text}");
        assert!(!text.contains("forward"), "{text}");
        let text = script(&config, &[], "T", false);
        assert!(text.starts_with("add table inet T\n"), "{text}");
        assert!(text.contains("meta l4proto tcp drop\n"), "{text}");
    }
}
