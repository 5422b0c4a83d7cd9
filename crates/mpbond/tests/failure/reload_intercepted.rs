//! A helper that a primary with interception and a kill switch gains while it runs: the rules do
//! not name its address. In namespaces of the test's own.

use std::process::Command;

use mpbond::reload::Answer;
use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh};

use crate::apart::{Apart, connect_from};
use crate::daemons::{download_over, origin_at};

const MB: u32 = 1_000_000;

#[test]
fn interception_lets_a_helper_pass_that_a_reload_has_added() {
    let nft = Command::new("nft").arg("--version").output();
    if !nft.is_ok_and(|o| o.status.success()) {
        return Need::Nft.is_missing("there is no nft");
    }
    play("-Urnm", "reload_intercepted::role");
}

/// Has the primary read this configuration, all of which applies.
fn reload(apart: &Apart, config: &str, applied: &str) {
    std::fs::write(apart.bond.file("primary.toml"), config).unwrap();
    let answer = mpbond::status_socket::reload(&apart.bond.file("primary.sock")).unwrap();
    let Answer::Read { changes, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(changes.applied, [applied]);
    assert!(changes.restart.is_empty(), "{changes:?}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let bond = &apart.bond;
    sh("ip addr add 11.0.0.1/32 dev lo");
    let proxy = std::fs::read_to_string(bond.file("proxy.toml")).unwrap();
    let proxy = proxy.replace("\"127.0.0.0/8\"", "\"11.0.0.0/8\"");
    std::fs::write(bond.file("proxy.toml"), proxy).unwrap();
    apart.there(&["route add default via 10.9.0.1"]);
    let origin = origin_at(([11, 0, 0, 1], 80).into());
    let both = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    let both = both.replace("\"own\"\n", "\"own\"\ninterface = \"near0\"\n")
        + "[transparent]\nresolvers = \"11.0.0.1\"\nkill_switch = \"permanent\"\n";
    let (head, rest) = both.split_once("[[helper]]").unwrap();
    let (_, tail) = rest.split_once("[socks5]").unwrap();
    let own = format!("{head}[socks5]{tail}");
    std::fs::write(bond.file("primary.toml"), &own).unwrap();
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    let primary = apart.start_primary();
    bond.joined(1);
    let to_origin = || connect_from(apart.pid(), origin).unwrap();
    let running = download_over(to_origin(), 30 * MB);
    let with_interface = both.replace("\"helper\"\n", "\"helper\"\ninterface = \"pipe0\"\n");
    reload(&apart, &with_interface, "[[helper]] \"helper\" added");
    bond.joined(2);
    let path = "[[path]]\nname = \"own\"\ninterface = \"near0\"\n";
    let helper = with_interface.replace(path, "");
    reload(&apart, &helper, "[[path]] \"own\" removed");
    bond.joined(1);
    assert_eq!(running.end().unwrap(), 30 * MB as usize);
    let through_helper = download_over(to_origin(), MB);
    assert_eq!(through_helper.end().unwrap(), MB as usize);
    reload(&apart, &with_interface, "[[path]] \"own\" added");
    bond.joined(2);
    let log = primary.log();
    assert!(!log.contains("opening a new session"), "{log}");
}
