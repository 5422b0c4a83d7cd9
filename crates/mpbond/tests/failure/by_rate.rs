//! A program that goes between two links by its rate, over the API (MPBond section 4.4).

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use mpbond_testing::Need;
use mpbond_testing::namespaces::is_called_for;

use crate::daemons::until;
use crate::policy_paths::{Counters, play_with_counters, start_scheduled};

/// Rate from which on the fast link is used.
const LIMIT: u64 = 125_000;

#[test]
fn an_application_goes_between_two_links_by_its_rate() {
    if Command::new("python3").arg("--version").output().is_err() {
        return Need::Python.is_missing("python3 is not installed");
    }
    play_with_counters("by_rate::application");
}

/// Ended with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends at this rate until `done` holds.
fn send(stream: &mut TcpStream, bytes_per_s: u64, mut done: impl FnMut() -> bool) {
    const EVERY: Duration = Duration::from_millis(20);
    let limit = Instant::now() + Duration::from_secs(60);
    let part = vec![7; (bytes_per_s * EVERY.as_millis() as u64 / 1000) as usize];
    while !done() {
        assert!(Instant::now() < limit, "it stays on the other link");
        let next = Instant::now() + EVERY;
        stream.write_all(&part).unwrap();
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Sends at a rate until a link carries nearly all of it: `index` is that of the link.
fn send_until_carried_by(
    index: usize,
    counters: &Counters,
    stream: &mut TcpStream,
    bytes_per_s: u64,
) {
    let mut from = (Instant::now(), counters.links());
    send(stream, bytes_per_s, || {
        if from.0.elapsed() < Duration::from_secs(1) {
            return false;
        }
        let now = counters.links();
        let moved = [now[0] - from.1[0], now[1] - from.1[1]];
        from = (Instant::now(), now);
        // Acknowledgements and keep-alives go over the other one.
        moved[index] >= bytes_per_s / 2 && moved[1 - index] < moved[index] / 4
    });
}

#[test]
#[ignore = "a role of another test"]
fn application() {
    if !is_called_for() {
        return;
    }
    // Without the program both links carry bytes in turn.
    let (bond, counters, _daemons) = start_scheduled("round-robin", "", |_| ());
    let sink = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = sink.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = sink.accept().unwrap();
        while matches!(stream.read(&mut [0; 65536]), Ok(1..)) {}
    });
    let mut stream = bond.connect(to).unwrap();
    let before = counters.links();
    send(&mut stream, 4 * LIMIT, || {
        let now = counters.links();
        (0..2).all(|link| now[link] - before[link] > 200_000)
    });
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/by_rate.py");
    let mut python = Command::new("python3");
    python.arg(program).args(["own", "helper"]);
    python.args([
        &LIMIT.to_string(),
        bond.file("primary.api").to_str().unwrap(),
    ]);
    let mut program = Killed(python.env("PYTHONDONTWRITEBYTECODE", "1").spawn().unwrap());
    for (rate, link) in [(LIMIT / 4, 0), (4 * LIMIT, 1), (LIMIT / 4, 0)] {
        send_until_carried_by(link, &counters, &mut stream, rate);
    }
    // It ends with the primary, as its samples do.
    drop((stream, _daemons));
    until("the program ends", || {
        program.0.try_wait().unwrap().is_some()
    });
}
