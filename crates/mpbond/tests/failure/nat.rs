//! A NAT that forgets connections which were idle for 5 s, before the only path: conntrack, in
//! network namespaces of the test's own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::apart::{Apart, HERE};
use crate::restart::HELLO;
use mpbond_testing::namespaces::{is_called_for, play};
use mpbond_testing::{has_nft, is_within, median};

/// Longer than the NAT remembers.
const IDLE: Duration = Duration::from_secs(8);

/// Time to the first byte after the NAT has forgotten, at the median. A silent path is given up
/// after 15 s.
const FIRST_BYTE: Duration = Duration::from_millis(1_500);

/// Requests whose median counts.
const REQUESTS: usize = 3;

#[test]
fn a_request_after_a_nat_has_forgotten_goes_over_a_new_connection_and_never_past_the_proxy() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "nat::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    for policy in ["direct", "fail"] {
        forgets(policy);
    }
}

fn forgets(policy: &str) {
    let apart = Apart::with(&format!("on_proxy_loss = \"{policy}\""), "");
    let file = apart.bond.file("proxy.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let here = format!("[\"127.0.0.0/8\", \"{HERE}\"]");
    std::fs::write(file, text.replace("\"127.0.0.0/8\"", &here)).unwrap();
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let origin = listener.local_addr().unwrap();
    apart.there_runs(
        "sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0 \
         net.netfilter.nf_conntrack_tcp_timeout_established=5",
    );
    apart.there_obeys(
        "table inet nat {
            chain in { type filter hook input priority 0; iifname near0 ct state invalid drop; }
            chain out { type filter hook output priority 0; oifname near0 ct state invalid drop; }
        }",
    );
    let _proxy = apart.bond.start("proxy");
    let primary = apart.start_primary();
    apart.bond.joined(1);
    exchange(&apart, &listener, origin);
    let request = |_| {
        sleep(IDLE);
        let asked = Instant::now();
        let from = exchange(&apart, &listener, origin);
        // Direct, it would be the primary's own address.
        assert_eq!(from.ip(), HERE, "past the proxy: {}", primary.log());
        asked.elapsed()
    };
    let what = format!("first byte after a NAT has forgotten, {policy}");
    is_within(&what, FIRST_BYTE, || {
        let all: Vec<_> = (0..REQUESTS).map(request).collect();
        eprintln!("{policy}: {all:?}");
        median(all)
    });
    primary.logs("silent; a new connection answers");
}

/// The beginning of a TLS connection, which may be repeated, and an answer. Returns the address
/// that the origin sees.
fn exchange(apart: &Apart, listener: &TcpListener, origin: SocketAddr) -> SocketAddr {
    let mut app = apart.bond.connect(origin).unwrap();
    app.write_all(HELLO).unwrap();
    let (mut at_origin, from) = listener.accept().unwrap();
    let mut heard = [0; HELLO.len()];
    at_origin.read_exact(&mut heard).unwrap();
    assert_eq!(heard, HELLO);
    at_origin.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    app.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    from
}
