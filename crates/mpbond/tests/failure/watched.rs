//! What watching costs a primary with thousands of open connections: with a page of `mpbond
//! console` open, its status is asked for once a second.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::daemons::{Bond, Daemon, Ways, origin};

/// Open connections: of the most that one program may have at a primary.
const STREAMS: usize = 3_000;

/// Time of each part.
const WATCHED: Duration = Duration::from_secs(20);

/// Maximum of the memory that watching costs between answers, and while one is made: a list of all
/// connections, as a whole, takes 1.5 MB.
const MAX_MORE_KB: u64 = 512;
const MAX_PEAK_MORE_KB: u64 = 1 << 10;

/// Resident memory now, and at its peak since [`forget_peak`].
fn resident_kb(daemon: &Daemon) -> [u64; 2] {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    ["VmRSS:", "VmHWM:"].map(|key| value_kb(&status, key))
}

/// Sets the peak of the resident memory to what it is now (proc_pid_clear_refs(5)).
fn forget_peak(daemon: &Daemon) {
    fs::write(format!("/proc/{}/clear_refs", daemon.id()), "5").unwrap();
}

fn value_kb(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|l| l.strip_prefix(key));
    let number = line.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

#[test]
#[ignore = "a measurement: 70 s"]
fn a_status_a_second_with_3000_connections_costs_half_a_mebibyte_and_a_whole_one_at_its_peak() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let _proxy = bond.start("proxy");
    let primary = bond.start("primary");
    bond.joined(1);
    // What the first question of all allocates is no part of it.
    let few = |what: &str, every: Duration| {
        forget_peak(&primary);
        let (before, began) = (primary.wakeups(), Instant::now());
        while began.elapsed() < WATCHED {
            sleep(every);
            if every < WATCHED {
                bond.status("primary").unwrap();
            }
        }
        let rate = (primary.wakeups() - before) as f64 / began.elapsed().as_secs_f64();
        let [resident, peak] = resident_kb(&primary);
        println!("figure: {what}: {resident} kB, peak {peak} kB, {rate:.2} wake-ups a second");
        [resident, peak]
    };
    few("nothing open", WATCHED);
    let open: Vec<_> = (0..STREAMS)
        .map(|_| bond.connect(origin).unwrap())
        .collect();
    sleep(Duration::from_secs(8));
    let [alone, _] = few("open connections", WATCHED);
    let [watched, peak] = few("open connections, watched", Duration::from_secs(1));
    few("open connections, after that", WATCHED);
    assert_eq!(open.len(), STREAMS);
    assert!(watched <= alone + MAX_MORE_KB, "{watched} kB after {alone}");
    assert!(
        peak <= alone + MAX_PEAK_MORE_KB,
        "peak {peak} kB after {alone}"
    );
}
