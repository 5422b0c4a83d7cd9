//! The only path leads through a helper whose link to the proxy drops large packets and says
//! nothing: nftables, in network namespaces of the test's own.

use std::time::Instant;

use crate::apart::Apart;
use crate::daemons::{Bond, Daemon, WITHIN};
use crate::mtu::{BYTES, fetch, upload};
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn an_hs_path_that_drops_large_packets_is_joined_with_smaller_segments() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "mtu_helper::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    for (name, transfer) in [("upload", upload as fn(&Bond)), ("download", fetch)] {
        through(1_300, name, |bond, primary| {
            transfer(bond);
            primary.logs("octets=1220");
        });
    }
}

#[test]
fn an_hs_path_with_an_mtu_of_576_octets_is_joined_with_segments_of_536() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "mtu_helper::role_least");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_least() {
    if !is_called_for() {
        return;
    }
    through(576, "download and upload", |bond, _| {
        let links = bond.status("primary").unwrap().links;
        assert_eq!(links[0].max_segment_bytes, Some(536));
        fetch(bond);
        upload(bond);
    });
}

fn through(largest: u32, name: &str, transfer: impl Fn(&Bond, &Daemon)) {
    let apart = Apart::with_helper();
    let primary = apart.bond.file("primary.toml");
    let text = std::fs::read_to_string(&primary).unwrap();
    // The helper alone; nothing takes another way.
    let only = text.replace("[[path]]\nname = \"own\"\n", "");
    assert_ne!(text, only);
    std::fs::write(&primary, format!("on_proxy_loss = \"fail\"\n{only}")).unwrap();
    // One packet for each segment: what is dropped is what a wire would carry.
    sh("ip link set hs0 gso_max_segs 1");
    apart.helper_runs("ip link set hs1 gso_max_segs 1");
    let table = |interface| {
        format!(
            "table inet mtu {{
                chain in {{
                    type filter hook input priority 0;
                    iifname {interface} meta length gt {largest} drop;
                }}
            }}"
        )
    };
    for (interface, file) in [("hs0", "here.nft"), ("hs1", "helper.nft")] {
        std::fs::write(apart.bond.file(file), table(interface)).unwrap();
    }
    let load = |file| format!("nft -f {}", apart.bond.file(file).display());
    sh(&load("here.nft"));
    apart.helper_runs(&load("helper.nft"));
    let _proxy = apart.bond.start("proxy");
    let _helper = apart.start_helper();
    let primary = apart.start_primary();
    apart.bond.joined(1);
    let began = Instant::now();
    transfer(&apart.bond, &primary);
    let took = began.elapsed();
    eprintln!("figure: packets up to {largest} octets, {name} of {BYTES} octets: {took:?}");
    assert!(took < WITHIN, "{took:?} {}", primary.log());
    sh("nft delete table inet mtu");
}
