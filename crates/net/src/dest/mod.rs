//! Where a proxy may connect to.
//!
//! A proxy connects on behalf of others. Without rules, anyone it serves could
//! reach what only the proxy's own network may: its loopback, its neighbours,
//! a cloud's metadata service. So whatever is not plainly the public Internet
//! is refused unless the configuration names it.

mod special;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use special::Kind;

/// Addresses, and ports on them.
///
/// Written as `"198.51.100.0/24"`, `"2001:db8::1"`, `"10.0.0.7 443"` or
/// `"0.0.0.0/0 8000-8999"`; without ports, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    net: IpNet,
    ports: RangeInclusive<u16>,
}

impl Rule {
    /// Exactly this address and port: how a proxy closes its own doors.
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

/// Text that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no destination rule: write an address or a network, and ports if not all are meant, such as \"198.51.100.0/24\" or \"10.0.0.7 80-443\""
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

/// Which destinations are allowed: never those in `deny`, always those in
/// `allow`, else the public Internet only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DestinationPolicy {
    /// Allowed although not public.
    pub allow: Vec<Rule>,
    /// Refused, whatever else is said.
    pub deny: Vec<Rule>,
}

/// Why a destination was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A `deny` rule names it.
    #[error("the proxy's policy denies {0}")]
    Denied(SocketAddr),
    /// It is no public address.
    #[error("{address} is {kind}; the proxy's policy does not allow it")]
    NotPublic {
        /// The destination.
        address: SocketAddr,
        /// What it is instead.
        kind: Kind,
    },
    /// Port 0 is no port.
    #[error("{0} has no port")]
    NoPort(SocketAddr),
}

impl DestinationPolicy {
    /// Whether a connection to `address` is allowed.
    ///
    /// An IPv6 address that stands for an IPv4 one (mapped, NAT64, 6to4) is
    /// judged as that one; `deny` rules may name either.
    ///
    /// # Errors
    /// [`Refused`] says why not.
    pub fn check(&self, address: SocketAddr) -> Result<(), Refused> {
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
        // The host that is really reached decides: else "::/0" would open
        // every IPv4 network in its IPv6 spelling.
        let reached = inner.unwrap_or(outer);
        if named(&self.allow, reached) {
            return Ok(());
        }
        match special::kind(reached) {
            None => Ok(()),
            Some(kind) => Err(Refused::NotPublic { address, kind }),
        }
    }
}

#[cfg(test)]
mod tests;
