//! Sets of numbers as sorted, disjoint intervals: ports, user ids, addresses, minutes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::value::{FromText, whole_number};

/// Set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intervals(Vec<(u128, u128)>);

impl Intervals {
    /// The union of inclusive intervals.
    pub(crate) fn new(intervals: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut sorted: Vec<_> = intervals.into_iter().collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
        for (low, high) in sorted {
            match merged.last_mut() {
                // Neighbours are merged too, so that one interval covers another if the sets do.
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self(merged)
    }

    /// Whether the set contains a number.
    pub(crate) fn contains(&self, number: u128) -> bool {
        self.covers_interval((number, number))
    }

    /// Whether the set contains all of another.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other
            .0
            .iter()
            .all(|interval| self.covers_interval(*interval))
    }

    fn covers_interval(&self, (low, high): (u128, u128)) -> bool {
        let after = self.0.partition_point(|own| own.0 <= low);
        let found = after.checked_sub(1).and_then(|at| self.0.get(at));
        found.is_some_and(|own| high <= own.1)
    }
}

/// Parses `7` or `7-12` with a limit; the two bounds are inclusive.
fn bounds(text: &str, limits: (u128, u128)) -> Option<(u128, u128)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (whole_number(low.trim())?, whole_number(high.trim())?);
    (limits.0 <= low && low <= high && high <= limits.1).then_some((low, high))
}

fn number_within(number: i64, limits: (u128, u128)) -> Option<(u128, u128)> {
    let number = u128::try_from(number).ok()?;
    (limits.0..=limits.1)
        .contains(&number)
        .then_some((number, number))
}

/// A port, or a range of ports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports(pub (u128, u128));

impl Ports {
    const LIMITS: (u128, u128) = (1, 65_535);
}

impl FromText for Ports {
    const EXPECTED: &'static str = "a port from 1 to 65535, or a range such as \"8000-8999\"";
    fn from_text(text: &str) -> Result<Self, String> {
        let range = bounds(text, Self::LIMITS).map(Self);
        range.ok_or_else(|| Self::unexpected(text))
    }
    fn from_number(number: i64) -> Result<Self, String> {
        let one = number_within(number, Self::LIMITS).map(Self);
        one.ok_or_else(|| format!("{number} is not {}", Self::EXPECTED))
    }
}

/// A user id, or a range of user ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uids(pub (u128, u128));

impl Uids {
    /// `(uid_t) -1` is no user.
    const LIMITS: (u128, u128) = (0, 0xffff_fffe);
}

impl FromText for Uids {
    const EXPECTED: &'static str = "a user id, or a range of them such as \"1000-1999\"";
    fn from_text(text: &str) -> Result<Self, String> {
        let range = bounds(text, Self::LIMITS).map(Self);
        range.ok_or_else(|| Self::unexpected(text))
    }
    fn from_number(number: i64) -> Result<Self, String> {
        let one = number_within(number, Self::LIMITS).map(Self);
        one.ok_or_else(|| format!("{number} is not {}", Self::EXPECTED))
    }
}

/// A differentiated services code point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dscp(pub (u128, u128));

/// Names of code points: RFC 4594, RFC 5865 and RFC 8622.
const DSCP_NAMES: [(&str, u128); 24] = [
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VOICE-ADMIT", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("DF", 0),
];

impl FromText for Dscp {
    const EXPECTED: &'static str = "a code point from 0 to 63, or its name such as \"AF41\"";
    fn from_text(text: &str) -> Result<Self, String> {
        let mut names = DSCP_NAMES.iter();
        let named = names.find(|(name, _)| name.eq_ignore_ascii_case(text));
        let named = named.map(|(_, point)| (*point, *point));
        let point = named.or_else(|| bounds(text, (0, 63))).map(Self);
        point.ok_or_else(|| Self::unexpected(text))
    }
    fn from_number(number: i64) -> Result<Self, String> {
        let one = number_within(number, (0, 63)).map(Self);
        one.ok_or_else(|| format!("{number} is not {}", Self::EXPECTED))
    }
}

/// A limit of the battery's level, as the levels on its side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Levels(pub (u128, u128));

impl FromText for Levels {
    const EXPECTED: &'static str = "a limit such as \"< 20%\" or \">= 20%\"";
    fn from_text(text: &str) -> Result<Self, String> {
        use crate::value::Percent;
        let below = text.strip_prefix('<').filter(|rest| !rest.starts_with('='));
        let from = text.strip_prefix(">=");
        let number = below.or(from).ok_or_else(|| Self::unexpected(text))?;
        let Percent(limit) =
            Percent::from_text(number.trim_start()).map_err(|_| Self::unexpected(text))?;
        match (below, limit) {
            (Some(_), 0) => Err("no level is below 0%".to_owned()),
            (Some(_), limit) => Ok(Self((0, u128::from(limit) - 1))),
            (None, 0) => Err("every level is 0% or more: leave the condition out".to_owned()),
            (None, limit) => Ok(Self((u128::from(limit), 100))),
        }
    }
}

/// An address or a network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network(pub IpNet);

