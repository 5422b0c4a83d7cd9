//! Special-purpose address ranges (RFC 6890) and IPv4 addresses embedded in IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of a special-purpose address (IANA special-purpose address registries, RFC 6890).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// This host.
    Loopback,
    /// The unspecified address, or "this network" (0.0.0.0/8).
    Unspecified,
    /// The attached link.
    LinkLocal,
    /// A private network or the shared address space of carrier-grade NAT (RFC 6598).
    Private,
    /// Multicast.
    Multicast,
    /// Documentation (RFC 5737, RFC 3849, RFC 9637).
    Documentation,
    /// Reserved, for benchmarking, or unallocated.
    Reserved,
    /// A service that a cloud's hosts offer to their virtual machines.
    CloudPlatform,
    /// An address of the proxy's own host.
    Own,
    /// A resolver of the proxy.
    Resolver,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Unspecified => "not the address of a host",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::Multicast => "a multicast address",
            Self::Documentation => "a documentation address",
            Self::Reserved => "a reserved address",
            Self::CloudPlatform => "an address of the cloud platform",
            Self::Own => "an address of the proxy itself",
            Self::Resolver => "a resolver of the proxy",
        })
    }
}

/// Class of `ip`; `None` for a public address.
pub(super) fn kind(ip: IpAddr) -> Option<Kind> {
    match ip {
        IpAddr::V4(ip) => kind_v4(ip),
        IpAddr::V6(ip) => kind_v6(ip),
    }
}

fn kind_v4(ip: Ipv4Addr) -> Option<Kind> {
    Some(match ip.octets() {
        [127, ..] => Kind::Loopback,
        [0, ..] => Kind::Unspecified,
        [169, 254, ..] => Kind::LinkLocal,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Kind::Private,
        [224..=239, ..] => Kind::Multicast,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Kind::Documentation,
        // Azure's WireServer: configuration and secrets of a virtual machine.
        [168, 63, 129, 16] => Kind::CloudPlatform,
        // Protocol assignments, 6to4 relays, benchmarking, class E, broadcast.
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => Kind::Reserved,
        _ => return None,
    })
}

fn kind_v6(ip: Ipv6Addr) -> Option<Kind> {
    Some(match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Loopback,
        [0xfe80..=0xfebf, ..] => Kind::LinkLocal,
        // Unique local, the old site-local, and a network's own NAT64.
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Kind::Private,
        [0xff00..=0xffff, ..] => Kind::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Kind::Documentation,
        // Protocol assignments (Teredo, benchmarking, ORCHID): not hosts of the public Internet.
        [0x2001, 0..=0x01ff, ..] => Kind::Reserved,
        // Only 2000::/3 is allocated as global unicast.
        [0x2000..=0x3fff, ..] => return None,
        _ => Kind::Reserved,
    })
}

/// The IPv4 address embedded in `ip`, at which its packets arrive.
pub(super) fn embedded_ipv4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        // :: and ::1 are IPv6's own.
        [0, 0, 0, 0, 0, 0, 0, 0..=1] => None,
        // IPv4-mapped, IPv4-compatible, IPv4-translated (RFC 4291, RFC 7915).
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            v4(high, low)
        }
        // NAT64's well-known prefix (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}
