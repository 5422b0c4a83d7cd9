//! A captive portal on the primary's own link: it answers every TCP connection itself, with a
//! redirection to its page, and drops everything else until somebody has logged in. In namespaces
//! of the test's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::apart::Apart;
use crate::daemons::{Daemon, WITHIN, download, origin, until};
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// A site of the Internet, which the portal stands in for.
const SITE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(11, 0, 0, 9)), 80);

const PAGE: &str = "HTTP/1.1 302 Found\r\nLocation: http://portal.example/login\r\n\
                    Content-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn a_path_behind_a_captive_portal_waits_while_others_carry_and_joins_after_the_login() {
    role("portal::role_beside_a_helper");
}

#[test]
fn behind_a_captive_portal_alone_a_browser_reaches_the_login_page() {
    role("portal::role_alone");
}

#[test]
fn behind_a_captive_portal_nothing_goes_past_the_proxy_where_that_is_wanted() {
    role("portal::role_refused");
}

fn role(name: &str) {
    if has_nft() {
        play("-Urnm", name);
    }
}

/// Starts the portal.
fn portal() {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            std::thread::spawn(move || serve(stream));
        }
    });
    sh(&format!(
        "nft add table ip portal
         nft add chain ip portal web '{{ type nat hook prerouting priority -100; }}'
         nft add rule ip portal web iifname far0 meta l4proto tcp redirect to :{port}
         nft add chain ip portal rest '{{ type filter hook prerouting priority -200; }}'
         nft add rule ip portal rest iifname far0 meta l4proto udp drop"
    ));
}

/// Redirects a browser; anything else than HTTP is closed.
fn serve(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(WITHIN));
    let mut request = [0; 1_024];
    let asked = stream.read(&mut request);
    if asked.is_ok_and(|n| request[..n].starts_with(b"GET ")) {
        let _ = stream.write_all(PAGE.as_bytes());
    }
}

/// Somebody logs in.
fn log_in() {
    sh("nft delete table ip portal");
}

/// What a browser gets from the site.
fn browse(apart: &Apart) -> Result<String, u8> {
    let mut s = apart.bond.connect(SITE)?;
    let mut page = String::new();
    s.write_all(b"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n")
        .unwrap();
    let _ = s.read_to_string(&mut page);
    Ok(page)
}

fn own_link(apart: &Apart) -> (String, Option<String>) {
    let links = apart.bond.status("primary").unwrap().links;
    let own = links.into_iter().find(|l| l.kind == "path").unwrap();
    (own.state, own.error)
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_beside_a_helper() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    portal();
    let origin = origin();
    let _proxy = apart.bond.start("proxy");
    let _helper = apart.start_helper();
    let _primary = apart.start_primary();
    apart.bond.joined(1);
    assert_eq!(
        download(&apart.bond, origin, 1_000_000).end().unwrap(),
        1_000_000
    );
    until("the reason is shown", || {
        let (state, error) = own_link(&apart);
        state != "up" && error.is_some()
    });
    let doctor = apart.run_there(&format!(
        "{} doctor primary --config {} || true",
        env!("CARGO_BIN_EXE_mpbond"),
        apart.bond.file("primary.toml").display()
    ));
    assert!(doctor.contains("a captive portal"), "{doctor}");
    log_in();
    apart.bond.joined(2);
}

/// A primary that has no other way.
fn alone(more: &str) -> (Apart, Daemon, Daemon) {
    let apart = Apart::with(more, "");
    apart.there(&["route add default via 10.9.0.1"]);
    portal();
    let (proxy, primary) = (apart.bond.start("proxy"), apart.start_primary());
    (apart, proxy, primary)
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_alone() {
    if !is_called_for() {
        return;
    }
    let (apart, _proxy, primary) = alone("");
    primary.logs("no path to the proxy works: new connections go direct");
    assert_eq!(browse(&apart).unwrap(), PAGE);
    log_in();
    apart.bond.joined(1);
    primary.logs("the proxy is reached again");
    assert!(apart.bond.works_within(Duration::from_secs(10), origin()));
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_refused() {
    if !is_called_for() {
        return;
    }
    let (apart, _proxy, primary) = alone("on_proxy_loss = \"fail\"");
    primary.logs("no path to the proxy works: new connections are refused");
    assert_eq!(browse(&apart), Err(3));
    log_in();
    apart.bond.joined(1);
}
