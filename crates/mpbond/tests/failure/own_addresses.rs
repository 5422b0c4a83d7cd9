//! The proxy's own public addresses: not reachable through it, in namespaces of the test's own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::daemons::{Bond, Ways};
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn a_proxy_does_not_reach_its_own_public_addresses() {
    play("-Urnm", "own_addresses::role");
}

/// A service on all addresses of this host, which greets its clients: its port and their number.
fn service() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let clients = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&clients);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, SeqCst);
            let _ = stream.and_then(|mut s| s.write_all(b"hello"));
        }
    });
    (port, clients)
}

/// Whether an application reaches the service at this address.
fn reaches(bond: &Bond, address: &str, port: u16) -> bool {
    let Ok(mut s) = bond.connect_to_name(address, port) else {
        return false;
    };
    let mut got = [0; 5];
    s.read_exact(&mut got).is_ok() && got == *b"hello"
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up
        ip link add own0 type veth peer name own1
        ip link set own0 up
        ip link set own1 up
        ip addr add 11.0.0.1/24 dev own0
        ip addr add 11.0.0.2/24 dev own0
        ip addr add 2600::1/64 dev own0 nodad
        ip route add local 11.9.0.0/24 dev lo");
    let (port, clients) = service();
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    assert!(
        reaches(&bond, "127.0.0.1", port),
        "allowed by the configuration"
    );
    assert_eq!(clients.swap(0, SeqCst), 1);
    for address in ["11.0.0.1", "11.0.0.2", "::ffff:11.0.0.2", "2600::1"] {
        assert!(!reaches(&bond, address, port), "{address}");
    }
    assert_eq!(
        clients.load(SeqCst),
        0,
        "refused before a connection is made"
    );
    // An address that is added later, and a whole local prefix without addresses.
    sh("ip addr add 11.0.0.3/24 dev own0");
    proxy.logs("own addresses have changed");
    for address in ["11.0.0.3", "11.9.0.7"] {
        assert!(!reaches(&bond, address, port), "{address}");
    }
    drop(proxy);

    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replace("\"127.0.0.0/8\"", "[\"127.0.0.0/8\", \"11.0.0.1\"]");
    assert_ne!(text, more);
    std::fs::write(path, more).unwrap();
    let _proxy = bond.start("proxy");
    bond.joined(1);
    assert!(
        reaches(&bond, "11.0.0.1", port),
        "allowed by the configuration"
    );
    assert!(!reaches(&bond, "11.0.0.2", port));
}
