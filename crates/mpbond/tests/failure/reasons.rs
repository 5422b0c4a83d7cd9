//! Reasons for which a proxy does not reach a destination, as clients of each protocol get them: by
//! SOCKS5, SOCKS 4 and 4A, and as an HTTP proxy. In namespaces of the test's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use crate::daemons::{Bond, Ways};
use mpbond_testing::has_nft;
use mpbond_testing::names::{serve, with_resolv_conf};
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// More than a proxy needs for a name that no resolver answers, or an address that is silent.
const LONG: Duration = Duration::from_secs(60);

/// The proxy's resolver and the site `site.test`, at the same address.
const HERE: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);

/// A site of the proxy's own host, to which a name leads.
const FORBIDDEN: Ipv4Addr = Ipv4Addr::LOCALHOST;

#[test]
fn clients_get_the_reason_in_their_protocol_by_socks5_socks4_and_http() {
    if has_nft() {
        play("-Urnm", "reasons::role");
    }
}

/// Answers that a name exists or not, or nothing at all.
fn resolver() {
    serve(HERE, |query| match query.name().as_str() {
        "silent.test" => None,
        "inside.test" => Some(query.answer(&[FORBIDDEN.into()])),
        "unknown.test" => Some(query.no_such_name()),
        _ => Some(query.answer(&[HERE.into()])),
    });
}

fn site(at: Ipv4Addr) {
    let listener = TcpListener::bind((at, 80)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 1_024]);
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
            });
        }
    });
}

/// What the front answers to these octets, until it closes.
fn ask(front: std::net::SocketAddr, octets: &[u8]) -> Vec<u8> {
    let mut s = TcpStream::connect(front).unwrap();
    s.set_read_timeout(Some(LONG)).unwrap();
    s.write_all(octets).unwrap();
    let mut answer = Vec::new();
    s.read_to_end(&mut answer).unwrap();
    answer
}

/// Requests for this host; the early data is a request to the site.
fn by_socks5(bond: &Bond, host: &str) -> Vec<u8> {
    let head = [5, 1, 0, 5, 1, 0, 3, host.len() as u8];
    let request = [&head[..], host.as_bytes(), &[0, 80], b"GET /\r\n"].concat();
    // Without the choice of the method.
    ask(bond.socks5, &request)[2..].to_vec()
}

fn by_socks4(bond: &Bond, host: &str) -> Vec<u8> {
    let head = [4, 1, 0, 80];
    let request = match host.parse::<Ipv4Addr>() {
        Ok(ip) => [&head[..], &ip.octets(), b"me\0GET /\r\n"].concat(),
        Err(_) => [&head[..], &[0, 0, 0, 1, 0], host.as_bytes(), b"\0GET /\r\n"].concat(),
    };
    ask(bond.socks5, &request)
}

fn http_requests(host: &str) -> [String; 2] {
    [
        format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("CONNECT {host}:80 HTTP/1.1\r\nHost: {host}\r\n\r\nGET /\r\n"),
    ]
}

fn by_http(bond: &Bond, request: &str) -> String {
    String::from_utf8(ask(bond.http, request.as_bytes())).unwrap()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let bond = Bond::new(Ways::Own, "", "");
    // 11.0.0.7 has no route, and 11.0.0.8 is silent. At 11.0.0.9 nothing listens.
    sh(&format!(
        "ip link set lo up
         for last in 1 8 9; do ip addr add 11.0.0.$last/32 dev lo; done
         ip route add unreachable 11.0.0.7/32
         nft add table ip silence
         nft add chain ip silence input '{{ type filter hook input priority 0; }}'
         nft add rule ip silence input ip daddr 11.0.0.8 drop
         sed -i 's|127.0.0.0/8|11.0.0.0/8|' {}",
        bond.file("proxy.toml").display(),
    ));
    resolver();
    site(HERE);
    site(FORBIDDEN);
    let of_proxy = bond.file("resolv.conf");
    let text = format!("nameserver {HERE}\noptions timeout:1 attempts:1\n");
    std::fs::write(&of_proxy, text).unwrap();
    let _proxy = bond.start_by("proxy", &with_resolv_conf(&of_proxy));
    let _primary = bond.start("primary");
    bond.joined(1);

    for host in ["site.test", "11.0.0.1"] {
        let socks = [by_socks5(&bond, host), by_socks4(&bond, host)];
        let socks = socks.map(|answer| String::from_utf8_lossy(&answer).into_owned());
        let http = http_requests(host).map(|request| by_http(&bond, &request));
        for answer in socks.iter().chain(&http) {
            assert!(answer.ends_with("hello"), "{host}: {answer}");
        }
        assert_eq!(by_socks4(&bond, host)[..2], [0, 90], "{host}");
    }
    let (bad, slow) = ("502 Bad Gateway", "504 Gateway Timeout");
    let silent = "the destination did not answer in time";
    let unreachable = "the destination cannot be reached";
    let closed = "the destination refused the connection";
    let forbidden = "a rule forbids this destination";
    // Some take their time: side by side.
    std::thread::scope(|scope| {
        for (host, code, status, sentence) in [
            ("silent.test", 6, slow, silent),
            ("11.0.0.8", 6, slow, silent),
            ("unknown.test", 4, bad, "the name has no address"),
            ("11.0.0.7", 4, bad, unreachable),
            ("11.0.0.9", 5, bad, closed),
            ("192.0.2.1", 2, "403 Forbidden", forbidden),
            ("inside.test", 2, "403 Forbidden", forbidden),
        ] {
            let bond = &bond;
            scope.spawn(move || assert_eq!(by_socks5(bond, host)[..2], [5, code], "{host}"));
            let rejected = [0, 91, 0, 0, 0, 0, 0, 0];
            scope.spawn(move || assert_eq!(by_socks4(bond, host), rejected, "{host}"));
            for request in http_requests(host) {
                scope.spawn(move || {
                    let answer = by_http(bond, &request);
                    let first = answer.lines().next().unwrap();
                    assert_eq!(first, format!("HTTP/1.1 {status}"), "{request}: {answer}");
                    let last = answer.lines().last().unwrap();
                    assert!(last.ends_with(sentence), "{request}: {answer}");
                });
            }
        }
    });
}
