//! A helper whose link to the primary is set down under a relay: packets for the primary do not
//! follow the default route to another network, in namespaces of the test's own.

use std::thread;
use std::time::Duration;

use crate::apart::Apart;
use crate::daemons::{download, origin_at};
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// Bytes of a download that lasts some seconds.
const BYTES: u32 = 20_000_000;

/// Time for four retransmissions (RFC 6298, section 5.5: after 0.2, 0.4, 0.8 and 1.6 s).
const GONE: Duration = Duration::from_millis(3_500);

#[test]
fn packets_for_a_primary_whose_link_is_down_leave_a_helper_over_no_other_link() {
    if has_nft() {
        play("-Urnm", "stray::role");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let bond = &apart.bond;
    let primary = bond.file("primary.toml");
    let text = std::fs::read_to_string(&primary).unwrap();
    // The helper alone; nothing takes another way.
    let only = text.replace("[[path]]\nname = \"own\"\n", "");
    assert_ne!(text, only);
    std::fs::write(&primary, format!("on_proxy_loss = \"fail\"\n{only}")).unwrap();
    let table = "table inet strays {
        counter strays { }
        chain arriving {
            type filter hook prerouting priority -300;
            iifname hs0 ip daddr 10.6.0.0/24 counter name strays
        }
    }";
    let file = bond.file("strays.nft");
    std::fs::write(&file, table).unwrap();
    sh(&format!("nft -f {}", file.display()));
    let _proxy = bond.start("proxy");
    let helper = apart.start_helper();
    let _primary = apart.start_primary();
    bond.joined(1);
    let sandbox = bond.status("helper").unwrap().sandbox.unwrap();
    assert!(sandbox.no_new_privileges, "{sandbox:?}");
    let running = download(bond, origin_at(([127, 0, 0, 1], 0).into()), BYTES);
    // Its routes are gone, its address is not.
    apart.helper_runs("ip link set pipe1 down");
    thread::sleep(GONE);
    let strays = sh("nft list counter inet strays strays");
    assert!(strays.contains("packets 0 bytes 0"), "{strays}");
    apart.helper_runs("ip link set pipe1 up");
    assert_eq!(running.end().unwrap(), BYTES as usize);
    helper.logs("bound to the interface of its network");
}
