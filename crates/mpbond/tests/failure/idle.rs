//! Daemons that have nothing to do: no packets, and hardly a wake-up. Between network namespaces of
//! the test's own.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::apart::Apart;
use crate::daemons::{Daemon, download, origin};
use mpbond_testing::namespaces::{is_called_for, play};

/// Questions of a primary that waits and the last reports of a helper are over by then.
const SETTLED: Duration = Duration::from_secs(8);

const WATCHED: Duration = Duration::from_secs(60);

#[test]
fn joined_daemons_with_a_helper_send_nothing_for_a_minute_and_sleep() {
    play("-Urnm", "idle::role");
}

/// IPv4 packets sent in the network namespace of a daemon.
fn packets(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/net/snmp", daemon.id())).unwrap();
    let mut ip = text.lines().filter_map(|l| l.strip_prefix("Ip: "));
    let (names, values) = (ip.next().unwrap(), ip.next().unwrap());
    let mut fields = names.split(' ').zip(values.split(' '));
    let sent = fields.find(|(name, _)| *name == "OutRequests").unwrap().1;
    sent.parse().unwrap()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let origin = origin();
    let proxy = apart.bond.start("proxy");
    let helper = apart.start_helper();
    let primary = apart.start_primary();
    apart.bond.joined(2);
    // Both paths carry some of it.
    let carried = download(&apart.bond, origin, 1_000_000).end().unwrap();
    assert_eq!(carried, 1_000_000);
    sleep(SETTLED);
    let daemons = [
        ("proxy", &proxy),
        ("helper", &helper),
        ("primary", &primary),
    ];
    let look = || daemons.map(|(_, d)| (packets(d), d.wakeups()));
    let (before, began) = (look(), Instant::now());
    sleep(WATCHED);
    let after = look();
    let seconds = began.elapsed().as_secs();
    for (i, (name, daemon)) in daemons.iter().enumerate() {
        let sent = after[i].0 - before[i].0;
        let wakeups = after[i].1 - before[i].1;
        eprintln!("figure: {name}, idle for {seconds} s: {sent} packets, {wakeups} wake-ups");
        assert_eq!(sent, 0, "{name} sends:\n{}", daemon.log());
        assert!(wakeups < seconds, "{name} wakes up {wakeups} times");
    }
    // The session is still there.
    apart.bond.joined(2);
    assert!(apart.bond.works(origin), "{}", primary.log());
}
