//! A primary that knows its proxy by name alone, also behind a kill switch; and one that pairs with
//! a new proxy behind a kill switch; in namespaces of the test's own.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::apart::Apart;
use crate::daemons::{Bond, text};
use crate::names::answer;
use mpbond_testing::has_nft;
use mpbond_testing::names::{resolv_conf, serve};
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// A public address of the proxy, which is also that of a name server.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);

#[test]
fn a_primary_behind_a_kill_switch_finds_its_proxy_by_name() {
    in_namespaces("own_names::role_name");
}

#[test]
fn a_proxy_is_paired_with_behind_a_kill_switch() {
    in_namespaces("own_names::role_pair");
}

#[test]
fn a_name_is_looked_up_over_the_path_that_it_is_for() {
    play("-Urnm", "own_names::role_bound");
}

fn in_namespaces(role: &str) {
    if !has_nft() {
        return;
    }
    play("-Urnm", role);
}

/// Namespaces in which the primary has a kill switch and reaches the proxy at a public address
/// that no rule names.
fn behind_a_kill_switch(address: &str, resolvers: &str) -> Apart {
    let more = format!("[transparent]\nresolvers = \"{resolvers}\"\nkill_switch = \"permanent\"\n");
    at_a_public_address(address, &more)
}

/// The same with these lines at the end of the primary's configuration instead.
fn at_a_public_address(address: &str, more: &str) -> Apart {
    let apart = Apart::new();
    sh(&format!("ip addr replace {PUBLIC}/32 dev lo"));
    apart.there(&["route add default via 10.9.0.1 metric 2"]);
    let bond = &apart.bond;
    let (proxy, primary) = (bond.file("proxy.toml"), bond.file("primary.toml"));
    let read = |file| std::fs::read_to_string(file).unwrap();
    let moved = read(&proxy).replace("listen = \"10.9.0.1", &format!("listen = \"{PUBLIC}"));
    std::fs::write(&proxy, moved).unwrap();
    let moved = read(&primary).replace(
        "[proxy]\naddress = \"10.9.0.1",
        &format!("[proxy]\naddress = \"{address}"),
    );
    assert!(moved.contains(address), "{moved}");
    std::fs::write(&primary, moved + more).unwrap();
    apart
}

/// The doctor finds the proxy where the primary finds it.
fn finds_its_proxy(apart: &Apart) {
    let (mpbond, config) = (
        env!("CARGO_BIN_EXE_mpbond"),
        apart.bond.file("primary.toml"),
    );
    let said = apart.run_there(&format!(
        "{mpbond} doctor primary --config {} || true",
        config.display()
    ));
    let found = format!("the proxy answers at {PUBLIC}:");
    assert!(said.contains(&found), "{said}");
}

/// Starts a name server for names in `one.test`, which lead to the proxy.
fn name_server() {
    serve(PUBLIC, |query| answer(query, PUBLIC));
}

/// Makes this address the name server of all namespaces.
fn nameserver_is(bond: &Bond, server: &str) {
    let text = format!("nameserver {server}\n");
    resolv_conf(&bond.file("resolv.conf"), &text);
}

/// Both where the system's server is on the network and where it is a stub on this host, whose own
/// queries the interception takes.
#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_name() {
    if !is_called_for() {
        return;
    }
    sh(&format!(
        "ip link set lo up; ip addr add {PUBLIC}/32 dev lo"
    ));
    name_server();
    for (system, resolvers) in [("11.0.0.1", "11.0.0.2"), ("127.0.0.53", "11.0.0.1")] {
        let apart = behind_a_kill_switch("proxy.one.test", resolvers);
        nameserver_is(&apart.bond, system);
        let _proxy = apart.bond.start("proxy");
        let mut primary = apart.start_primary();
        apart.bond.joined(1);
        assert!(primary.stop().success());
        finds_its_proxy(&apart);
        // Started again: the rules of the first run stand before anything is looked up.
        let _primary = apart.start_primary();
        apart.bond.joined(1);
        sh("umount /etc/resolv.conf");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_pair() {
    if !is_called_for() {
        return;
    }
    // The configured proxy is another one, which does not answer; the system's name server is a
    // stub on this host whose own queries the kill switch refuses.
    let apart = behind_a_kill_switch("11.0.0.9", "11.0.0.1");
    nameserver_is(&apart.bond, "127.0.0.53");
    name_server();
    let (mpbond, bond) = (env!("CARGO_BIN_EXE_mpbond"), &apart.bond);
    let primary = bond.file("primary.toml");
    apart.run_there(&format!(
        "{mpbond} kill-switch on --config {}",
        primary.display()
    ));
    let mut listener = Command::new(mpbond)
        .args(["pair", "--json", "--yes", "--role", "proxy", "--config"])
        .arg(bond.file("proxy.toml"))
        .args(["--listen", &format!("{PUBLIC}:0")])
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(listener.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    let (address, code) = (
        event["addresses"][0].as_str().unwrap(),
        event["code"].as_str().unwrap(),
    );
    let config = text(&primary);
    let named = address.replace(&PUBLIC.to_string(), "proxy.one.test");
    let pair = |mpbond: &str| {
        format!("{mpbond} pair {named} {code} --yes --role primary --config {config} 2>&1 || true")
    };
    // Without the privilege to set the mark, the reason is named.
    let user = apart.run_there(&pair(&format!(
        "setpriv --bounding-set -all --inh-caps -all -- {mpbond}"
    )));
    assert!(user.contains("kill switch"), "{user}");
    let said = apart.run_there(&pair(mpbond));
    assert!(listener.wait().unwrap().success(), "{said}");
    let written = std::fs::read_to_string(&primary).unwrap();
    let proxy = format!("address = \"proxy.one.test:{}\"", bond.proxy.port());
    assert!(written.contains(&proxy), "{said} {written}");
}

/// The default route of the primary's host leads nowhere; the path has an interface of its own.
#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_bound() {
    if !is_called_for() {
        return;
    }
    let apart = at_a_public_address("proxy.one.test", "");
    apart.there(&["route add default via 11.8.0.9 metric 1"]);
    let primary = apart.bond.file("primary.toml");
    let text = std::fs::read_to_string(&primary).unwrap();
    let bound = text.replace("name = \"own\"\n", "interface = \"near0\"\n");
    assert_ne!(text, bound);
    std::fs::write(&primary, bound).unwrap();
    nameserver_is(&apart.bond, "11.0.0.1");
    name_server();
    let _proxy = apart.bond.start("proxy");
    let _primary = apart.start_primary();
    apart.bond.joined(1);
    finds_its_proxy(&apart);
}
