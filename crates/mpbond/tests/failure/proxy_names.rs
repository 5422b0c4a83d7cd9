//! Look-ups of intercepted applications, answered by the resolvers of the proxy: in namespaces of
//! the test's own.

use crate::apart::Apart;
use crate::daemons::until;
use crate::families::resolver;
use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn names_are_looked_up_by_the_resolvers_of_the_proxy() {
    let nft = std::process::Command::new("nft").arg("--version").output();
    if !nft.is_ok_and(|o| o.status.success()) {
        return Need::Nft.is_missing("there is no nft");
    }
    play("-Urnm", "proxy_names::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let bond = &apart.bond;
    sh("ip addr add 11.0.0.1/32 dev lo
        ip route add default via 10.9.0.2
        ip -6 route add default dev far0");
    apart.there(&["route add default via 10.9.0.1"]);
    // Look-ups that reach this host otherwise, and of the proxy elsewhere.
    let file = bond.file("leaks.nft");
    let table = "table inet leaks {
        counter leaks { }
        chain arriving {
            type filter hook prerouting priority -300;
            iifname \"far0\" meta l4proto { tcp, udp } th dport 53 counter name leaks
        }
        chain leaving {
            type filter hook output priority -300;
            oifname \"far0\" meta l4proto { tcp, udp } th dport 53 counter name leaks
        }
    }";
    std::fs::write(&file, table).unwrap();
    sh(&format!("nft -f {}", file.display()));
    // Of the proxy and of applications, which do not reach it themselves.
    std::fs::write(bond.file("resolv.conf"), "nameserver 11.0.0.1\n").unwrap();
    sh(&format!(
        "mount --bind {} /etc/resolv.conf",
        bond.file("resolv.conf").display()
    ));
    resolver();
    let mut text = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    text.push_str("[transparent]\n");
    std::fs::write(bond.file("primary.toml"), text).unwrap();
    let _proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    let both = |more: &str| {
        let found = apart.run_there(&format!("{more} getent ahosts dual.test || true"));
        found.contains("11.0.0.1") && found.contains("2600::1")
    };
    until("names are found", || both(""));
    until("names are found over TCP", || both("RES_OPTIONS=use-vc"));
    let leaks = sh("nft list counter inet leaks leaks");
    assert!(leaks.contains("packets 0 bytes 0"), "{leaks}");
}
