//! Two hosts on one link: a veth pair between two network namespaces, with an MTU of 1500.

use std::net::{IpAddr, Ipv4Addr};

use crate::error::Result;
use crate::host::Host;
use crate::wiring::{address_on, wire};

/// Address of the near host.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Address of the far host.
pub(crate) const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));
const PREFIX: u8 = 24;

/// Two hosts on one link, which vanish with it.
pub(crate) struct Cable {
    pub(crate) near: Host,
    /// The host with the address [`FAR`].
    pub(crate) far: Host,
}

impl Cable {
    /// Makes both hosts.
    ///
    /// # Errors
    /// When the caller may not create network namespaces.
    pub(crate) fn new() -> Result<Self> {
        let (near, far) = (Host::new("near")?, Host::new("far")?);
        for host in [&near, &far] {
            host.refuse_ipv6();
        }
        wire(&near, &far, "near", "far")?;
        address_on(&near, "near", NEAR.into(), PREFIX)?;
        address_on(&far, "far", FAR, PREFIX)?;
        Ok(Self { near, far })
    }
}
