//! Destination policy of a proxy.
//!
//! A proxy connects on behalf of others. Without a policy, every client could reach what only the
//! proxy's own network may reach: its loopback addresses, its neighbours, a cloud's metadata
//! service. Therefore every destination outside the public Internet is refused unless the
//! configuration allows it.

mod internal;
mod special;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use internal::InternalAddresses;
pub use special::Kind;

/// A set of addresses and ports.
///
/// Written as `"198.51.100.0/24"`, `"2001:db8::1"`, `"10.0.0.7 443"` or `"0.0.0.0/0 8000-8999"`;
/// without ports it covers all ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    net: IpNet,
    ports: RangeInclusive<u16>,
}

impl Rule {
    /// A rule for exactly this address and port, such as a listener of the proxy itself.
    pub fn exactly(address: SocketAddr) -> Self {
        Self {
            net: IpNet::from(address.ip()),
            ports: address.port()..=address.port(),
        }
    }

    fn covers(&self, ip: IpAddr, port: u16) -> bool {
        self.net.contains(&ip) && self.ports.contains(&port)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.net)?;
        match (self.ports.start(), self.ports.end()) {
            (0, &u16::MAX) => Ok(()),
            (a, b) if a == b => write!(f, " {a}"),
            (a, b) => write!(f, " {a}-{b}"),
        }
    }
}

/// Error of parsing a [`Rule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a destination rule: write an address or a network, and optionally ports, \
     such as \"198.51.100.0/24\" or \"10.0.0.7 80-443\""
)]
pub struct ParseRuleError(String);

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let err = || ParseRuleError(s.to_owned());
        let mut words = s.split_whitespace();
        let net = words.next().ok_or_else(err)?;
        let net = match net.parse::<IpNet>() {
            Ok(net) => net,
            Err(_) => IpNet::from(net.parse::<IpAddr>().map_err(|_| err())?),
        };
        let ports = match words.next() {
            None => 0..=u16::MAX,
            Some(ports) => {
                let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
                let from = from.parse().map_err(|_| err())?;
                let to = to.parse().map_err(|_| err())?;
                if from > to {
                    return Err(err());
                }
                from..=to
            }
        };
        if words.next().is_some() {
            return Err(err());
        }
        Ok(Self {
            net: net.trunc(),
            ports,
        })
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Destination policy: rules in `deny` take precedence, then rules in `allow`; otherwise the public
/// Internet is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DestinationPolicy {
    /// Destinations allowed although not public.
    pub allow: Vec<Rule>,
    /// Destinations refused in any case.
    pub deny: Vec<Rule>,
}

/// Reason for refusing a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A `deny` rule covers the destination.
    #[error("the proxy's policy denies {0}")]
    Denied(SocketAddr),
    /// The address is not public.
    #[error("{address} is {kind}, which the proxy's policy does not allow")]
    NotPublic {
        /// The destination.
        address: SocketAddr,
        /// Its special-purpose class.
        kind: Kind,
    },
    /// The port is 0.
    #[error("{0} has no port")]
    NoPort(SocketAddr),
}

impl DestinationPolicy {
    /// Whether a connection to `address` is allowed.
    ///
    /// An IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4) is treated as the IPv4
    /// address; `deny` rules may name either.
    ///
    /// # Errors
    /// [`Refused`] with the reason.
    pub fn check(&self, address: SocketAddr) -> Result<(), Refused> {
        self.check_from(address, &InternalAddresses::default())
    }

    /// As [`DestinationPolicy::check`], for a proxy whose own addresses and resolvers are
    /// `internal`: these are refused unless `allow` covers them.
    ///
    /// # Errors
    /// [`Refused`] with the reason.
    pub fn check_from(
        &self,
        address: SocketAddr,
        internal: &InternalAddresses,
    ) -> Result<(), Refused> {
        let port = address.port();
        if port == 0 {
            return Err(Refused::NoPort(address));
        }
        let outer = address.ip();
        let inner = special::embedded_ipv4(outer).map(IpAddr::V4);
        let named = |rules: &[Rule], ip: IpAddr| rules.iter().any(|rule| rule.covers(ip, port));
        for ip in [Some(outer), inner].into_iter().flatten() {
            if named(&self.deny, ip) {
                return Err(Refused::Denied(address));
            }
        }
        // The policy applies to the host that is reached: otherwise "::/0" would allow every IPv4
        // network in its IPv6 notation.
        let reached = inner.unwrap_or(outer);
        if named(&self.allow, reached) {
            return Ok(());
        }
        match special::kind(reached).or_else(|| internal.kind(reached)) {
            None => Ok(()),
            Some(kind) => Err(Refused::NotPublic { address, kind }),
        }
    }
}

#[cfg(test)]
mod tests;
