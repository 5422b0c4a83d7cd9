//! Address families in which this machine reaches the Internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use mpbond_session::Families;
use socket2::SockRef;

/// An address of each family that only a default route leads to (RFC 5737; RFC 3849).
const FAR: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9),
    SocketAddr::new(
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        9,
    ),
];

/// The families that sockets with this mark have a route for now; `None` when there is none, as in
/// a network without a way out.
pub fn routed(mark: Option<u32>) -> Option<Families> {
    let [ipv4, ipv6] = FAR.map(|to| has_route(to, mark));
    (ipv4 || ipv6).then_some(Families { ipv4, ipv6 })
}

/// Connecting a UDP socket sends nothing: the kernel looks for a route and a source address.
fn has_route(to: SocketAddr, mark: Option<u32>) -> bool {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let marked = |socket: &UdpSocket| match mark {
        Some(mark) => SockRef::from(socket).set_mark(mark).is_ok(),
        None => true,
    };
    UdpSocket::bind(any).is_ok_and(|socket| marked(&socket) && socket.connect(to).is_ok())
}
