//! Hosts behind a primary that intercepts their traffic, too: in namespaces of the test's own.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::apart::{Apart, connect_from, namespace};
use crate::daemons::{download_over, origin_at, until};
use crate::families::{V4, V6, resolver};
use mpbond_testing::names::resolv_conf;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Need, has_nft};

#[test]
fn hosts_behind_a_primary_find_names_and_download() {
    if !has_nft() {
        return;
    }
    if let Err(e) = File::options().write(true).open("/dev/net/tun") {
        return Need::Namespaces.is_missing(format_args!("/dev/net/tun: {e}"));
    }
    play("-Urnm", "forwarded::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let bond = &apart.bond;
    let mut guest = namespace();
    let (pid, primary) = (guest.id(), apart.pid());
    // A guest with public addresses, which are no exceptions of interception.
    sh(&format!(
        "ip addr add 11.0.0.1/32 dev lo
         ip addr add 2600::1/128 dev lo
         ip addr add fd00:9::1/64 dev far0 nodad
         ip route add default via 10.9.0.2
         ip -6 route add default via fd00:9::2
         nsenter -t {pid} -n sh -ec \"
             ip link set lo up
             ip link add eth0 type veth peer name lan0 netns {primary}
             ip addr add 11.7.0.2/24 dev eth0
             ip addr add 2601::2/64 dev eth0 nodad
             ip link set eth0 up
             ip route add default via 11.7.0.1
             ip -6 route add default via 2601::1\""
    ));
    apart.there(&[
        "addr add 11.7.0.1/24 dev lan0",
        "addr add 2601::1/64 dev lan0 nodad",
        "link set lan0 up",
        "addr add fd00:9::2/64 dev near0 nodad",
    ]);
    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replace("\"127.0.0.0/8\"", "[\"11.0.0.0/8\", \"2600::/16\"]");
    assert_ne!(text, more);
    std::fs::write(path, more).unwrap();
    let file = bond.file("resolv.conf");
    resolv_conf(&file, "");
    resolver();
    let origins = [V4.into(), V6.into()].map(|ip: IpAddr| SocketAddr::from((ip, 80)));
    for origin in origins {
        origin_at(origin);
    }
    let plain = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    let _proxy = bond.start("proxy");

    for mode in ["redirect", "tproxy"] {
        eprintln!("mode {mode}");
        let more = format!(
            "[transparent]\nmode = \"{mode}\"\nresolvers = \"11.0.0.1\"\nforwarded = \"lan0\"\n\
             udp = \"reject\"\n"
        );
        std::fs::write(bond.file("primary.toml"), plain.clone() + &more).unwrap();
        let mut primary = apart.start_primary();
        bond.joined(1);
        for server in ["9.9.9.9", "2620:fe::fe"] {
            std::fs::write(&file, format!("nameserver {server}\n")).unwrap();
            let ask = format!("nsenter -t {pid} -n getent ahosts dual.test || true");
            until(&format!("names are found at {server}"), || {
                let found = sh(&ask);
                found.contains("11.0.0.1") && found.contains("2600::1")
            });
            let ask = format!("nsenter -t {pid} -n getent -s dns ahosts dual.test || true");
            std::fs::write(&file, format!("nameserver {server}\noptions use-vc\n")).unwrap();
            until(&format!("names are found at {server} over TCP"), || {
                sh(&ask).contains("11.0.0.1")
            });
        }
        for origin in origins {
            let stream = connect_from(pid, origin).unwrap();
            assert_eq!(download_over(stream, 1_000_000).end().unwrap(), 1_000_000);
        }

        // They do not notice an upgrade either.
        let begin = |bytes| origins.map(|o| download_over(connect_from(pid, o).unwrap(), bytes));
        let running = begin(10_000_000);
        let new = apart.upgrade_primary().unwrap();
        let ask = format!("nsenter -t {pid} -n getent ahosts dual.test");
        assert!(sh(&ask).contains("11.0.0.1"));
        for (downloads, bytes) in [(begin(1_000_000), 1_000_000), (running, 10_000_000)] {
            for download in downloads {
                assert_eq!(download.end().unwrap(), bytes);
            }
        }
        assert!(primary.ends().success());
        kill(Pid::from_raw(new.process as i32), Signal::SIGTERM).unwrap();
        until("the rules are removed", || {
            !apart
                .run_there("nft list tables; ip link")
                .contains("mpbond")
        });
    }
    guest.kill().unwrap();
    guest.wait().unwrap();
}
