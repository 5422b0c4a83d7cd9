//! Sessions that retire: their proxy takes no new streams, and serves what is open.

use std::io::{ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::daemons::{Bond, Daemon, Ways, download, origin, until};

const MB: u32 = 1_000_000;

/// Whether the primary has a session in this state.
fn has(bond: &Bond, state: &str) -> bool {
    let status = bond.status("primary").unwrap();
    status.sessions.iter().any(|s| s.state == state)
}

/// It has closed its port, and waits for the connections that are open.
fn leaves(proxy: &Daemon) {
    proxy.signal(Signal::SIGTERM);
    proxy.logs("stopping");
}

#[test]
fn a_proxy_that_is_told_to_stop_serves_what_is_open_while_the_next_one_serves_new_connections() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "stop_within = \"5min\"");
    let mut proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(2);
    let running = download(&bond, origin, 60 * MB);
    leaves(&proxy);
    let _next = bond.start_next("proxy");
    primary.logs("the other end takes no new streams");
    until("another session is up", || has(&bond, "up"));
    assert!(bond.works(origin), "{}", primary.log());
    let taken = bond.status("next").unwrap();
    assert!(
        !taken.transfers.is_empty(),
        "it took another way: {taken:#?}"
    );
    assert!(has(&bond, "retiring"), "{}", primary.log());
    assert!(!running.is_over());
    assert_eq!(running.end().unwrap(), 60 * MB as usize);
    assert!(proxy.ends().success());
    assert!(
        !proxy.log().contains("still open, and are reset"),
        "{}",
        proxy.log()
    );
    until("nothing is left of it", || !has(&bond, "retiring"));
    bond.joined(2);
}

#[test]
fn a_proxy_without_open_connections_stops_at_once() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "stop_within = \"1h\"");
    let mut proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    assert!(bond.works(origin));
    let told = Instant::now();
    assert!(proxy.stop().success());
    eprintln!("figure: it stopped within {:?}", told.elapsed());
}

#[test]
fn a_second_signal_ends_a_proxy_that_waits() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "stop_within = \"1h\"");
    let mut proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 200 * MB);
    leaves(&proxy);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!running.is_over());
    assert!(proxy.stop().success());
    let told = Instant::now();
    let broken = running.end().unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
    // Not after `resume_for`, a minute: the primary knows.
    assert!(told.elapsed() < Duration::from_secs(30));
}

/// Sessions that a primary keeps while they retire.
const RETIRING: usize = 4;

#[test]
fn a_primary_keeps_four_sessions_that_retire_and_gives_up_the_oldest() {
    let origin = origin();
    let bond = Bond::new(
        Ways::Own,
        "on_proxy_loss = \"fail\"",
        "stop_within = \"1h\"",
    );
    let primary = bond.start("primary");
    let mut proxies = Vec::new();
    let mut open = Vec::new();
    for n in 0..=RETIRING {
        let proxy = bond.start_named("proxy", &format!("proxy{n}"));
        until("the session is up", || {
            let sessions = bond.status("primary").unwrap().sessions;
            let states: Vec<&str> = sessions.iter().map(|s| s.state.as_str()).collect();
            states.contains(&"up") && states.len() == n + 1
        });
        let mut app = bond.connect(origin).unwrap();
        app.write_all(&[0]).unwrap();
        let is_open = || bond.status(&format!("proxy{n}")).unwrap().sessions[0].streams_open;
        until("it has reached the proxy", || is_open() == 1);
        open.push(app);
        leaves(&proxy);
        proxies.push(proxy);
    }
    primary.logs("too many sessions retire");
    let mut open = open.into_iter();
    let mut oldest = open.next().unwrap();
    let error = oldest.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // The rest of what they ask for, a single byte, and that byte.
    for mut app in open {
        app.write_all(&[0, 0, 1]).unwrap();
        assert_eq!(app.read(&mut [0xff; 1]).unwrap(), 1);
    }
}
