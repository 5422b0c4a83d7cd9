//! Address families of interception, each with the address of the [interface](super::interface).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::config::{Ipv6, RulesConfig};

/// Addresses of the interface, in networks that are not used on the Internet: for benchmarks (RFC
/// 2544, appendix C.2.2), with "mp" in ASCII, and unique local (RFC 4193), with "mpbond".
const V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0x6d, 0x70);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd6d, 0x7062, 0x6f6e, 0x64, 0, 0, 0, 1);

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The families of intercepted traffic.
    pub(super) fn intercepted(config: &RulesConfig) -> &'static [Self] {
        match config.ipv6 {
            Ipv6::Intercept => &Self::BOTH,
            Ipv6::Reject => &[Self::V4],
        }
    }

    /// Option of `ip`.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// The interface's address.
    pub(super) fn address(self) -> IpAddr {
        match self {
            Self::V4 => V4.into(),
            Self::V6 => V6.into(),
        }
    }

    /// Whether a network is of this family.
    pub(super) fn has(self, net: &IpNet) -> bool {
        matches!(
            (self, net),
            (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_))
        )
    }
}
