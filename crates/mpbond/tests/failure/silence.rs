//! Silent paths: the proxy's host is gone without a word while the session is at rest, between
//! network namespaces of the test's own; a helper stands still during a download.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::apart::{Apart, HERE};
use crate::daemons::{Bond, Ways, download, origin, until};
use crate::restart::{HELLO, WITHIN_THREE_SECONDS, accept};
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn a_new_connection_goes_direct_within_three_seconds_of_a_cut_off_at_rest() {
    play("-Urnm", "silence::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let origin = listener.local_addr().unwrap();
    let _proxy = apart.bond.start("proxy");
    let primary = apart.start_primary();
    apart.bond.joined(1);
    sleep(Duration::from_secs(6));
    // Whatever comes over this link is dropped; the primary's end stays up.
    sh("ip addr del 10.9.0.1/24 dev far0");
    let asked = Instant::now();
    let mut app = apart.bond.connect(origin).unwrap();
    app.write_all(HELLO).unwrap();
    let mut at_origin = accept(&listener);
    let took = asked.elapsed();
    eprintln!("figure: cut off at rest, the first went direct after {took:?}");
    assert!(took < WITHIN_THREE_SECONDS, "{took:?} {}", primary.log());
    let mut heard = [0; HELLO.len()];
    at_origin.read_exact(&mut heard).unwrap();
    assert_eq!(heard, HELLO);
    primary.logs("no path to the proxy works: new connections go direct");
    assert_eq!(primary.log().matches(SILENT).count(), 1);
}

/// Line of a daemon, once a minute for each path.
const SILENT: &str = "path is silent: others take over";

/// Beginnings and ends of a helper's silences in a log, by subflow.
fn silences(log: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found = BTreeMap::<&str, Vec<&str>>::new();
    let of_helper = log.lines().filter(|l| l.contains("path=\"helper\""));
    for line in of_helper.filter(|l| l.contains(" path is ")) {
        let subflow = line.split_once("subflow=").unwrap().1;
        let subflow = subflow.split_once(' ').unwrap().0;
        found.entry(subflow).or_default().push(line);
    }
    found
}

/// The only path, so that all data is on it; the primary owes nothing, and does not replace it.
#[test]
fn a_silence_has_one_line_when_it_begins_and_one_with_its_length() {
    const LASTS: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let bond = Bond::new(Ways::Helper, "", "");
    let [proxy, helper, _primary] = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let _download = download(&bond, origin(), 1_000_000_000);
    let before = proxy.log().len();
    helper.signal(Signal::SIGSTOP);
    until("the path is silent", || {
        let log = proxy.log();
        let of_helper = silences(&log[before..]).into_values().flatten();
        { of_helper }.any(|l| l.contains("path is silent"))
    });
    sleep(LASTS);
    helper.signal(Signal::SIGCONT);
    let has_length = |line: &&str| {
        let after = line.split_once(" INFO path is back after ");
        let seconds = after.and_then(|(_, after)| after.split_once(" s "));
        let seconds = seconds.and_then(|(seconds, _)| seconds.parse::<f64>().ok());
        seconds.is_some_and(|s| (LASTS.as_secs_f64()..began.elapsed().as_secs_f64()).contains(&s))
    };
    until("the path is back", || {
        let log = proxy.log();
        silences(&log)
            .into_values()
            .flatten()
            .any(|l| has_length(&l))
    });
    let log = proxy.log();
    for lines in silences(&log).values() {
        for (n, line) in lines.iter().enumerate() {
            assert_eq!(line.contains("path is silent"), n % 2 == 0, "{log}");
        }
    }
    let reported = silences(&log).into_values().flatten();
    let reported = reported.filter(|l| l.contains(SILENT)).count() as u64;
    let most = 1 + began.elapsed().as_secs() / 60;
    assert!((1..=most).contains(&reported), "{log}");
}
