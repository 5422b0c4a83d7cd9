//! `mpbond speed` over links that drop large packets and say nothing: nftables, in network
//! namespaces of the test's own.

use serde_json::Value;

use crate::apart::Apart;
use crate::doctor_packets::table_of;
use crate::speed::shaped;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{has_nft, has_tbf};

#[test]
fn links_that_drop_large_packets_are_measured_with_smaller_segments() {
    if has_nft() && has_tbf() {
        play("-Urnm", "speed_mtu::role");
    }
}

/// The largest segments with which this link and, for a helper, its pipe were measured.
fn measured(apart: &Apart, name: &str) -> Vec<Option<u64>> {
    let (mpbond, config) = (
        env!("CARGO_BIN_EXE_mpbond"),
        apart.bond.file("primary.toml"),
    );
    // Where something is not measured, the result says why.
    let said = apart.run_there(&format!(
        "{mpbond} speed {name} --json --seconds 2 --config {} || true",
        config.display()
    ));
    let all: Value = serde_json::from_str(&said).unwrap();
    let one = |measured: &Value| {
        for direction in ["down_mbps", "up_mbps"] {
            assert!(measured[direction].is_f64(), "{said}");
        }
        measured["max_segment_bytes"].as_u64()
    };
    all.as_array().unwrap().iter().map(one).collect()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    // As slow as links are: a machine that is busy keeps up with them.
    let apart = shaped();
    let here = |interface: &str, octets| {
        let file = apart.bond.file(interface);
        std::fs::write(&file, table_of(interface, octets)).unwrap();
        sh(&format!("nft -f {}", file.display()));
    };
    here("far0", 576);
    apart.there_obeys(&table_of("near0", 576));
    here("hs0", 576);
    std::fs::write(apart.bond.file("hs1"), table_of("hs1", 576)).unwrap();
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
