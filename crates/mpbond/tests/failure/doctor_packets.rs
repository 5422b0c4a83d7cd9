//! Packets of full size on a pipe, and behind a helper, as the doctor finds them: nftables, in
//! namespaces of the test's own.

use crate::apart::Apart;
use crate::daemons::until;
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn the_doctor_names_the_link_and_the_direction_that_drop_large_packets() {
    if has_nft() {
        play("-Urnm", "doctor_packets::role");
    }
}

#[test]
fn the_doctor_passes_a_path_with_an_mtu_of_576_octets() {
    if has_nft() {
        play("-Urnm", "doctor_packets::role_least");
    }
}

#[test]
fn the_doctor_passes_a_helper_behind_which_the_mtu_is_576_octets() {
    if has_nft() {
        play("-Urnm", "doctor_packets::role_least_behind");
    }
}

/// A table in which this interface gets no large packets.
fn table(interface: &str) -> String {
    table_of(interface, 1300)
}

/// A table, named after this interface, in which it gets no packets of more octets.
pub fn table_of(interface: &str, most: u32) -> String {
    format!(
        "table inet {interface} {{
            chain in {{
                type filter hook input priority 0;
                iifname {interface} meta length gt {most} drop;
            }}
        }}"
    )
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    // One packet for each segment: what is dropped is what a wire would carry.
    for interface in ["hs0", "far0"] {
        sh(&format!("ip link set {interface} gso_max_segs 1"));
    }
    for interface in ["hs1", "pipe1"] {
        apart.helper_runs(&format!("ip link set {interface} gso_max_segs 1"));
    }
    apart.there(&["link set pipe0 gso_max_segs 1"]);
    let bond = &apart.bond;
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    let doctor = || {
        apart.run_there(&format!(
            "{} doctor primary --config {} || true",
            env!("CARGO_BIN_EXE_mpbond"),
            bond.file("primary.toml").display()
        ))
    };
    let passes = [
        "pipe helper    4 kB pass, up in ",
        "helper helper  4 kB pass, up in ",
    ];
    let mut said = String::new();
    until("large packets pass", || {
        said = doctor();
        passes.iter().all(|line| said.contains(line))
    });
    let (rules, drops) = (
        bond.file("block.nft"),
        "packets of full size are dropped on the way",
    );
    let load = |interface: &str| {
        std::fs::write(&rules, table(interface)).unwrap();
        format!("nft -f {}", rules.display())
    };

    // Between the helper and the proxy, towards the proxy; then from it.
    sh(&load("hs0"));
    said = doctor();
    let line = format!("helper helper  {drops} to the proxy behind the helper");
    assert!(said.contains(&line) && said.contains(passes[0]), "{said}");
    sh("nft delete table inet hs0");
    apart.helper_runs(&load("hs1"));
    said = doctor();
    let line = format!("helper helper  {drops} from the proxy behind the helper");
    assert!(said.contains(&line) && said.contains(passes[0]), "{said}");
    apart.helper_runs("nft delete table inet hs1");

    // On the pipe, in both directions.
    apart.helper_runs(&load("pipe1"));
    apart.run_there(&load("pipe0"));
    said = doctor();
    let line = format!("pipe helper    {drops} to and from the helper");
    assert!(said.contains(&line), "{said}");
    let skipped = "helper helper  4 kB each way: not checked: the pipe drops them";
    assert!(said.contains(skipped), "{said}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_least() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let bond = &apart.bond;
    sh("ip link set far0 gso_max_segs 1");
    apart.there(&["link set near0 gso_max_segs 1"]);
    apart.there_obeys(&table_of("near0", 576));
    let rules = bond.file("here.nft");
    std::fs::write(&rules, table_of("far0", 576)).unwrap();
    sh(&format!("nft -f {}", rules.display()));
    let _proxy = bond.start("proxy");
    doctor_says(
        &apart,
        "only small packets pass: the TLS handshake needs segments of 536 octets",
        &[
            "the proxy trusts this device",
            "4 kB each way: not checked: only small packets pass",
        ],
    );
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_least_behind() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let bond = &apart.bond;
    // The helper alone.
    let file = bond.file("primary.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let only = text.replace("[[path]]\nname = \"own\"\n", "");
    assert_ne!(text, only);
    std::fs::write(&file, only).unwrap();
    sh("ip link set hs0 gso_max_segs 1");
    apart.helper_runs("ip link set hs1 gso_max_segs 1");
    let load = |interface: &str| {
        let rules = bond.file(interface);
        std::fs::write(&rules, table_of(interface, 576)).unwrap();
        format!("nft -f {}", rules.display())
    };
    sh(&load("hs0"));
    apart.helper_runs(&load("hs1"));
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    doctor_says(
        &apart,
        "only small packets pass behind the helper: the TLS handshake with the proxy",
        &[
            "pipe helper    4 kB pass, up in ",
            "helper helper  4 kB each way: not checked: only small packets pass",
        ],
    );
}

/// Runs the primary's doctor until its output has this warning; then it has these lines too, and
/// names no other fault.
fn doctor_says(apart: &Apart, warning: &str, lines: &[&str]) {
    let mut said = String::new();
    until("a handshake with small segments comes through", || {
        said = apart.run_there(&format!(
            "{} doctor primary --config {} || true",
            env!("CARGO_BIN_EXE_mpbond"),
            apart.bond.file("primary.toml").display()
        ));
        said.contains(warning)
    });
    for line in lines {
        assert!(said.contains(line), "{said}");
    }
    for wrong in ["captive portal", "no path leads to the proxy"] {
        assert!(!said.contains(wrong), "{said}");
    }
}
