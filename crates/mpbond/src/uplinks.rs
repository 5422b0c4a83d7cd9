//! Own links to the Internet: interfaces with a default route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;

use crate::{addresses, link_problem};

/// Flag of routes that refuse (linux/route.h, RTF_REJECT).
const REJECT: u32 = 0x200;

/// An interface with a default route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Name of the interface.
    pub interface: String,
    /// Routers of its default routes.
    pub gateways: Vec<IpAddr>,
}

/// The interfaces with a default route, the preferred one first, IPv4 before IPv6.
pub fn uplinks() -> Vec<Uplink> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    of_routes(&read("/proc/net/route"), &read("/proc/net/ipv6_route"))
}

impl Uplink {
    /// Whether it is a link of this device that can carry packets now, and no tunnel over another.
    pub fn is_usable(&self) -> bool {
        let folder = Path::new("/sys/class/net").join(&self.interface);
        let kind = std::fs::read_to_string(folder.join("uevent")).unwrap_or_default();
        let is_tunnel =
            folder.join("tun_flags").exists() || kind.lines().any(|l| l == "DEVTYPE=wireguard");
        !is_tunnel && link_problem::link_problem(Some(&self.interface), None).is_none()
    }
}

/// The interface through which this address is reached, as routes say; none for own addresses.
pub fn interface_towards(ip: IpAddr) -> Option<String> {
    if ip.is_loopback() {
        return None;
    }
    let own = source_towards(ip)?;
    let interface = addresses::interface_of(own)?;
    (own != ip).then_some(interface)
}

/// The own address that the kernel chooses for packets to this one.
pub(crate) fn source_towards(ip: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // No packet is sent.
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((ip, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn of_routes(ipv4: &str, ipv6: &str) -> Vec<Uplink> {
    let mut routes: Vec<(bool, u32, &str, Option<IpAddr>)> = Vec::new();
    routes.extend(ipv4.lines().skip(1).filter_map(ipv4_default));
    routes.extend(ipv6.lines().filter_map(ipv6_default));
    routes.sort_unstable();
    let mut found: Vec<Uplink> = Vec::new();
    for (_, _, interface, gateway) in routes {
        match found.iter_mut().find(|u| u.interface == interface) {
            Some(known) => known.gateways.extend(gateway),
            None => found.push(Uplink {
                interface: interface.to_owned(),
                gateways: gateway.into_iter().collect(),
            }),
        }
    }
    found
}

/// Family, metric, interface and router of a line of /proc/net/route, if it is a default route.
fn ipv4_default(line: &str) -> Option<(bool, u32, &str, Option<IpAddr>)> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [
        interface,
        destination,
        gateway,
        flags,
        _,
        _,
        metric,
        mask,
        ..,
    ] = columns[..]
    else {
        return None;
    };
    if destination != "00000000" || mask != "00000000" || is_refusal(flags) {
        return None;
    }
    // In the machine's byte order.
    let gateway = u32::from_str_radix(gateway, 16).ok()?.to_ne_bytes();
    let gateway = IpAddr::from(gateway);
    let gateway = (!gateway.is_unspecified()).then_some(gateway);
    Some((false, metric.parse().ok()?, interface, gateway))
}

/// The same of /proc/net/ipv6_route.
fn ipv6_default(line: &str) -> Option<(bool, u32, &str, Option<IpAddr>)> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [_, length, _, _, gateway, metric, _, _, flags, interface] = columns[..] else {
        return None;
    };
    if length != "00" || is_refusal(flags) {
        return None;
    }
    let gateway = IpAddr::from(u128::from_str_radix(gateway, 16).ok()?.to_be_bytes());
    let gateway = (!gateway.is_unspecified()).then_some(gateway);
    Some((
        true,
        u32::from_str_radix(metric, 16).ok()?,
        interface,
        gateway,
    ))
}

fn is_refusal(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & REJECT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_found_by_preference() {
        let ipv4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                    wwan0\t00000000\t0100000A\t0003\t0\t0\t700\t00000000\t0\t0\t0\n\
                    wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
                    wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n";
        let zero = "0".repeat(32);
        let ipv6 = format!(
            "{zero} 00 {zero} 00 fd000000000000000000000000000001 00000400 1 0 00000003     usb0\n\
             {zero} 00 {zero} 00 fd000000000000000000000000000002 00000100 1 0 00000003    wlan0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200       lo\n"
        );
        let found = of_routes(ipv4, &ipv6);
        let names: Vec<&str> = found.iter().map(|u| u.interface.as_str()).collect();
        assert_eq!(names, ["wlan0", "wwan0", "usb0"]);
        if cfg!(target_endian = "little") {
            let gateways: Vec<String> = found[0].gateways.iter().map(IpAddr::to_string).collect();
            assert_eq!(gateways, ["192.168.1.1", "fd00::2"]);
        }
        assert!(of_routes("", "").is_empty());
        assert!(of_routes("x\ny z\n", "a b\n").is_empty());
    }

    #[test]
    fn own_addresses_are_reached_through_no_link() {
        assert_eq!(interface_towards("127.0.0.1".parse().unwrap()), None);
        assert_eq!(interface_towards("::1".parse().unwrap()), None);
    }
}
