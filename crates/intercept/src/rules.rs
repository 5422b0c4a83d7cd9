//! Kernel rules for transparent interception, and their lifetime.
//!
//! [`Rules::install`] makes one nft table of its own (and, for TPROXY, one
//! routing rule per address family), and [`Rules::remove`] or a drop takes
//! them away. They go too when the daemon dies in any way, SIGKILL included:
//!
//! * The table has the flag `owner`: the kernel removes it when the netlink
//!   socket that made it closes, and lets nobody else change it. That socket
//!   belongs to `nft -i`, a child that reads its commands from a pipe of
//!   ours and ends when that pipe does. (Seen with nftables 1.0.6 on kernel
//!   6.18: `nft -f` closes its socket at once, and the table with it; `nft -i`
//!   takes the whole script as one line, hence as one transaction, of 23 kB at
//!   least.)
//! * The child of ours is a shell around that `nft -i`, the *guard*. It lets
//!   nothing of ours through once the rules are there, so that a daemon may give
//!   its privileges up and leave them to the guard. When `nft -i` ends, the guard
//!   deletes the routing rules, which have no owner flag, and the table, should
//!   the kernel (before 5.12) not know the flag.
//! * The table's name carries the process id and start time of its owner.
//!   [`Rules::install`] removes tables whose owner is dead, and refuses to add
//!   to those of one that lives.
//!
//! Only a SIGKILL of daemon *and* guard at the same moment leaves anything, and
//! not the table: the routing rules, which match nothing without its marks,
//! stay until the next start, or until somebody calls [`remove_left_overs`].
//! (On kernels before 5.12 the table stays as well.)
//!
//! So a daemon that is to fail closed has to stay alive: without it, apps reach
//! the network directly.
//!
//! # What is intercepted
//!
//! TCP of this host, and of hosts behind the interfaces in
//! [`RulesConfig::forwarded`], except: sockets of the daemon (by
//! [`RulesConfig::own_mark`] or [`RulesConfig::own_uid`]), traffic that stays
//! on this host, [`RulesConfig::endpoints`], link-local, multicast and
//! broadcast addresses, and [`RulesConfig::exclude`]. Connections that exist
//! already go on as they were.
//!
//! # What must not leak past it
//!
//! UDP is not carried. So QUIC (UDP 443) and DNS over QUIC (UDP 853) are
//! answered with port unreachable, which makes browsers use TCP; DNS (53, UDP
//! and TCP) goes to the stub ([`crate::dns`]), also where the resolver's
//! address is excluded; IPv6 is intercepted or refused, after
//! [`RulesConfig::ipv6`]; other UDP passes or is refused, after
//! [`RulesConfig::udp`]. ICMP passes. (An app on this host sees the refusal
//! twice: its send fails with EPERM, and the ICMP message makes a connected
//! socket report ECONNREFUSED.) [`RulesConfig::notes`] says in words what
//! this means, for people.

mod guard;
mod left_over;
mod owner;
mod script;

use std::net::IpAddr;

use ipnet::IpNet;

pub use guard::{Rules, RulesError};
pub use left_over::{LeftOvers, left_overs, remove_left_overs};
pub use owner::Owner;

/// How TCP connections reach the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// NAT. The listener is a [`crate::Protocol::Redirect`] front. For hosts
    /// behind [`RulesConfig::forwarded`] interfaces it has to listen on the
    /// address of that interface (or on all), since that is where NAT sends
    /// them.
    Redirect,
    /// No address is changed; packets are marked and routed to this host. The
    /// listener is a [`crate::Protocol::Tproxy`] front on loopback, out of
    /// reach for anybody else.
    Tproxy,
}

/// What becomes of UDP that is neither DNS nor QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Udp {
    /// It goes its way, over one path and past the session.
    Pass,
    /// It is answered with port unreachable; DHCP passes.
    Reject,
}

/// What becomes of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// As IPv4: needs a listener on the same port of `::1` (or all).
    Intercept,
    /// TCP is reset and UDP refused, so that clients use IPv4 at once.
    Reject,
}

/// What [`Rules`] are to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesConfig {
    /// How connections reach the listener.
    pub method: Method,
    /// The listener's port, on loopback or on all addresses.
    pub port: u16,
    /// The DNS stub's port, for UDP and TCP, on loopback (and on the addresses
    /// of `forwarded` interfaces); `None` lets look-ups pass and leak.
    pub dns_port: Option<u16>,
    /// The `SO_MARK` that the daemon's own sockets carry.
    pub own_mark: u32,
    /// The daemon's user, if it has one to itself.
    pub own_uid: Option<u32>,
    /// Addresses of proxies and helpers.
    pub endpoints: Vec<IpAddr>,
    /// Networks that are to be reached directly, such as
    /// [`private_networks`].
    pub exclude: Vec<IpNet>,
    /// Interfaces behind which other hosts are served.
    pub forwarded: Vec<String>,
    /// Other UDP.
    pub udp: Udp,
    /// IPv6.
    pub ipv6: Ipv6,
    /// For TPROXY: the mark that routes packets to this host. It must differ
    /// from `own_mark`.
    pub route_mark: u32,
    /// For TPROXY: the routing table for those packets. It is emptied first.
    pub route_table: u32,
}

impl RulesConfig {
    /// Redirect to `port`, other UDP passes, IPv6 is intercepted, nothing is
    /// excluded beyond what always is. Marks and table begin with "mp" in
    /// ASCII, so that a person meeting them can guess whose they are.
    pub fn new(port: u16) -> Self {
        Self {
            method: Method::Redirect,
            port,
            dns_port: None,
            own_mark: 0x6d70_0001,
            own_uid: None,
            endpoints: Vec::new(),
            exclude: Vec::new(),
            forwarded: Vec::new(),
            udp: Udp::Pass,
            ipv6: Ipv6::Intercept,
            route_mark: 0x6d70_0002,
            route_table: 0x6d70,
        }
    }

    /// What a person should know about traffic that the session does not
    /// carry, a sentence each.
    pub fn notes(&self) -> Vec<&'static str> {
        let mut notes = vec!["QUIC (UDP 443 and 853) is refused, so that apps use TCP"];
        if self.udp == Udp::Pass {
            notes.push("other UDP is not carried: it goes out directly, over one path");
        } else {
            notes.push("other UDP is refused");
        }
        if self.dns_port.is_none() {
            notes.push("DNS look-ups are not carried: they go out directly");
        }
        if self.ipv6 == Ipv6::Reject {
            notes.push("IPv6 is refused, so that apps use IPv4");
        }
        notes
    }
}

/// Networks of local use: RFC 1918, RFC 6598 (shared address space) and
/// RFC 4193 (unique local). A good value for [`RulesConfig::exclude`]: printers
/// and routers are reached directly, and proxies don't reach them anyway.
pub fn private_networks() -> Vec<IpNet> {
    [
        "10.0.0.0/8",
        "100.64.0.0/10",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
    ]
    .into_iter()
    .filter_map(|net| net.parse().ok())
    .collect()
}
