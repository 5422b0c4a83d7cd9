//! Identification of the device's own end of a captured packet.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mpbond_radio::Direction;

use crate::network::{Flow, Network};

/// Addresses of the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Local {
    addresses: Vec<IpAddr>,
}

impl Local {
    pub(super) fn given(addresses: &[IpAddr]) -> Self {
        Self {
            addresses: addresses.to_vec(),
        }
    }

    /// For each address family, the address that most of these packets come from or go to; among
    /// equals a private one, then the one seen first.
    pub(super) fn guess<'a>(flows: impl Iterator<Item = &'a Flow>) -> Self {
        let mut seen: BTreeMap<IpAddr, (usize, usize)> = BTreeMap::new();
        for (i, flow) in flows.filter(|flow| !is_within_host(flow)).enumerate() {
            for address in [flow.source, flow.destination] {
                if !address.is_multicast() && !is_broadcast(address) && !address.is_unspecified() {
                    seen.entry(address).or_insert((0, i)).0 += 1;
                }
            }
        }
        let best = |v6: bool| {
            seen.iter()
                .filter(|(address, _)| address.is_ipv6() == v6)
                .max_by_key(|(address, (count, first))| {
                    (*count, is_private(**address), std::cmp::Reverse(*first))
                })
                .map(|(address, _)| *address)
        };
        Self {
            addresses: [best(false), best(true)].into_iter().flatten().collect(),
        }
    }

    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Direction of a packet; `None` when neither end is the device, or both are: then it passes
    /// no radio.
    pub(super) fn direction(&self, packet: &Network<'_>) -> Option<Direction> {
        if packet.loopback || packet.flow.as_ref().is_some_and(is_within_host) {
            return None;
        }
        if let Some(outgoing) = packet.outgoing {
            return Some(if outgoing {
                Direction::Up
            } else {
                Direction::Down
            });
        }
        let flow = packet.flow?;
        if self.addresses.contains(&flow.source) {
            Some(Direction::Up)
        } else if self.addresses.contains(&flow.destination)
            || flow.destination.is_multicast()
            || is_broadcast(flow.destination)
        {
            Some(Direction::Down)
        } else {
            None
        }
    }
}

/// Whether both ends are the same host. Captures of all interfaces have such packets.
fn is_within_host(flow: &Flow) -> bool {
    flow.source == flow.destination || flow.source.is_loopback() || flow.destination.is_loopback()
}

fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_broadcast())
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: &str, destination: &str) -> Flow {
        Flow {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: 6,
            source_port: 0,
            destination_port: 0,
        }
    }

    #[test]
    fn the_commonest_address_is_the_device() {
        let flows = [
            flow("198.51.100.1", "192.0.2.7"),
            flow("192.0.2.7", "203.0.113.1"),
            flow("192.0.2.9", "224.0.0.251"),
            flow("fe80::1", "ff02::1"),
        ];
        let local = Local::guess(flows.iter());
        let expect: Vec<IpAddr> = vec!["192.0.2.7".parse().unwrap(), "fe80::1".parse().unwrap()];
        assert_eq!(local.addresses(), expect);
        // One flow alone: the private end.
        let local = Local::guess([flow("198.51.100.1", "10.0.0.2")].iter());
        assert_eq!(local.addresses(), ["10.0.0.2".parse::<IpAddr>().unwrap()]);
        // Neither private: the one that spoke first, which sorts lower here.
        assert_eq!(Local::guess([].iter()).addresses().len(), 0);
    }
}
