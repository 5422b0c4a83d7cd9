//! Names that nobody answers, and addresses that lead nowhere, in namespaces of the test's own with
//! a name server of its own.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond_net::Identity;

use crate::daemons::{Bond, Ways, is_pattern, origin, until};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{is_within, median};

/// Time that addresses which lead nowhere cost a connection. In turn, it would be ten seconds each.
const COST: Duration = Duration::from_millis(300);

/// Names whose median counts.
const NAMES: usize = 5;

/// Time to the first byte of another device. With a thread for each look-up it would be ten
/// seconds.
const FIRST_BYTE: Duration = Duration::from_secs(1);

#[test]
fn black_holed_addresses_cost_at_most_300_ms() {
    play("-Urnm", "names::black_hole");
}

#[test]
fn three_thousand_names_that_nobody_answers_do_not_delay_another_device() {
    play("-Urnm", "names::dead_names");
}

/// A name server for this namespace: names in `one.test` have the address 127.0.0.1, names in
/// `both.test` also four IPv6 addresses that lead nowhere; nobody answers for `dead.test`. Returns
/// the number of queries for these.
fn name_server() -> Arc<AtomicUsize> {
    sh("ip link set lo up
        ip link add hole type veth peer name far
        ip link set hole up
        ip link set far up
        ip addr add 2600:1::1/64 dev hole nodad
        for n in 10 11 12 13; do
            ip neigh add 2600:1::$n lladdr 02:00:00:00:00:01 dev hole nud permanent
        done
        echo 'nameserver 127.0.0.1' > /tmp/mpbond-resolv.$$
        mount --bind /tmp/mpbond-resolv.$$ /etc/resolv.conf
        rm /tmp/mpbond-resolv.$$");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).unwrap();
    let dead = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dead);
    thread::spawn(move || {
        let mut block = [0; 512];
        loop {
            let (n, from) = socket.recv_from(&mut block).unwrap();
            match answer(&block[..n], Ipv4Addr::LOCALHOST) {
                Some(text) => drop(socket.send_to(&text, from)),
                None => drop(count.fetch_add(1, SeqCst)),
            }
        }
    });
    dead
}

/// The answer to a query (RFC 1035, section 4); `one` is the IPv4 address of all names.
pub fn answer(query: &[u8], one: Ipv4Addr) -> Option<Vec<u8>> {
    let mut end = 12;
    let mut labels = Vec::new();
    while query[end] != 0 {
        let next = end + 1 + usize::from(query[end]);
        labels.push(std::str::from_utf8(&query[end + 1..next]).unwrap());
        end = next;
    }
    let domain = labels[labels.len().saturating_sub(2)..].join(".");
    if domain == "dead.test" {
        return None;
    }
    let question = &query[12..end + 5];
    let is_v6 = query[end + 2] == 28;
    let addresses: Vec<IpAddr> = match (domain.as_str(), is_v6) {
        ("one.test" | "both.test", false) => vec![one.into()],
        ("both.test", true) => {
            let hole = |n: u16| [0x2600, 1, 0, 0, 0, 0, 0, n].into();
            (0x10..0x14).map(hole).collect()
        }
        _ => Vec::new(),
    };
    let count = addresses.len() as u8;
    let mut text = [&query[..2], &[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]].concat();
    text.extend_from_slice(question);
    for address in addresses {
        // Name, type and class of the question; 60 s.
        text.extend_from_slice(&[0xc0, 12, 0, query[end + 2], 0, 1, 0, 0, 0, 60]);
        let octets = match address {
            IpAddr::V4(a) => a.octets().to_vec(),
            IpAddr::V6(a) => a.octets().to_vec(),
        };
        text.extend_from_slice(&[0, octets.len() as u8]);
        text.extend_from_slice(&octets);
    }
    Some(text)
}

/// The time until the first bytes from an origin with this name.
fn first_byte(bond: &Bond, host: &str, origin: SocketAddr) -> Duration {
    let start = Instant::now();
    let mut s = bond.connect_to_name(host, origin.port()).unwrap();
    let mut got = [0; 1_000];
    s.write_all(&1_000_u32.to_be_bytes()).unwrap();
    s.read_exact(&mut got).unwrap();
    assert!(is_pattern(0, &got));
    start.elapsed()
}

/// Asks for a connection to a name, and does not wait for the reply.
fn ask(bond: &Bond, host: &str) -> TcpStream {
    let mut s = TcpStream::connect(bond.socks5).unwrap();
    let request = [&[5, 1, 0, 3, host.len() as u8], host.as_bytes(), &[0, 80]].concat();
    s.write_all(&[&[5, 1, 0], &request[..]].concat()).unwrap();
    s
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn black_hole() {
    if !is_called_for() {
        return;
    }
    name_server();
    let origin = origin();
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"direct\"", "");
    let proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    costs("at the proxy", &bond, origin);
    proxy.kill();
    until("connections go direct", || {
        let status = bond.status("primary");
        status.is_some_and(|s| s.notes.iter().any(|n| n.contains("direct")))
    });
    costs("direct", &bond, origin);
}

/// What four addresses that lead nowhere cost a connection, beyond the time of one that works.
fn costs(how: &str, bond: &Bond, origin: SocketAddr) {
    let mut names = 0..;
    is_within(&format!("black-holed addresses, {how}"), COST, || {
        let costs = names.by_ref().take(NAMES).map(|n| {
            let one = first_byte(bond, &format!("n{n}.one.test"), origin);
            let both = first_byte(bond, &format!("n{n}.both.test"), origin);
            both.saturating_sub(one)
        });
        median(costs.collect())
    });
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn dead_names() {
    if !is_called_for() {
        return;
    }
    let dead = name_server();
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    // Another device at the same proxy.
    let other = Bond::new(Ways::Own, "", "");
    let id = |bond: &Bond, name: &str| Identity::load_or_create(bond.file(name)).unwrap().id();
    let file = TrustFile::beside(&bond.file("proxy.pem"));
    let device = TrustedDevice {
        id: id(&other, "primary.pem"),
        name: "other".to_owned(),
    };
    file.add(&device).unwrap();
    let path = other.file("primary.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(&other.proxy.to_string(), &bond.proxy.to_string());
    let [from, to] = [&other, &bond].map(|b| id(b, "proxy.pem").to_string());
    std::fs::write(path, text.replace(&from, &to)).unwrap();

    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    let _other = other.start("primary");
    bond.joined(1);
    other.joined(1);
    let before = first_byte(&other, "a.one.test", origin);
    let mut rounds = 0..;
    is_within("a look-up of another device", FIRST_BYTE, || {
        // In three rounds: the descriptors of this process are fewer. Look-ups that are given up go
        // on.
        let rounds = rounds.by_ref().take(3);
        let first_bytes = rounds.map(|round| {
            let names = (0..1_000).map(|n| format!("r{round}n{n}.dead.test"));
            let _clients: Vec<_> = names.map(|name| ask(&bond, &name)).collect();
            first_byte(&other, &format!("r{round}.one.test"), origin)
        });
        first_bytes.max().unwrap()
    });
    let asked = dead.load(SeqCst);
    println!("another device: {before:?} before, {asked} queries during that");
    assert!(asked >= 64, "the names are asked for");
}
