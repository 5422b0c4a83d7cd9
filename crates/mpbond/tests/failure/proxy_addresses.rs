//! A proxy with several addresses: families, a port that is blocked, and a name that changes, in
//! namespaces of the test's own.

use std::path::Path;

use crate::apart::Apart;
use crate::daemons::{Bond, Ways, until};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{free_address, has_nft};

#[test]
fn each_link_finds_an_address_of_the_proxy_that_it_reaches() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "proxy_addresses::role");
}

#[test]
fn a_proxy_is_found_under_its_name_when_its_address_changes() {
    play("-Urnm", "proxy_addresses::role_name");
}

#[test]
fn a_path_uses_an_address_of_the_proxy_of_its_own() {
    let bond = Bond::new(Ways::Own, "", "");
    let primary = bond.file("primary.toml");
    // Nobody answers at the other one.
    let [own, other] = [bond.proxy, free_address()].map(|a| format!("\"{a}\""));
    rewrite(
        &primary,
        &format!("address = {own}"),
        &format!("address = {other}"),
    );
    rewrite(
        &primary,
        "name = \"own\"\n",
        &format!("name = \"own\"\nproxy = {own}\n"),
    );
    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
}

/// Replaces a part of a file that has to be there.
fn rewrite(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

/// One path with IPv4 alone, one with IPv6 alone, and a helper with IPv4 alone.
#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    sh("ip addr add fd00:8::1/64 dev app0 nodad");
    apart.there(&["addr add fd00:8::2/64 dev app1 nodad"]);
    let bond = &apart.bond;
    let (port, fallback) = (bond.proxy.port(), free_address().port());
    assert_ne!(port, fallback);
    let own = format!("\"10.9.0.1:{port}\"");
    rewrite(
        &bond.file("proxy.toml"),
        &format!("listen = {own}"),
        &format!(
            "listen = [{own}, \"[fd00:8::1]:{port}\", \"10.9.0.1:{fallback}\", \
             \"[fd00:8::1]:{fallback}\"]"
        ),
    );
    rewrite(
        &bond.file("helper.toml"),
        &format!("proxies = {own}"),
        &format!("proxies = [{own}, \"10.9.0.1:{fallback}\"]"),
    );
    let primary = bond.file("primary.toml");
    rewrite(
        &primary,
        &format!("address = {own}"),
        &format!("address = [\"[fd00:8::1]:{port}\", {own}]\nfallback_port = {fallback}"),
    );
    rewrite(
        &primary,
        "[[path]]\nname = \"own\"\n",
        "[[path]]\nname = \"four\"\ninterface = \"near0\"\n\
         [[path]]\nname = \"six\"\ninterface = \"app1\"\n",
    );
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    let daemon = apart.start_primary();
    bond.joined(3);
    let doctor = format!(
        "{} doctor primary --config {} || true",
        env!("CARGO_BIN_EXE_mpbond"),
        primary.display()
    );
    // The kernel tells within a second that a new link has a carrier.
    let mut said = String::new();
    until("the doctor finds no fault", || {
        said = apart.run_there(&doctor);
        !said.contains("FAIL")
    });
    for answer in [
        format!("the proxy answers at 10.9.0.1:{port}"),
        format!("the proxy answers at [fd00:8::1]:{port}"),
        "the proxy through the helper trusts this device".to_owned(),
    ] {
        assert!(said.contains(&answer), "{answer} is not in {said}");
    }

    // A firewall that drops packets to the port: the fallback port is found, by the helper, too.
    sh(&format!(
        "nft add table inet block
         nft add chain inet block input '{{ type filter hook input priority 0; }}'
         nft add rule inet block input tcp dport {port} drop"
    ));
    daemon.kill();
    let _daemon = apart.start_primary();
    bond.joined(3);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_name() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up; ip addr add 10.9.0.1/32 dev lo; ip addr add 10.9.0.2/32 dev lo");
    let bond = Bond::new(Ways::Both, "", "");
    let hosts = bond.file("hosts");
    std::fs::write(&hosts, "10.9.0.1 proxy.test\n").unwrap();
    sh(&format!("mount --bind {} /etc/hosts", hosts.display()));
    let port = bond.proxy.port();
    let loopback = format!("\"{}\"", bond.proxy);
    let [first, second] = [1, 2].map(|n| format!("\"10.9.0.{n}:{port}\""));
    rewrite(&bond.file("proxy.toml"), &loopback, &first);
    for role in ["helper", "primary"] {
        let file = bond.file(&format!("{role}.toml"));
        rewrite(&file, &loopback, &format!("\"proxy.test:{port}\""));
    }
    let proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(2);

    proxy.kill();
    rewrite(&bond.file("proxy.toml"), &first, &second);
    std::fs::write(&hosts, "10.9.0.2 proxy.test\n").unwrap();
    let _proxy = bond.start("proxy");
    until("both links are joined at the new address", || {
        let status = bond.status("proxy").unwrap();
        status
            .sessions
            .iter()
            .any(|s| s.subflows.iter().filter(|f| f.state == "up").count() == 2)
    });
    assert!(bond.works(crate::daemons::origin()), "{}", primary.log());

    // The name is no longer among the helper's proxies, and its former address is.
    let config = bond.file("helper.toml");
    rewrite(&config, &format!("\"proxy.test:{port}\""), &first);
    let mut reload = std::process::Command::new(env!("CARGO_BIN_EXE_mpbond"));
    reload.args(["reload", "helper", "--config"]).arg(&config);
    assert!(reload.status().unwrap().success());
    bond.joined(1);
    let refuses = |why: &str| {
        let links = bond.status("primary").unwrap().links;
        let mut errors = links.into_iter().filter_map(|l| l.error);
        errors.any(|e| e.contains(why))
    };
    until("the helper refuses", || {
        refuses("is not among this helper's proxies")
    });

    // A name that has no address there.
    rewrite(&config, &first, &format!("\"none.test:{port}\""));
    let mut reload = std::process::Command::new(env!("CARGO_BIN_EXE_mpbond"));
    reload.args(["reload", "helper", "--config"]).arg(&config);
    assert!(reload.status().unwrap().success());
    until("the helper refuses for want of an address", || {
        refuses("the address of none.test is not found here: ")
    });
}
