//! Source addresses of intercepted connections.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use mpbond_intercept::rules::RulesConfig;
use socket2::{Domain, Socket, Type};

use crate::{LIMIT, SITE, SITE_V6, ask, ask_udp, sh};

/// The address of an intercepted connection of a socket that is bound to this one, if any.
fn of(to: &str, from: Option<SocketAddr>) -> String {
    let addr: SocketAddr = to.parse().unwrap();
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
    if let Some(from) = from {
        socket.bind(&from.into()).unwrap();
    }
    socket.connect_timeout(&addr.into(), LIMIT).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut word = String::new();
    stream.read_to_string(&mut word).unwrap();
    assert_eq!(word, to);
    stream.local_addr().unwrap().ip().to_string()
}

/// Connections have the address of the interface, unless their sockets are bound to another one,
/// and need no link.
pub fn of_the_interface(config: &RulesConfig) {
    let sites = [
        (SITE, "198.18.109.112", "10.9.0.1:0"),
        (SITE_V6, "fd6d:7062:6f6e:64::1", "[2001:db8:9::1]:0"),
    ];
    for (site, own, link) in sites {
        let link: SocketAddr = link.parse().unwrap();
        assert_eq!(of(site, None), own);
        assert_eq!(of(site, Some(link)), link.ip().to_string());
    }
    // Strict filters of source addresses.
    sh("for f in all default lo lan0; do echo 1 > /proc/sys/net/ipv4/conf/$f/rp_filter; done");
    assert_eq!(ask(SITE, 0), SITE);
    sh("ip link set lan0 down");
    for (site, own, _) in sites {
        assert_eq!(of(site, None), own);
        // The daemon's own sockets have the routes of the system: none.
        assert_ne!(ask(site, config.own_mark), site);
    }
    for addr in ["9.9.9.9:53", "10.9.0.3:53", "[2001:db8:53::1]:53"] {
        assert_eq!(ask_udp(addr), "stub", "{addr}");
    }
    // UDP of other kinds does not get the interface's address.
    for addr in ["198.51.100.1:4000", "[2001:db8:5::1]:4000"] {
        assert!(unreachable(addr), "{addr}");
    }
    sh("ip link set lan0 up
        ip addr replace 2001:db8:9::1/64 dev lan0 nodad
        ip route add default via 10.9.0.2
        ip -6 route add default via 2001:db8:9::2");
}

fn unreachable(addr: &str) -> bool {
    let any = match addr.starts_with('[') {
        true => "[::]:0",
        false => "0.0.0.0:0",
    };
    let connected = UdpSocket::bind(any).unwrap().connect(addr);
    connected.is_err_and(|e| e.kind() == ErrorKind::NetworkUnreachable)
}
