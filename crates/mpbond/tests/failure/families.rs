//! A proxy without IPv6: applications find no IPv6 addresses, and their connections to such
//! addresses are refused, in namespaces of the test's own.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

use crate::apart::Apart;
use crate::daemons::until;
use mpbond_testing::has_nft;
use mpbond_testing::names::{Query, resolv_conf, serve, serve_tcp};
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// The origin's addresses, and those of its name.
pub const V4: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
pub const V6: Ipv6Addr = Ipv6Addr::new(0x2600, 0, 0, 0, 0, 0, 0, 1);

#[test]
fn names_have_no_addresses_that_the_proxy_does_not_reach() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "families::role");
}

/// A resolver to which all names have both addresses.
pub fn resolver() {
    let answer = |query: &Query<'_>| Some(query.answer(&[V4.into(), V6.into()]));
    serve(V4, answer);
    serve_tcp(V4, answer);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    sh("ip addr add 11.0.0.1/32 dev lo
        ip addr add 2600::1/128 dev lo
        ip addr add fd00:9::1/64 dev far0 nodad
        ip route add default via 10.9.0.2");
    apart.there(&[
        "addr add fd00:9::2/64 dev near0 nodad",
        "route add default via 10.9.0.1",
        "-6 route add default via fd00:9::1",
    ]);
    let bond = &apart.bond;
    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replace("\"127.0.0.0/8\"", "[\"11.0.0.0/8\", \"2600::/16\"]");
    assert_ne!(text, more);
    std::fs::write(path, more).unwrap();
    let mut text = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    text.push_str("[transparent]\nresolvers = \"11.0.0.1\"\n");
    std::fs::write(bond.file("primary.toml"), text).unwrap();
    resolv_conf(&bond.file("resolv.conf"), "nameserver 9.9.9.9\n");
    resolver();
    let origin = TcpListener::bind("[::]:80").unwrap();
    std::thread::spawn(move || {
        for stream in origin.incoming() {
            let _ = stream.and_then(|mut s| s.write_all(b"hello"));
        }
    });
    let addresses = || apart.run_there("getent ahosts dual.test || true");
    let connect = |to: &str| {
        apart.run_there(&format!(
            "timeout 20 bash -c \"exec 3<>/dev/tcp/{to}/80 && head -c 5 <&3\" 2>&1 || true"
        ))
    };

    let proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    until("the name is found", || addresses().contains("11.0.0.1"));
    let found = addresses();
    assert!(!found.contains("2600::1"), "{found}");
    assert_eq!(connect("11.0.0.1"), "hello");
    let refused = connect("2600::1");
    assert!(!refused.contains("hello"), "{refused}");
    let status = bond.status("primary").unwrap();
    assert_eq!(status.proxy_lacks.as_deref(), Some("IPv6"));
    let doctor = format!(
        "{} doctor primary --config {} || true",
        env!("CARGO_BIN_EXE_mpbond"),
        bond.file("primary.toml").display()
    );
    let said = apart.run_there(&doctor);
    assert!(said.contains("the proxy has no route for IPv6"), "{said}");
    let at_proxy = || {
        let mpbond = env!("CARGO_BIN_EXE_mpbond");
        let config = bond.file("proxy.toml");
        sh(&format!(
            "{mpbond} doctor proxy --config {}",
            config.display()
        ))
    };
    let said = at_proxy();
    for line in ["IPv4 has a route", "no route for IPv6: connections to"] {
        assert!(said.contains(line), "{said}");
    }

    // With a route it has both.
    proxy.kill();
    sh("ip -6 route add default via fd00:9::2");
    let said = at_proxy();
    assert!(said.contains("IPv6 has a route"), "{said}");
    let _proxy = bond.start("proxy");
    until("both families are found", || {
        let found = addresses();
        found.contains("11.0.0.1") && found.contains("2600::1")
    });
    assert_eq!(connect("2600::1"), "hello");
    assert_eq!(bond.status("primary").unwrap().proxy_lacks, None);
}
