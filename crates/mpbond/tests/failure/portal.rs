//! A captive portal on the primary's own link: it answers every TCP connection itself, with a
//! redirection to its page, and drops everything else until somebody has logged in. In namespaces
//! of the test's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::apart::Apart;
use crate::daemons::{Daemon, WITHIN, download, origin, until};
use mpbond_testing::has_nft;
use mpbond_testing::names::{self, resolv_conf, with_resolv_conf};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use nix::sys::signal::Signal;

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

#[test]
fn behind_a_captive_portal_an_intercepted_browser_finds_the_login_page_by_name() {
    role("portal::role_intercepted");
}

#[test]
fn a_reload_lets_an_intercepted_browser_log_in_where_nothing_goes_past_the_proxy() {
    role("portal::role_reload");
}

/// Address of all names before the login: of the portal's page, which is in no private network.
const PORTAL: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 8);

/// A primary that intercepts, with this policy, in a network whose resolver is the portal's; the
/// proxy has another one, by which all names have the address of [`SITE`].
fn intercepted(policy: &str) -> (Apart, Daemon, Daemon) {
    let policy = format!("on_proxy_loss = \"{policy}\"\n");
    let apart = Apart::with(&policy, "");
    let bond = &apart.bond;
    sh(&format!(
        "ip addr add {}/32 dev lo
         ip addr add {PORTAL}/32 dev lo
         ip route add default via 10.9.0.2",
        SITE.ip()
    ));
    apart.there(&["route add default via 10.9.0.1"]);
    let path = bond.file("primary.toml");
    let text = std::fs::read_to_string(&path).unwrap() + "[transparent]\n";
    std::fs::write(path, text).unwrap();
    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("\"127.0.0.0/8\"", "\"11.0.0.0/8\"");
    std::fs::write(path, text).unwrap();
    resolv_conf(&bond.file("resolv.conf"), "nameserver 10.9.0.1\n");
    let of_proxy = bond.file("proxy.resolv.conf");
    std::fs::write(&of_proxy, "nameserver 11.0.0.9\n").unwrap();
    let site = Ipv4Addr::new(11, 0, 0, 9);
    for (at, address) in [(Ipv4Addr::new(10, 9, 0, 1), PORTAL), (site, site)] {
        names::serve(at, move |query| Some(query.answer(&[address.into()])));
    }
    let listener = TcpListener::bind(SITE).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsite";
            let _ = stream.and_then(|mut s| {
                let _ = s.read(&mut [0; 1_024]);
                s.write_all(answer.as_bytes())
            });
        }
    });
    portal();
    // Its resolver answers; others are not reached.
    sh("nft insert rule ip portal rest iifname far0 ip daddr 10.9.0.1 udp dport 53 accept");
    let proxy = bond.start_by("proxy", &with_resolv_conf(&of_proxy));
    let primary = apart.start_primary();
    (apart, proxy, primary)
}

/// What an intercepted browser gets: the head of the answer and the page.
fn browse_by_name(apart: &Apart) -> String {
    apart.run_there("curl -sS -i -4 --max-time 20 http://site.example/ 2>&1 || true")
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_intercepted() {
    if !is_called_for() {
        return;
    }
    let (apart, _proxy, primary) = intercepted("direct");
    primary.logs("no path to the proxy works: new connections go direct");
    let page = browse_by_name(&apart);
    assert!(
        page.contains("Location: http://portal.example/login"),
        "{page}"
    );
    let found = apart.run_there("getent ahostsv4 portal.example");
    assert!(found.contains(&PORTAL.to_string()), "{found}");
    log_in();
    apart.bond.joined(1);
    // No connection to the portal's resolver is left.
    for _ in 0..3 {
        let page = browse_by_name(&apart);
        assert!(page.ends_with("site"), "{page}");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_reload() {
    if !is_called_for() {
        return;
    }
    let (apart, _proxy, primary) = intercepted("fail");
    primary.logs("no path to the proxy works: new connections are refused");
    let page = browse_by_name(&apart);
    assert!(page.contains("Could not resolve host"), "{page}");
    let set = |from: &str, to: &str| {
        let path = apart.bond.file("primary.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        primary.signal(Signal::SIGHUP);
        let applied = || apart.bond.status("primary").unwrap().on_proxy_loss;
        until("it applies", || applied().is_some_and(|p| to.contains(&p)));
    };
    set("\"fail\"", "\"direct\"");
    let page = browse_by_name(&apart);
    assert!(
        page.contains("Location: http://portal.example/login"),
        "{page}"
    );
    log_in();
    apart.bond.joined(1);
    set("\"direct\"", "\"fail\"");
    let page = browse_by_name(&apart);
    assert!(page.ends_with("site"), "{page}");
}
