//! A helper whose link to the primary is set down under a relay: packets for the primary do not
//! follow the default route to another network; and one that gets a second link to that network. In
//! namespaces of the test's own.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::apart::{Apart, connect_from};
use crate::daemons::{Bond, download, origin_at};
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
fn nor_do_they_over_ipv6() {
    if has_nft() {
        play("-Urnm", "stray::role_ipv6");
    }
}

/// The kernel resets what is bound to the first one.
#[test]
fn a_helper_is_joined_again_when_packets_arrive_at_a_second_interface_of_the_network() {
    play("-Urnm", "stray::role_second");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_second() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let bond = &apart.bond;
    through_the_helper_alone(bond);
    let _proxy = bond.start("proxy");
    let helper = apart.start_helper();
    let primary = apart.start_primary();
    bond.joined(1);
    helper.logs("bound to the interface of its network");
    let running = download(bond, origin_at(([127, 0, 0, 1], 0).into()), BYTES);
    let pid = apart.pid();
    let loose = "sysctl -qw net.ipv4.conf.all.rp_filter=0";
    for command in [
        &format!("ip link add second1 type veth peer name second0 netns {pid}"),
        "ip addr add 10.6.0.3/24 dev second1",
        "ip link set second1 up",
        loose,
        "sysctl -qw net.ipv4.conf.second1.rp_filter=0",
    ] {
        apart.helper_runs(command);
    }
    for command in [
        loose,
        "sysctl -qw net.ipv4.conf.pipe0.rp_filter=0",
        "ip link set second0 up",
        "ip route add 10.6.0.2/32 dev second0 src 10.6.0.1",
    ] {
        apart.there_runs(command);
    }
    let next = download(bond, origin_at(([127, 0, 0, 1], 0).into()), 1_000_000);
    assert_eq!(next.end().unwrap(), 1_000_000);
    assert_eq!(running.end().unwrap(), BYTES as usize);
    primary.logs("subflow's connection is gone");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if is_called_for() {
        // Its routes go, its address stays.
        are_stopped(&Apart::with_helper(), "ip daddr 10.6.0.0/24", "");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_ipv6() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    sh("ip addr add fd00:7::1/64 dev hs0 nodad");
    apart.there(&["addr add fd00:6::1/64 dev pipe0 nodad"]);
    apart.helper_runs("ip addr add fd00:7::2/64 dev hs1 nodad");
    apart.helper_runs("ip route add default via fd00:7::1");
    // The kernel removes it with the link.
    let address = "ip addr add fd00:6::2/64 dev pipe1 nodad";
    apart.helper_runs(address);
    for file in ["helper.toml", "primary.toml"] {
        let file = apart.bond.file(file);
        let text = std::fs::read_to_string(&file).unwrap();
        let moved = text.replace("10.6.0.2:", "[fd00:6::2]:");
        assert_ne!(text, moved);
        std::fs::write(&file, moved).unwrap();
    }
    are_stopped(&apart, "ip6 daddr fd00:6::/64", address);
}

/// Nothing takes another way.
fn through_the_helper_alone(bond: &Bond) {
    let primary = bond.file("primary.toml");
    let text = std::fs::read_to_string(&primary).unwrap();
    let only = text.replace("[[path]]\nname = \"own\"\n", "");
    assert_ne!(text, only);
    std::fs::write(&primary, format!("on_proxy_loss = \"fail\"\n{only}")).unwrap();
}

/// A download through the helper waits while the link is down. `to` matches packets to the
/// primary, and `restore` is a command for when the link is up again.
fn are_stopped(apart: &Apart, to: &str, restore: &str) {
    let bond = &apart.bond;
    through_the_helper_alone(bond);
    let table = format!(
        "table inet strays {{
            counter strays {{ }}
            chain arriving {{
                type filter hook prerouting priority -300;
                iifname hs0 {to} counter name strays
            }}
        }}"
    );
    let file = bond.file("strays.nft");
    std::fs::write(&file, table).unwrap();
    sh(&format!("nft -f {}", file.display()));
    let _proxy = bond.start("proxy");
    let helper = apart.start_helper();
    // A stranger costs no look at the interfaces.
    let listen = std::fs::read_to_string(bond.file("helper.toml")).unwrap();
    let listen = listen.split("listen = \"").nth(1).unwrap();
    let listen = listen.split('"').next().unwrap().parse().unwrap();
    let mut stranger = connect_from(apart.pid(), listen).unwrap();
    stranger.write_all(&[0x16; 64]).unwrap();
    helper.logs("control connection ended");
    assert!(!helper.log().contains("bound to the interface"));
    let _primary = apart.start_primary();
    bond.joined(1);
    let sandbox = bond.status("helper").unwrap().sandbox.unwrap();
    assert!(sandbox.no_new_privileges, "{sandbox:?}");
    let running = download(bond, origin_at(([127, 0, 0, 1], 0).into()), BYTES);
    apart.helper_runs("ip link set pipe1 down");
    thread::sleep(GONE);
    let strays = sh("nft list counter inet strays strays");
    assert!(strays.contains("packets 0 bytes 0"), "{strays}");
    apart.helper_runs("ip link set pipe1 up");
    if !restore.is_empty() {
        apart.helper_runs(restore);
    }
    assert_eq!(running.end().unwrap(), BYTES as usize);
    helper.logs("bound to the interface of its network");
}
