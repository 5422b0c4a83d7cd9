//! Public addresses that a proxy must not connect to: those of its own host and of its resolvers.

use std::collections::HashSet;
use std::net::IpAddr;

use super::special::Kind;

/// Resolvers that serve the whole Internet (Cloudflare, Google, Quad9): reaching them through a
/// proxy that uses them as well discloses nothing of the proxy's network.
const PUBLIC_RESOLVERS: [&str; 12] = [
    "1.1.1.1",
    "1.0.0.1",
    "2606:4700:4700::1111",
    "2606:4700:4700::1001",
    "8.8.8.8",
    "8.8.4.4",
    "2001:4860:4860::8888",
    "2001:4860:4860::8844",
    "9.9.9.9",
    "149.112.112.112",
    "2620:fe::fe",
    "2620:fe::9",
];

/// Addresses of a proxy's host and of its resolvers, whose ranges may be public.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InternalAddresses {
    own: HashSet<IpAddr>,
    resolvers: HashSet<IpAddr>,
}

impl InternalAddresses {
    /// The addresses of a host, and the resolvers that its `resolv.conf` names.
    ///
    /// A provider's resolver may have a public address and answer its customers only; well-known
    /// public resolvers are left out.
    pub fn new(own: impl IntoIterator<Item = IpAddr>, resolv_conf: &str) -> Self {
        let named = resolv_conf.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words
                .next()
                .filter(|w| *w == "nameserver")
                .and(words.next())?;
            // A link-local address may have a zone.
            let address = address
                .split_once('%')
                .map_or(address, |(address, _)| address);
            address.parse::<IpAddr>().ok()
        });
        let is_public = |ip: &IpAddr| PUBLIC_RESOLVERS.iter().any(|p| p.parse() == Ok(*ip));
        Self {
            own: own.into_iter().map(|ip| ip.to_canonical()).collect(),
            resolvers: named
                .map(|ip| ip.to_canonical())
                .filter(|ip| !is_public(ip))
                .collect(),
        }
    }

    /// Class of `ip`; `None` for addresses of other hosts.
    pub(super) fn kind(&self, ip: IpAddr) -> Option<Kind> {
        if self.own.contains(&ip) {
            Some(Kind::Own)
        } else if self.resolvers.contains(&ip) {
            Some(Kind::Resolver)
        } else {
            None
        }
    }
}