impl FromText for Network {
    const EXPECTED: &'static str = "an address or a network such as \"192.0.2.0/24\"";
    fn from_text(text: &str) -> Result<Self, String> {
        let net = text
            .parse::<IpNet>()
            .or_else(|e| text.parse::<IpAddr>().map(IpNet::from).map_err(|_| e))
            .map_err(|_| Self::unexpected(text))?;
        if net.trunc() != net {
            return Err(format!(
                "{net} has bits beyond its prefix: write \"{}\"",
                net.trunc()
            ));
        }
        let mapped = match net {
            IpNet::V6(v6) => v6.prefix_len() >= 96 && v6.addr().to_ipv4_mapped().is_some(),
            IpNet::V4(_) => false,
        };
        if mapped {
            return Err(format!("{net} is a form of IPv4: write the IPv4 address"));
        }
        Ok(Self(net))
    }
}

/// Set of addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    v4: Intervals,
    v6: Intervals,
}

impl Addresses {
    pub(crate) fn new(networks: &[Network]) -> Self {
        let v4 = networks.iter().filter_map(|Network(net)| match net {
            IpNet::V4(net) => Some((bits4(net.network()), bits4(net.broadcast()))),
            IpNet::V6(_) => None,
        });
        let v6 = networks.iter().filter_map(|Network(net)| match net {
            IpNet::V6(net) => Some((bits6(net.network()), bits6(net.broadcast()))),
            IpNet::V4(_) => None,
        });
        Self {
            v4: Intervals::new(v4),
            v6: Intervals::new(v6),
        }
    }

    /// Whether the set contains an address. An IPv4 address within IPv6 (RFC 4291, section 2.5.5.2)
    /// is an IPv4 address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(v4) => self.v4.contains(bits4(v4)),
            IpAddr::V6(v6) => self.v6.contains(bits6(v6)),
        }
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.v4.covers(&other.v4) && self.v6.covers(&other.v6)
    }
}

fn bits4(address: Ipv4Addr) -> u128 {
    u128::from(u32::from(address))
}

fn bits6(address: Ipv6Addr) -> u128 {
    u128::from(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranges_and_names() {
        assert_eq!(Ports::from_text("8000-8999").unwrap().0, (8000, 8999));
        assert_eq!(Ports::from_number(443).unwrap().0, (443, 443));
        for bad in ["0", "65536", "9-8", "-1", "1-", "+7", "", "a", "1-2-3"] {
            assert!(Ports::from_text(bad).is_err(), "{bad}");
        }
        assert!(Ports::from_number(-1).is_err());
        assert!(Ports::from_number(0).is_err());
        assert!(Uids::from_number(0).is_ok(), "root");
        assert!(Uids::from_number(0xffff_ffff).is_err(), "no user");
        assert_eq!(Dscp::from_text("af41").unwrap().0, (34, 34));
        assert_eq!(Dscp::from_text("46").unwrap().0, (46, 46));
        assert!(Dscp::from_text("AF44").is_err());
        assert!(Dscp::from_number(64).is_err());
    }

    #[test]
    fn limits_of_the_battery() {
        assert_eq!(Levels::from_text("< 20%").unwrap().0, (0, 19));
        assert_eq!(Levels::from_text("<1%").unwrap().0, (0, 0));
        assert_eq!(Levels::from_text(">= 20%").unwrap().0, (20, 100));
        for bad in [
            "<0%", ">=0%", "<= 20%", "> 20%", "20%", "< 101%", "< 20", "<",
        ] {
            assert!(Levels::from_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn networks_are_written_exactly() {
        let error = |text: &str| Network::from_text(text).unwrap_err();
        assert!(error("192.0.2.1/24").contains("write \"192.0.2.0/24\""));
        assert!(error("::ffff:192.0.2.1").contains("IPv4"));
        assert!(error("192.0.2").contains("is not an address"));
        let set = Addresses::new(&[Network::from_text("192.0.2.0/24").unwrap()]);
        for (address, inside) in [
            ("192.0.2.0", true),
            ("192.0.2.255", true),
            ("::ffff:192.0.2.7", true),
            ("192.0.3.0", false),
            ("::c000:207", false),
        ] {
            assert_eq!(set.contains(address.parse().unwrap()), inside, "{address}");
        }
        let all6 = Addresses::new(&[Network::from_text("::/0").unwrap()]);
        assert!(!all6.contains("::ffff:192.0.2.7".parse().unwrap()), "IPv4");
        assert!(all6.contains("2001:db8::1".parse().unwrap()));
    }

    proptest::proptest! {
        #[test]
        fn a_set_contains_its_intervals_and_nothing_else(
            intervals in proptest::collection::vec((0_u128..60, 0_u128..10), 0..8),
            others in proptest::collection::vec((0_u128..60, 0_u128..10), 0..8),
        ) {
            let whole = |list: &[(u128, u128)]| -> Vec<(u128, u128)> {
                list.iter().map(|(low, length)| (*low, low + length)).collect()
            };
            let (list, others) = (whole(&intervals), whole(&others));
            let within = |list: &[(u128, u128)], n| list.iter().any(|i| (i.0..=i.1).contains(&n));
            let (set, other) = (Intervals::new(list.clone()), Intervals::new(others.clone()));
            for n in 0..80 {
                proptest::prop_assert_eq!(set.contains(n), within(&list, n));
            }
            let covers = (0..80).all(|n| !within(&others, n) || within(&list, n));
            proptest::prop_assert_eq!(set.covers(&other), covers);
        }
    }
}
