//! The only path drops large packets and says nothing: nftables, in network namespaces of the
//! test's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener};
use std::thread;
use std::time::Instant;

use crate::apart::Apart;
use crate::daemons::{Bond, WITHIN, download, origin};
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

pub const BYTES: usize = 300_000;

#[test]
fn a_path_that_drops_large_packets_is_joined_with_smaller_segments() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "mtu::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    through(1_300, "upload", upload, "octets=1220");
    through(1_300, "download", fetch, "octets=1220");
}

#[test]
fn a_path_with_an_mtu_of_576_octets_is_joined_with_segments_of_536() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "mtu::role_least");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_least() {
    if !is_called_for() {
        return;
    }
    through(576, "upload", upload, "octets=536");
    through(576, "download", fetch, "octets=536");
}

fn through(largest: u32, name: &str, transfer: fn(&Bond), logged: &str) {
    let apart = Apart::with("on_proxy_loss = \"fail\"", "");
    // One packet for each segment: what is dropped is what a wire would carry.
    sh("ip link set far0 gso_max_segs 1");
    apart.there(&["link set near0 gso_max_segs 1"]);
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
    apart.there_obeys(&table("near0"));
    let file = apart.bond.file("here.nft");
    std::fs::write(&file, table("far0")).unwrap();
    sh(&format!("nft -f {}", file.display()));
    let _proxy = apart.bond.start("proxy");
    let primary = apart.start_primary();
    apart.bond.joined(1);
    let began = Instant::now();
    transfer(&apart.bond);
    let took = began.elapsed();
    eprintln!("figure: packets up to {largest} octets, {name} of {BYTES} octets: {took:?}");
    assert!(took < WITHIN, "{took:?} {}", primary.log());
    primary.logs(logged);
    sh("nft delete table inet mtu");
}

pub fn fetch(bond: &Bond) {
    let bytes = download(bond, origin(), BYTES as u32).end();
    assert_eq!(bytes.unwrap(), BYTES);
}

pub fn upload(bond: &Bond) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let origin = listener.local_addr().unwrap();
    let received = thread::spawn(move || {
        let (mut s, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        s.read_to_end(&mut all).map(|_| all.len())
    });
    let mut app = bond.connect(origin).unwrap();
    app.write_all(&[7; BYTES]).unwrap();
    app.shutdown(Shutdown::Write).unwrap();
    assert_eq!(received.join().unwrap().unwrap(), BYTES);
}
