//! Look-ups of intercepted applications, answered by the resolvers of the proxy, or of the local
//! network: in namespaces of the test's own.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use crate::apart::Apart;
use crate::daemons::until;
use crate::families::resolver;
use mpbond_testing::has_nft;
use mpbond_testing::names::{resolv_conf, serve, with_resolv_conf};
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn names_are_looked_up_by_the_resolvers_of_the_proxy() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "proxy_names::role");
}

/// Address of all names in the local network.
const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 77);

/// A resolver of the local network; the names that it is asked for.
fn local_resolver() -> Arc<Mutex<Vec<String>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&asked);
    serve([10, 9, 0, 1].into(), move |query| {
        names.lock().unwrap().push(query.name());
        Some(query.answer(&[LOCAL.into()]))
    });
    asked
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
            iifname \"far0\" ip daddr 10.9.0.1 udp dport 53 accept
            iifname \"far0\" meta l4proto { tcp, udp } th dport 53 counter name leaks
        }
        chain leaving {
            type filter hook output priority -300;
            oifname \"far0\" meta l4proto { tcp, udp } th dport 53 counter name leaks
        }
    }";
    std::fs::write(&file, table).unwrap();
    sh(&format!("nft -f {}", file.display()));
    let of_proxy = bond.file("proxy.resolv.conf");
    std::fs::write(&of_proxy, "nameserver 11.0.0.1\n").unwrap();
    let text = "nameserver 10.9.0.1\nsearch test\n";
    resolv_conf(&bond.file("resolv.conf"), text);
    resolver();
    let asked = local_resolver();
    let mut text = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    text.push_str("[transparent]\n");
    std::fs::write(bond.file("primary.toml"), text).unwrap();
    let _proxy = bond.start_by("proxy", &with_resolv_conf(&of_proxy));
    let _primary = apart.start_primary();
    bond.joined(1);
    let both = |more: &str| {
        let found = apart.run_there(&format!("{more} getent ahosts dual.test || true"));
        found.contains("11.0.0.1") && found.contains("2600::1")
    };
    until("names are found", || both(""));
    until("names are found over TCP", || both("RES_OPTIONS=use-vc"));
    let is_local = |name: &String| name.ends_with(".lan") || name == "wiki";
    for name in ["printer.lan", "wiki."] {
        until("local names are found", || {
            let found = apart.run_there(&format!("getent ahosts {name} || true"));
            found.contains(&LOCAL.to_string())
        });
    }
    let asked = asked.lock().unwrap();
    assert!(asked.iter().all(is_local), "{asked:?}");
    let leaks = sh("nft list counter inet leaks leaks");
    assert!(leaks.contains("packets 0 bytes 0"), "{leaks}");
}
