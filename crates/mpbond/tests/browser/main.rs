//! Chromium on a primary whose links fail and return in turn: objects, messages, a video and new
//! connections arrive complete, and captures of all links have nothing but the tunnel. In
//! namespaces of the test's own.
//!
//! Links lose their carrier and keep their addresses: when an address of its host is added or
//! removed, Chromium closes its HTTP/2 connections (`ERR_NETWORK_CHANGED`), whether they work or
//! not.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod capture;
mod families;
mod name_server;
mod origin;
mod video;
mod websocket;

#[allow(dead_code)] // Shared with the tests of failures.
#[path = "../failure/apart.rs"]
mod apart;
#[allow(dead_code)]
#[path = "../failure/daemons.rs"]
mod daemons;

use std::fs::File;
use std::net::{IpAddr, SocketAddrV4};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use apart::{Apart, HERE};
use capture::{Capture, Hop};
use mpbond_testing::Need;
use mpbond_testing::browser::{self, Chromium};
use mpbond_testing::names::resolv_conf;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use name_server::{V4, V6};
use origin::{Origin, Progress};

/// Time for each step, which takes a second or two on an idle machine.
const WITHIN: Duration = Duration::from_secs(180);

#[test]
fn a_browser_over_socks5_does_not_notice_that_links_die() {
    in_namespaces("role_socks5");
}

#[test]
fn a_browser_over_the_http_proxy_does_not_notice_that_links_die() {
    in_namespaces("role_http");
}

#[test]
fn an_intercepted_browser_does_not_notice_that_links_die() {
    if let Err(e) = File::options().write(true).open("/dev/net/tun") {
        return Need::Namespaces.is_missing(format_args!("/dev/net/tun: {e}"));
    }
    let nft = Command::new("nft").arg("--version").output();
    if !nft.is_ok_and(|o| o.status.success()) {
        return Need::Nft.is_missing("there is no nft");
    }
    in_namespaces("role_redirect");
    in_namespaces("role_tproxy");
}

