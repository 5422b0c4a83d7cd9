//! Address families in which this machine reaches the Internet.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use super::finding::Findings;

/// An address of each family that only a default route leads to (RFC 5737; RFC 3849).
const FAR: [(&str, IpAddr); 2] = [
    ("IPv4", IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    (
        "IPv6",
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ),
];

fn unbound(to: IpAddr) -> io::Result<UdpSocket> {
    match to {
        IpAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }
}

/// Checks in which address families a proxy reaches the Internet. No packet is sent.
pub(super) fn check(findings: &mut Findings) {
    let has_route = |ip: IpAddr| unbound(ip).is_ok_and(|socket| socket.connect((ip, 9)).is_ok());
    for (family, ip) in FAR {
        if has_route(ip) {
            findings.ok("families", format!("{family} has a route"));
        } else {
            findings.warn(
                "families",
                format!("no route for {family}: connections to such addresses are refused"),
                "give this server an address of that family, if its network has it; otherwise \
                 there is nothing to do",
            );
        }
    }
}
