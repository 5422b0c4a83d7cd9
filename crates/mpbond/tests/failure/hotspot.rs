//! Interfaces that vanish and come back with other addresses, as those of a hotspot or a phone on a
//! cable: a path's, then the pipe's. In namespaces of the test's own.

use std::net::SocketAddr;

use crate::apart::Apart;
use crate::daemons::{download, origin, until};
use mpbond_testing::namespaces::{is_called_for, play, sh};

const BYTES: u32 = 10_000_000;

#[test]
fn interfaces_that_come_and_go_are_left_and_joined_again() {
    play("-Urnm", "hotspot::role");
}

/// Has a link vanish while bytes move, which arrive over the other one.
fn vanishes(apart: &Apart, origin: SocketAddr, interface: &str, name: &str) {
    let running = download(&apart.bond, origin, BYTES);
    apart.there_runs(&format!("ip link del {interface}"));
    until("the link is left", || {
        let links = apart.bond.status("primary").unwrap().links;
        let link = links.iter().find(|l| l.name == name).unwrap();
        link.state != "up"
    });
    assert_eq!(running.end().unwrap(), BYTES as usize);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    // The proxy's address stays when the link to it is gone.
    sh("ip addr add 10.9.0.1/32 dev lo");
    let file = apart.bond.file("primary.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let bound = text.replace(
        "name = \"own\"\n",
        "name = \"own\"\ninterface = \"near0\"\n",
    );
    assert_ne!(text, bound);
    std::fs::write(&file, bound).unwrap();
    let origin = origin();
    let _proxy = apart.bond.start("proxy");
    let _helper = apart.start_helper();
    let _primary = apart.start_primary();
    apart.bond.joined(2);

    vanishes(&apart, origin, "near0", "own");
    let pid = apart.pid();
    sh(&format!(
        "ip link add far0 type veth peer name near0 netns {pid}
         ip addr add 10.9.0.1/24 dev far0
         ip link set far0 up"
    ));
    apart.there(&["addr add 10.9.0.7/24 dev near0", "link set near0 up"]);
    apart.bond.joined(2);

    vanishes(&apart, origin, "pipe0", "helper");
    apart.helper_runs(&format!(
        "ip link add pipe1 type veth peer name pipe0 netns {pid}"
    ));
    apart.helper_runs("ip addr add 10.6.0.2/24 dev pipe1");
    apart.helper_runs("ip link set pipe1 up");
    apart.there(&["addr add 10.6.0.9/24 dev pipe0", "link set pipe0 up"]);
    apart.bond.joined(2);
    assert_eq!(
        download(&apart.bond, origin, BYTES).end().unwrap(),
        BYTES as usize
    );
}
