//! `mpbond speed` over links that drop large packets and say nothing: nftables, in network
//! namespaces of the test's own.

use serde_json::Value;

use crate::apart::Apart;
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn links_that_drop_large_packets_are_measured_with_smaller_segments() {
    if has_nft() {
        play("-Urnm", "speed_mtu::role");
    }
}

/// The largest segments with which this link and, for a helper, its pipe were measured; a rate of
/// each.
fn measured(apart: &Apart, name: &str) -> Vec<Option<u64>> {
    let (mpbond, config) = (
        env!("CARGO_BIN_EXE_mpbond"),
        apart.bond.file("primary.toml"),
    );
    let said = apart.run_there(&format!(
        "{mpbond} speed {name} --json --seconds 1 --config {}",
        config.display()
    ));
    let all: Value = serde_json::from_str(&said).unwrap();
    let one = |measured: &Value| {
        for direction in ["down_mbps", "up_mbps"] {
            assert!(measured[direction].as_f64().unwrap() > 0.01, "{said}");
        }
        measured["max_segment_bytes"].as_u64()
    };
    all.as_array().unwrap().iter().map(one).collect()
}

/// Drops packets of more than `octets` that arrive at this interface.
fn rule(interface: &str, octets: u32) -> String {
    format!(
        "table inet {interface} {{
             chain in {{
                 type filter hook input priority 0;
                 iifname {interface} meta length gt {octets} drop;
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
    sh("for link in far0 hs0; do ip link set $link gso_max_segs 1; done");
    apart.there(&["link set near0 gso_max_segs 1"]);
    apart.helper_runs("ip link set hs1 gso_max_segs 1");
    let here = |interface: &str, octets| {
        let file = apart.bond.file(interface);
        std::fs::write(&file, rule(interface, octets)).unwrap();
        sh(&format!("nft -f {}", file.display()));
    };
    here("far0", 576);
    apart.there_obeys(&rule("near0", 576));
    here("hs0", 576);
    std::fs::write(apart.bond.file("hs1"), rule("hs1", 576)).unwrap();
    apart.helper_runs(&format!("nft -f {}", apart.bond.file("hs1").display()));
    let _proxy = apart.bond.start("proxy");
    let _helper = apart.start_helper();
    // Side by side: each waits for handshakes that do not come through.
    std::thread::scope(|scope| {
        let own = scope.spawn(|| measured(&apart, "own"));
        assert_eq!(measured(&apart, "helper"), [Some(536), None]);
        assert_eq!(own.join().unwrap(), [Some(536)]);
    });

    // A handshake passes, and then nothing.
    sh("nft delete table inet far0");
    apart.there_runs("nft delete table inet near0");
    here("far0", 1_300);
    assert_eq!(measured(&apart, "own"), [Some(1_220)]);
}
