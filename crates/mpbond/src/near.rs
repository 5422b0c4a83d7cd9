//! Interface by which the other end of a connection is directly connected.
//!
//! A helper binds connections to it: without a binding, the packets for a primary whose link is set
//! down follow the default route, into another network. Pipes over Ethernet frames run on it.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use mpbond_net::tcp::TcpInfo;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use socket2::SockRef;
use tokio::net::TcpStream;
use tracing::debug;

use crate::addresses;
use crate::uplinks::source_towards;

/// Octets of the headers of IPv4 and TCP without options: fewer than any packet has.
const HEADER_BYTES: u64 = 40;

/// Interface for Ethernet frames to the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Its name.
    pub(crate) interface: String,
    /// Octets that pass in one frame, as far as the connection's segments show.
    pub(crate) mtu: u16,
}

/// An own address with its network.
struct Own {
    interface: String,
    address: IpAddr,
    network: IpNet,
}

/// Binds a connection to the interface of its peer's network (SO_BINDTODEVICE, without a privilege
/// since Linux 5.7), if there is one such interface and the connection has its address. A
/// connection through a router, or of a VRF, stays as it is: its route may change.
pub(crate) fn keep(tcp: &TcpStream, peer: SocketAddr) {
    let socket = SockRef::from(tcp);
    let Ok(None) = socket.device() else { return };
    let Some(interface) = interface_of(tcp, peer) else {
        return;
    };
    match socket.bind_device(Some(interface.as_bytes())) {
        Ok(()) => debug!(%peer, interface, "bound to the interface of its network"),
        Err(error) => debug!(%peer, interface, %error, "not bound to an interface"),
    }
}

/// The interface and the MTU for Ethernet frames to the other end, if it is directly connected.
pub(crate) fn wire(tcp: &TcpStream) -> Option<Wire> {
    let interface = interface_of(tcp, tcp.peer_addr().ok()?)?;
    let segment = TcpInfo::read(tcp).ok()?.mss_bytes;
    let mtu = u16::try_from(segment + HEADER_BYTES).ok()?;
    Some(Wire { interface, mtu })
}

fn interface_of(tcp: &TcpStream, peer: SocketAddr) -> Option<String> {
    let (local, own) = (tcp.local_addr().ok()?, getifaddrs().ok()?);
    let own: Vec<Own> = own.filter_map(|entry| Own::of(&entry)).collect();
    let (local, peer) = (local.ip().to_canonical(), peer.ip().to_canonical());
    interface(&own, local, peer, source_towards(peer)).map(str::to_owned)
}

/// The interface that connects a local address with a peer's. `source` is the own address that
/// the kernel chooses for packets to the peer.
fn interface(own: &[Own], local: IpAddr, peer: IpAddr, source: Option<IpAddr>) -> Option<&str> {
    if own.iter().any(|o| o.address == peer) {
        return None;
    }
    let mut near = own.iter().filter(|o| o.network.contains(&peer));
    let interface = near.next()?.interface.as_str();
    // Where several are connected with one network, packets arrive at any of them.
    if near.any(|o| o.interface != interface) {
        return None;
    }
    let has = |address| {
        let mut own = own.iter().filter(|o| o.interface == interface);
        own.any(|o| o.address == address)
    };
    (has(local) && has(source?)).then_some(interface)
}

impl Own {
    fn of(entry: &InterfaceAddress) -> Option<Self> {
        let address = addresses::of(entry)?;
        let mask = entry.netmask.as_ref()?;
        let mask = match address {
            IpAddr::V4(_) => IpAddr::V4(mask.as_sockaddr_in()?.ip()),
            IpAddr::V6(_) => IpAddr::V6(mask.as_sockaddr_in6()?.ip()),
        };
        Some(Self {
            interface: entry.interface_name.clone(),
            address,
            network: IpNet::with_netmask(address, mask).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(list: &[(&str, &str)]) -> Vec<Own> {
        let own = |(interface, network): &(&str, &str)| {
            let network: IpNet = network.parse().unwrap();
            Own {
                interface: (*interface).to_owned(),
                address: network.addr(),
                network,
            }
        };
        list.iter().map(own).collect()
    }

    /// As the kernel chooses the source when both ways are the same.
    fn symmetric<'a>(own: &'a [Own], local: &str, peer: &str) -> Option<&'a str> {
        let local = local.parse().unwrap();
        interface(own, local, peer.parse().unwrap(), Some(local))
    }

    const LAPTOP: &[(&str, &str)] = &[
        ("lo", "127.0.0.1/8"),
        ("wlan0", "192.168.1.2/24"),
        ("usb0", "192.168.42.1/24"),
        ("usb0", "192.168.42.9/24"),
        ("wlan0", "2001:db8::2/64"),
    ];

    #[test]
    fn a_peer_of_one_connected_network_is_bound() {
        let own = own(LAPTOP);
        for (local, peer, expected) in [
            ("192.168.42.1", "192.168.42.7", Some("usb0")),
            ("192.168.1.2", "192.168.1.3", Some("wlan0")),
            ("2001:db8::2", "2001:db8::3", Some("wlan0")),
            // Behind a router; of this host; at the address of another interface.
            ("192.168.1.2", "203.0.113.1", None),
            ("192.168.1.2", "192.168.1.2", None),
            ("127.0.0.1", "127.0.0.1", None),
            ("192.168.1.2", "192.168.42.7", None),
        ] {
            assert_eq!(symmetric(&own, local, peer), expected, "{local} {peer}");
        }
    }

    #[test]
    fn a_peer_that_is_answered_by_another_way_is_not_bound() {
        let own = own(LAPTOP);
        let [local, peer] = ["192.168.42.1", "192.168.42.7"].map(|a| a.parse().unwrap());
        let by = |source: Option<&str>| {
            let source = source.map(|a| a.parse().unwrap());
            interface(&own, local, peer, source)
        };
        assert_eq!(by(Some("192.168.42.9")), Some("usb0"));
        assert_eq!(by(Some("192.168.1.2")), None);
        assert_eq!(by(None), None);
    }

    #[test]
    fn a_network_of_two_interfaces_binds_to_neither() {
        for second in ["192.168.1.5/24", "192.168.1.2/24"] {
            let own = own(&[("wlan0", "192.168.1.2/24"), ("eth0", second)]);
            assert_eq!(symmetric(&own, "192.168.1.2", "192.168.1.3"), None);
        }
        // An address of its own on the loopback interface is no network.
        let own = own(&[("eth0", "192.168.1.2/24"), ("lo", "192.168.1.2/32")]);
        let bound = symmetric(&own, "192.168.1.2", "192.168.1.3");
        assert_eq!(bound, Some("eth0"));
    }
}