fn in_namespaces(role: &str) {
    // One browser at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match browser::is_missing() {
        Some(why) => Need::Chromium.is_missing(why),
        None => play("-Urnm", role),
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_socks5() {
    browse("", |apart| {
        format!("--proxy-server=socks5://{}", apart.bond.socks5)
    });
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_http() {
    browse("", |apart| {
        format!("--proxy-server=http://{}", apart.bond.http)
    });
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_redirect() {
    let transparent = "[transparent]\nmode = \"redirect\"\n";
    browse(transparent, |_| "--no-proxy-server".to_owned());
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_tproxy() {
    let transparent = "[transparent]\nmode = \"tproxy\"\n";
    browse(transparent, |_| "--no-proxy-server".to_owned());
}

/// A link, the path that depends on it, and lines of shell by which its far end goes and returns.
struct Link {
    name: &'static str,
    path: &'static str,
    goes: &'static str,
    returns: &'static str,
}

const LINKS: [Link; 3] = [
    Link {
        name: "own link",
        path: "own",
        goes: "ip link set far0 down",
        returns: "ip link set far0 up; ip addr add fd00:9::1/64 dev far0 nodad",
    },
    Link {
        name: "pipe",
        path: "helper",
        goes: "ip link set air0 down; ip link set air1 down",
        returns: "ip link set air0 up; ip link set air1 up",
    },
    Link {
        name: "link of the helper",
        path: "helper",
        goes: "ip link set hs0 down",
        returns: "ip link set hs0 up",
    },
];

/// Gives the primary routes for both families, the proxy access to both of the origin's addresses,
/// and all of them a name server at one of these. The pipe is led through a bridge, so that both of
/// its ends can lose their carrier.
fn set_up(apart: &Apart, more: &str) {
    let (primary, helper) = (apart.pid(), apart.helper_pid());
    sh(&format!(
        "nsenter -t {helper} -n ip link del pipe1
         ip link add air type bridge mcast_snooping 0
         ip link add air0 type veth peer name pipe0 netns {primary}
         ip link add air1 type veth peer name pipe1 netns {helper}
         for port in air0 air1; do ip link set $port master air; ip link set $port up; done
         ip link set air up
         nsenter -t {primary} -n ip addr add 10.6.0.1/24 dev pipe0
         nsenter -t {primary} -n ip link set pipe0 up
         nsenter -t {helper} -n ip addr add 10.6.0.2/24 dev pipe1
         nsenter -t {helper} -n ip link set pipe1 up
         ip addr add {V4}/32 dev lo
         ip addr add {V6}/128 dev lo
         ip addr add fd00:9::1/64 dev far0 nodad
         ip link add world0 type veth peer name world1
         ip link set world0 up
         ip link set world1 up
         ip route add default dev world0
         ip -6 route add default dev world0"
    ));
    apart.there(&[
        "addr add fd00:9::2/64 dev near0 nodad",
        "route add default via 10.9.0.1",
        "-6 route add default via fd00:9::1",
    ]);
    let bond = &apart.bond;
    // The links are as fast as the machine: other schedulers would hardly use the helper.
    let everywhere = "scheduler = \"round-robin\"\n";
    let change = |file: &str, change: &dyn Fn(&str) -> String| {
        let path = bond.file(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, everywhere.to_owned() + &change(&text)).unwrap();
    };
    let allowed = format!("[\"{V4}\", \"{V6}\"]");
    change("proxy.toml", &|text| {
        text.replace("\"127.0.0.0/8\"", &allowed)
    });
    change("primary.toml", &|text| text.to_owned() + more);
    resolv_conf(&bond.file("resolv.conf"), &format!("nameserver {V4}\n"));
    name_server::start();
}

/// Captures on all links of the primary and of the helper. On `app1`, towards other hosts, there is
/// no hop of the tunnel.
fn captures(apart: &Apart) -> [Capture; 4] {
    let (primary, helper) = (apart.pid(), apart.helper_pid());
    let hop = |client: [u8; 4], server: [u8; 4], port| {
        let server = SocketAddrV4::new(server.into(), port);
        Some(Hop {
            client: client.into(),
            server,
        })
    };
    let proxy = apart.bond.proxy.port();
    let own = hop([10, 9, 0, 2], [10, 9, 0, 1], proxy);
    let pipe = hop([10, 6, 0, 1], [10, 6, 0, 2], apart.bond.helper.port());
    let far = hop([10, 7, 0, 2], [10, 9, 0, 1], proxy);
    [
        Capture::start(primary, "near0", [10, 9, 0, 1].into(), own),
        Capture::start(primary, "pipe0", [10, 6, 0, 2].into(), pipe),
        Capture::start(primary, "app1", HERE, None),
        Capture::start(helper, "hs1", [10, 7, 0, 1].into(), far),
    ]
}

/// Whether a path of the primary works.
fn is_up(apart: &Apart, path: &str) -> bool {
    let status = apart.bond.status("primary").unwrap();
    let mut subflows = status.sessions.iter().flat_map(|s| &s.subflows);
    subflows.any(|f| f.name == path && f.state == "up")
}

/// The browser and its server.
struct Browsing<'a> {
    apart: &'a Apart,
    origin: Origin,
    browser: Chromium,
    since: Instant,
}

impl Browsing<'_> {
    /// Waits until something holds; fails when the browser has ended, or the page reports a fault.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&Progress) -> bool) {
        let deadline = Instant::now() + WITHIN;
        loop {
            let progress = self.origin.progress();
            if holds(&progress) {
                println!("{:.1} s: {what}", self.since.elapsed().as_secs_f64());
                return;
            }
            let ended = self.browser.has_ended();
            let is_late = Instant::now() > deadline;
            if ended.is_some() || is_late || !progress.faults.is_empty() {
                let status = self.apart.bond.status("primary");
                let log = self.browser.log();
                panic!("not so: {what}\n{log}\n{status:?}\n{progress:?}\n{ended:?}");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until everything has advanced: all objects, messages, places in the video that were
    /// asked for and found, and new connections to new names of each kind.
    fn goes_on(&mut self, when: &str) {
        let before = self.origin.progress();
        self.until(&format!("everything goes on {when}"), |p| {
            p.least >= before.least + 10_000
                && p.messages >= before.messages + 20
                && p.ranges > before.ranges
                && p.seeks >= before.seeks + 2
                && p.visits >= before.visits + 4
        });
    }
}

fn browse(more: &str, proxy: impl Fn(&Apart) -> String) {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let bond = &apart.bond;
    set_up(&apart, more);
    let captures = captures(&apart);
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    let _primary = apart.start_primary();
    bond.joined(2);
    // Chromium takes the end of Duplicate Address Detection for a change of addresses.
    daemons::until("all addresses are ready", || {
        !apart.run_there("ip addr").contains("tentative")
    });
    let (origin, key) = Origin::start();
    let primary = apart.pid().to_string();
    let args = [
        proxy(&apart),
        "--autoplay-policy=no-user-gesture-required".to_owned(),
        format!("--ignore-certificate-errors-spki-list={key}"),
        "https://one.test/".to_owned(),
    ];
    let there = ["nsenter", "-t", &primary, "-n"];
    let browser = Chromium::start(&there, bond.folder.path(), args);
    let mut browsing = Browsing {
        apart: &apart,
        origin,
        browser,
        since: Instant::now(),
    };
    browsing.goes_on("at first");

    for link in LINKS {
        let Link { name, path, .. } = link;
        sh(link.goes);
        browsing.until(&format!("the {name} is gone"), |_| !is_up(&apart, path));
        browsing.goes_on(&format!("without the {name}"));
        sh(link.returns);
        browsing.until(&format!("the {name} is back"), |_| {
            is_up(&apart, "own") && is_up(&apart, "helper")
        });
        browsing.goes_on(&format!("with the {name} again"));
    }

    browsing.origin.end();
    browsing.until("the page reports", |p| p.report.is_some());
    let progress = browsing.origin.progress();
    let report = progress.report.unwrap();
    let fewest = report.objects.iter().min();
    println!(
        "{fewest:?} octets of each object, {} messages, {} seeks, {} visits",
        report.sent, report.seeks, report.visits
    );
    assert!(progress.faults.is_empty(), "{:?}", progress.faults);
    let sent: Option<Vec<usize>> = progress.objects.into_iter().collect();
    assert_eq!(sent.as_ref(), Some(&report.objects));
    assert_eq!(
        (report.sent, report.echoed),
        (progress.messages, progress.messages)
    );
    // Connections of the proxy, which is on the origin's host.
    let clients: Vec<_> = progress.clients.into_iter().collect();
    assert_eq!(clients, [IpAddr::from(V4), V6.into()]);
    drop(browsing.browser);
    for capture in captures {
        let interface = capture.interface;
        assert_eq!(capture.leaks(), [""; 0], "on {interface}");
    }
}
