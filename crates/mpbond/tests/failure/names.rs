//! Names that nobody answers, and addresses that lead nowhere, in namespaces of the test's own with
//! a name server of its own.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond_net::Identity;

use crate::daemons::{Bond, Ways, is_pattern, origin, until};
use mpbond_testing::names::{Query, resolv_conf, serve};
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
        done");
    let file = tempfile::NamedTempFile::new().unwrap();
    resolv_conf(file.path(), "nameserver 127.0.0.1\n");
    let dead = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dead);
    serve(Ipv4Addr::LOCALHOST, move |query| {
        let answer = answer(query, Ipv4Addr::LOCALHOST);
        if answer.is_none() {
            count.fetch_add(1, SeqCst);
        }
        answer
    });
    dead
}

/// The answer to a query; `one` is the IPv4 address of all names.
pub fn answer(query: &Query<'_>, one: Ipv4Addr) -> Option<Vec<u8>> {
    let name = query.name();
    let is_in = |domain: &str| name.ends_with(domain);
    let mut addresses: Vec<IpAddr> = Vec::new();
    if is_in(".dead.test") {
        return None;
    }
    if is_in(".one.test") || is_in(".both.test") {
        addresses.push(one.into());
    }
    if is_in(".both.test") {
        let hole = |n: u16| IpAddr::from([0x2600, 1, 0, 0, 0, 0, 0, n]);
        addresses.extend((0x10..0x14).map(hole));
    }
    Some(query.answer(&addresses))
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
