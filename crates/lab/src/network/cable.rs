//! Two hosts on one link: a veth pair between two network namespaces, with an MTU of 1500.

use std::net::{IpAddr, Ipv4Addr};

use crate::error::Result;
use crate::network::host::Host;
use crate::network::wiring::{address_on, bring_up_loopback, send_single_packets, wire};

/// Address of the near host.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Address of the far host.
pub(crate) const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));
const PREFIX: u8 = 24;

/// Units in which TCP passes through a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Units {
    /// Up to 64 KiB: the cable has segmentation offload.
    Large,
    /// Packets, as over radios without offloads.
    Packets,
}

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
    pub(crate) fn new(units: Units) -> Result<Self> {
        let (near, far) = (Host::new("near")?, Host::new("far")?);
        for host in [&near, &far] {
            host.refuse_ipv6();
        }
        wire(&near, &far, "near", "far")?;
        address_on(&near, "near", NEAR.into(), PREFIX)?;
        address_on(&far, "far", FAR, PREFIX)?;
        // Between a relay and a receiver at the far host.
        bring_up_loopback(&far)?;
        if units == Units::Packets {
            send_single_packets(&near, "near")?;
            send_single_packets(&far, "far")?;
        }
        Ok(Self { near, far })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use mpbond_testing::namespaces::{is_called_for, play};

    use super::*;
    use crate::network::wiring::counters;

    /// Number of units in which one megabyte arrives by TCP.
    fn units_of_a_megabyte(cable: &Cable) -> u64 {
        let before = cable.far.enter(|| counters("far")).unwrap().unwrap();
        let at = SocketAddr::new(FAR, 5000);
        let listener = cable.far.enter(|| TcpListener::bind(at)).unwrap().unwrap();
        let sent = std::thread::scope(|scope| {
            let near = || {
                cable
                    .near
                    .enter(|| TcpStream::connect(at)?.write_all(&[7; 1_000_000]))
            };
            let sender = scope.spawn(near);
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            sender.join().unwrap().unwrap().unwrap();
            all.len()
        });
        assert_eq!(sent, 1_000_000);
        let after = cable.far.enter(|| counters("far")).unwrap().unwrap();
        after.received_packets - before.received_packets
    }

    #[test]
    fn tcp_passes_in_large_units_or_in_packets_of_1500_bytes() {
        play("-Urn", "network::cable::tests::role_of_units");
    }

    #[test]
    #[ignore = "run by the test above"]
    fn role_of_units() {
        if !is_called_for() {
            return;
        }
        let units = |units| units_of_a_megabyte(&Cable::new(units).unwrap());
        // 1448 bytes in each packet.
        let packets = units(Units::Packets);
        assert!(packets >= 691, "{packets}");
        let large = units(Units::Large);
        assert!(large < 345, "{large}");
    }
}
