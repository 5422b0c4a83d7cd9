//! A service that is stopped while two of its processes serve: a service manager signals both, and
//! ends what is left as soon as the newer one has ended.

use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::daemons::{Bond, Upgraded, Ways, download, origin, until};

/// More than is sent before the end of this test.
const BYTES: u32 = 400_000_000;

fn runs(process: &Upgraded) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.process));
    let state = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(')')?;
        rest.trim_start().chars().next()
    });
    state.is_some_and(|state| state != 'Z')
}

#[test]
fn a_proxy_that_is_told_to_stop_ends_after_the_one_before_it() {
    let bond = Bond::new(Ways::Own, "", "stop_within = \"1h\"");
    let mut old = bond.start("proxy");
    let primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin(), BYTES);
    let new = bond.upgrade("proxy").unwrap();
    primary.logs("open connections stay with the session that retires");
    let tell = || {
        kill(Pid::from_raw(new.process as i32), Signal::SIGTERM).unwrap();
        old.signal(Signal::SIGTERM);
    };
    tell();
    old.logs("stopping");
    // What is open goes on, and nothing is open at the new one.
    thread::sleep(Duration::from_secs(2));
    assert!(!running.is_over() && runs(&new), "{}", new.log());
    // A second signal ends both.
    tell();
    assert!(old.ends().success());
    until("the new one has ended", || !runs(&new));
    assert!(running.end().is_err());
}
