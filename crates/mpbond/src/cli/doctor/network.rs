//! This machine's network beside the paths: name servers, and address families of a proxy.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::finding::Findings;

/// Time for which an answer of a name server is waited for, and number of attempts.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_500);
const ATTEMPTS: usize = 2;

/// Maximum number of name servers that a C library asks (resolv.conf(5)).
const MAX_SERVERS: usize = 3;

const DNS_PORT: u16 = 53;

/// A query for the name servers of the root (RFC 1035, section 4.1): id 0x6d70, recursion desired,
/// one question.
const QUERY: [u8; 17] = [
    0x6d, 0x70, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1,
];

/// An address of each family that only a default route leads to (RFC 5737; RFC 3849).
const FAR: [(&str, IpAddr); 2] = [
    ("IPv4", IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    (
        "IPv6",
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ),
];

/// Checks that the name servers of this machine answer.
pub(super) fn resolvers(findings: &mut Findings) {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = name_servers(&text);
    if servers.is_empty() {
        return findings.warn(
            "names",
            "/etc/resolv.conf names no name server",
            "connect the network as usual, or write `nameserver ADDRESS` there",
        );
    }
    let answers: Vec<bool> = std::thread::scope(|scope| {
        let asked: Vec<_> = servers
            .iter()
            .map(|s| scope.spawn(|| answers(*s)))
            .collect();
        let ended = asked.into_iter().map(|a| a.join().unwrap_or(false));
        ended.collect()
    });
    for (server, answers) in servers.iter().zip(&answers) {
        let ip = server.ip();
        if *answers {
            findings.ok("names", format!("the name server {ip} answers"));
        } else {
            findings.warn(
                "names",
                format!("the name server {ip} does not answer"),
                match servers.len() {
                    1 => {
                        "names cannot be looked up here: is it right in /etc/resolv.conf, and \
                          reached?"
                    }
                    _ => "look-ups wait for it: is it right in /etc/resolv.conf, and reached?",
                },
            );
        }
    }
}

fn name_servers(text: &str) -> Vec<SocketAddr> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let ip = words.next().filter(|_| is_server)?;
        Some(SocketAddr::new(ip.parse().ok()?, DNS_PORT))
    });
    lines.take(MAX_SERVERS).collect()
}

/// Whether a name server answers at all.
fn answers(server: SocketAddr) -> bool {
    let ask = || -> io::Result<bool> {
        let socket = unbound(server.ip())?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        socket.connect(server)?;
        socket.send(&QUERY)?;
        let mut answer = [0; 512];
        let octets = socket.recv(&mut answer)?;
        Ok(octets >= 12 && answer.starts_with(&QUERY[..2]))
    };
    (0..ATTEMPTS).any(|_| ask().unwrap_or(false))
}

fn unbound(to: IpAddr) -> io::Result<UdpSocket> {
    match to {
        IpAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }
}

/// Checks in which address families a proxy reaches the Internet. No packet is sent.
pub(super) fn families(findings: &mut Findings) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_read_and_a_dead_one_is_told() {
        let text = "# mine\nsearch lan\nnameserver 10.0.0.1\nnameserver fd00::53\nnameserver x\n";
        let servers = name_servers(text);
        assert_eq!(
            servers,
            ["10.0.0.1:53", "[fd00::53]:53"].map(|s| s.parse().unwrap())
        );
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let alive = socket.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut query = [0; 64];
            let (octets, from) = socket.recv_from(&mut query).unwrap();
            assert_eq!(query[..octets], QUERY);
            socket.send_to(&query[..12], from).unwrap();
        });
        assert!(answers(alive));
        server.join().unwrap();
        // Its socket is closed.
        assert!(!answers(alive));
    }
}
