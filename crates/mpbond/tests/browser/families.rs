//! A site with addresses of both families, through a proxy that has no IPv6: the page is there,
//! since connections over IPv6 are refused before they are accepted.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::apart::Apart;
use crate::daemons::until;
use crate::in_namespaces;
use crate::name_server::{V4, V6};
use mpbond_testing::namespaces::{is_called_for, sh};
use mpbond_testing::{browser, has_nft};

#[test]
fn chromium_loads_a_dual_stack_site_at_once_through_a_proxy_without_ipv6() {
    if has_nft() {
        in_namespaces("families::role_redirect");
        in_namespaces("families::role_tproxy");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_redirect() {
    browse("redirect");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_tproxy() {
    browse("tproxy");
}

/// Answers every request at both addresses.
fn origin() {
    let listener = TcpListener::bind("[::]:80").unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4_096]);
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n";
                stream.write_all(format!("{head}<p>the page is here</p>").as_bytes())
            });
        }
    });
}

fn browse(mode: &str) {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let (bond, here) = (&apart.bond, apart.pid());
    // The proxy has no route for IPv6, the primary has.
    sh(&format!(
        "ip addr add {V4}/32 dev lo
         ip addr add {V6}/128 dev lo
         ip addr add 2602::1/64 dev far0 nodad
         ip link add world0 type veth peer name world1
         ip link set world0 up
         ip link set world1 up
         ip route add default dev world0"
    ));
    apart.there(&[
        "addr add 2602::2/64 dev near0 nodad",
        "route add default via 10.9.0.1",
        "-6 route add default via 2602::1",
    ]);
    let change = |file: &str, change: &dyn Fn(&str) -> String| {
        let path = bond.file(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, change(&text)).unwrap();
    };
    let allowed = format!("[\"{V4}\", \"{V6}\"]");
    change("proxy.toml", &|text| {
        text.replace("\"127.0.0.0/8\"", &allowed)
    });
    change("primary.toml", &|text| {
        format!("{text}[transparent]\nmode = \"{mode}\"\n")
    });
    // Addresses that were not looked up through the primary. Without an interface of its own,
    // connections have a public IPv6 address, which browsers try first.
    let hosts = bond.file("hosts");
    std::fs::write(&hosts, format!("{V6} dual.test\n{V4} dual.test\n")).unwrap();
    sh(&format!(
        "mount --bind {} /etc/hosts
         [ ! -e /dev/net/tun ] || mount --bind /dev/null /dev/net/tun",
        hosts.display()
    ));
    origin();
    let _proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    let lacks = bond.status("primary").unwrap().proxy_lacks;
    assert_eq!(lacks.as_deref(), Some("IPv6"));
    // Chromium takes the end of Duplicate Address Detection for a change of addresses.
    until("all addresses are ready", || {
        !apart.run_there("ip addr").contains("tentative")
    });
    let here = here.to_string();
    let there = ["nsenter", "-t", &here, "-n"];
    let page = browser::document(&there, bond.folder.path(), "http://dual.test/");
    assert!(page.contains("the page is here"), "{page}");
}
