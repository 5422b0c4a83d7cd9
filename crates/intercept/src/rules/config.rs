//! Configuration of the rules: what is intercepted, and by which method.

use std::net::IpAddr;

use ipnet::IpNet;

/// Method of redirecting TCP connections to the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// NAT. The listener is a [`crate::Protocol::Redirect`] front. For hosts behind
    /// [`RulesConfig::forwarded`] interfaces one must listen on
    /// [`Rules::addresses`](super::Rules::addresses), too, to which NAT redirects them.
    Redirect,
    /// TPROXY: addresses are not changed; packets are marked and routed to this host. The listener
    /// is a [`crate::Protocol::Tproxy`] front on loopback, which other hosts cannot reach.
    Tproxy,
}

/// Treatment of UDP other than DNS and QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Udp {
    /// Passes directly over one path, outside the session.
    Pass,
    /// Rejected with port unreachable; DHCP passes.
    Reject,
}

/// Treatment of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// Intercepted like IPv4; requires a listener on the same port of `::1` (or all).
    Intercept,
    /// TCP is reset and UDP rejected, so that clients use IPv4 at once.
    Reject,
}

/// Configuration of [`Rules`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesConfig {
    /// Method of redirection.
    pub method: Method,
    /// The listener's port, on loopback.
    pub port: u16,
    /// The DNS stub's port for UDP and TCP, on loopback (and, with `forwarded` interfaces, on
    /// [`Rules::addresses`](super::Rules::addresses)); with `None` look-ups pass directly, and
    /// leak.
    pub dns_port: Option<u16>,
    /// `SO_MARK` of the daemon's own sockets.
    pub own_mark: u32,
    /// The daemon's user id, if no other program uses it.
    pub own_uid: Option<u32>,
    /// Addresses of proxies and helpers.
    pub endpoints: Vec<IpAddr>,
    /// Networks reached directly, such as [`private_networks`].
    pub exclude: Vec<IpNet>,
    /// Interfaces of other hosts whose traffic is intercepted.
    pub forwarded: Vec<String>,
    /// Treatment of other UDP.
    pub udp: Udp,
    /// IPv6.
    pub ipv6: Ipv6,
    /// For TPROXY: mark of packets routed to this host. It must differ from `own_mark`.
    pub route_mark: u32,
    /// First of six routing tables, which are flushed first: for packets marked by TPROXY, for
    /// connections and for name look-ups that get the address of the interface; the same again for
    /// a daemon that takes over.
    pub route_table: u32,
    /// Whether connections get the address of an interface of their own, which stays when other
    /// interfaces lose theirs.
    pub interface: bool,
}

impl RulesConfig {
    /// Default configuration: redirect to `port`, other UDP passes, IPv6 is intercepted, only the
    /// fixed exclusions apply. Marks and table number begin with "mp" in ASCII, so that they can be
    /// attributed to mpbond.
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
            interface: true,
        }
    }

    /// Notes for the user about traffic that the session does not carry, one sentence each.
    pub fn notes(&self) -> Vec<&'static str> {
        let mut notes = vec!["QUIC (UDP 443 and 853) is rejected, so that applications use TCP"];
        if self.udp == Udp::Pass {
            notes
                .push("other UDP is not carried by the session: it is sent directly over one path");
        } else {
            notes.push("other UDP is rejected");
        }
        if self.dns_port.is_none() {
            notes.push("DNS look-ups are not carried by the session: they are sent directly");
        }
        if self.ipv6 == Ipv6::Reject {
            notes.push("IPv6 is rejected, so that applications use IPv4");
        }
        notes
    }
}

/// Private networks: RFC 1918, RFC 6598 (shared address space) and RFC 4193 (unique local).
/// Suitable for [`RulesConfig::exclude`]: printers and routers are reached directly, and a proxy
/// cannot reach them anyway.
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
