use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is that is not public (IANA's special-purpose registries,
/// RFC 6890).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// This very host.
    Loopback,
    /// No address at all, or "this network".
    Unspecified,
    /// The attached link.
    LinkLocal,
    /// A private network, a carrier's NAT included.
    Private,
    /// Many hosts at once.
    Multicast,
    /// An example in a document.
    Documentation,
    /// Reserved, for tests, or not given to anybody.
    Reserved,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Unspecified => "no address of a host",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::Multicast => "a multicast address",
            Self::Documentation => "a documentation address",
            Self::Reserved => "a reserved address",
        })
    }
}

/// What `ip` is, or `None` for a public address.
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
        // Protocol assignments (Teredo, benchmarking, ORCHID): no host of the
        // Internet is reached there.
        [0x2001, 0..=0x01ff, ..] => Kind::Reserved,
        // Of all IPv6, only 2000::/3 has been given out.
        [0x2000..=0x3fff, ..] => return None,
        _ => Kind::Reserved,
    })
}

/// The IPv4 address that a packet to `ip` ends at.
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
