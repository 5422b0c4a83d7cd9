//! The proxy's host is gone without a word while the session is at rest: between network namespaces
//! of the test's own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::apart::{Apart, HERE};
use crate::restart::{HELLO, WITHIN_THREE_SECONDS, accept};
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn a_new_connection_goes_direct_within_three_seconds_of_a_cut_off_at_rest() {
    play("-Urnm", "silence::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let origin = listener.local_addr().unwrap();
    let _proxy = apart.bond.start("proxy");
    let primary = apart.start_primary();
    apart.bond.joined(1);
    sleep(Duration::from_secs(6));
    // Whatever comes over this link is dropped; the primary's end stays up.
    sh("ip addr del 10.9.0.1/24 dev far0");
    let asked = Instant::now();
    let mut app = apart.bond.connect(origin).unwrap();
    app.write_all(HELLO).unwrap();
    let mut at_origin = accept(&listener);
    let took = asked.elapsed();
    eprintln!("figure: cut off at rest, the first went direct after {took:?}");
    assert!(took < WITHIN_THREE_SECONDS, "{took:?} {}", primary.log());
    let mut heard = [0; HELLO.len()];
    at_origin.read_exact(&mut heard).unwrap();
    assert_eq!(heard, HELLO);
    primary.logs("no path to the proxy works: new connections go direct");
}
