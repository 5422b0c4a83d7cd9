//! The lab's ground floor, without any daemon: hosts and a shaped link are
//! made, a TCP transfer crosses the link, and nothing is left afterwards,
//! however the lab ends.
//!
//! Not a libtest harness: the lab runs this very program again as the first
//! process of its namespaces.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation is this test's message"
)]

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use mpbond_lab::experiment::{Direction, Experiment};
use mpbond_lab::player::{Clock, Logs, PlayedLink, Player};
use mpbond_lab::{Error, Network, isolate, played_links};
use mpbond_testing::Need;

const EXPERIMENT: &str = r#"
name = "smoke"
[[host]]
name = "primary"
role = "primary"
[[host]]
name = "proxy"
role = "proxy"
address = "203.0.113.1"
[[host]]
name = "origin"
role = "origin"
address = "198.51.100.1"
[[link]]
name = "lte"
from = "primary"
to = "proxy"
down = "20 Mbit/s"
up = "20 Mbit/s"
delay = "10ms"
queue = "100ms"
[[link]]
name = "core"
from = "proxy"
to = "origin"
[[scheme]]
name = "plain"
scheme = "single"
[[workload]]
name = "2 MB"
direction = "down"
bytes = "2 MB"
"#;

const BYTES: usize = 2_000_000;
const RATE_BPS: f64 = 20e6;

type Check<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let inside = isolate::inside().unwrap();
    let hang = std::env::args().any(|a| a == "hang");
    let done = match inside {
        Some(inside) if hang => hang_inside(inside),
        Some(inside) => transfer_inside(inside),
        None if hang => outer("hang").map(drop),
        None => all(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => match e.downcast_ref::<Error>() {
            Some(Error::Missing(why)) => {
                Need::Namespaces.is_missing(why);
                ExitCode::SUCCESS
            }
            _ => {
                eprintln!("failed: {e}");
                ExitCode::FAILURE
            }
        },
    }
}

fn all() -> Check {
    let answer = outer("transfer")?;
    let spaces: HashSet<u64> = serde_json::from_slice(&answer)?;
    assert_eq!(spaces.len(), 4, "three hosts and the lab's own namespace");
    assert_none_left(&spaces);
    println!("transfer over a shaped link: ok, nothing left");

    // SIGKILL of the outer process, which can clean nothing up.
    let mut lab = Command::new(std::env::current_exe()?)
        .arg("hang")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(lab.stdout.take().unwrap()).read_line(&mut line)?;
    let spaces: HashSet<u64> = serde_json::from_str(&line)?;
    assert!(is_used(&spaces), "the lab that is about to be killed runs");
    lab.kill()?;
    lab.wait()?;
    assert_none_left(&spaces);
    println!("lab killed: ok, nothing left");
    Ok(())
}

fn outer(what: &str) -> Check<Vec<u8>> {
    let (code, answer) = isolate::rerun([OsString::from(what)])?;
    if code == 77 {
        let why = String::from_utf8_lossy(&answer).into_owned();
        return Err(Error::Missing(why).into());
    }
    if code != 0 {
        return Err(format!("the inner process ended with {code}").into());
    }
    Ok(answer)
}

fn build(inside: &mut isolate::Inside) -> Check<(Experiment, Network)> {
    let experiment = Experiment::parse("smoke.toml", EXPERIMENT)?;
    match Network::build(&experiment) {
        Ok(network) => Ok((experiment, network)),
        Err(Error::Missing(why)) => {
            inside.answer(why.as_bytes())?;
            std::process::exit(77)
        }
        Err(e) => Err(e.into()),
    }
}

fn transfer_inside(mut inside: isolate::Inside) -> Check {
    let (experiment, mut network) = build(&mut inside)?;
    network.set_congestion("reno")?;
    let links = played_links(&experiment, &mut network)?;
    let player = Player::start(links, Clock::start(), 1, &Logs::default())?;

    let proxy = network.host("proxy")?.clone();
    let listener = proxy.enter(|| TcpListener::bind((Ipv4Addr::new(203, 0, 113, 1), 5000)))??;
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.write_all(&vec![0x5a; BYTES])
    });
    let primary = network.host("primary")?;
    let (got, connecting, receiving) = primary.enter(|| -> std::io::Result<_> {
        let start = Instant::now();
        let mut stream = TcpStream::connect((Ipv4Addr::new(203, 0, 113, 1), 5000))?;
        let connecting = start.elapsed();
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        Ok((got, connecting, start.elapsed()))
    })??;
    sender.join().expect("sender panicked")?;

    assert_eq!(got.len(), BYTES);
    assert!(got.iter().all(|b| *b == 0x5a));
    assert!(
        connecting >= Duration::from_millis(20),
        "a round trip over the link takes 20 ms, not {connecting:?}"
    );
    let rate = BYTES as f64 * 8.0 / receiving.as_secs_f64();
    assert!(
        rate < RATE_BPS,
        "{rate} bit/s got through a link of {RATE_BPS}"
    );
    let stats = player.stats()?;
    let (_, _, down) = stats
        .iter()
        .find(|(_, direction, _)| *direction == Direction::Down)
        .expect("the link has a downward direction");
    assert!(
        down.departed_bytes > BYTES as u64,
        "all of it crossed the link"
    );
    let accounted = down.departed_packets + down.dropped_queue_full;
    let under_way = down.offered_packets.checked_sub(accounted);
    assert!(
        under_way.is_some_and(|n| n <= 4),
        "every packet is accounted for, but for a closing one under way: {down:?}"
    );
    assert_eq!(player.conditions()?.lost, 0);
    assert_eq!(network.device_drops(&BTreeSet::new())?, 0);
    player.stop()?;

    inside.answer(&serde_json::to_vec(&spaces(&network)?)?)?;
    Ok(())
}

fn hang_inside(mut inside: isolate::Inside) -> Check {
    let (experiment, mut network) = build(&mut inside)?;
    let links: Vec<PlayedLink> = played_links(&experiment, &mut network)?;
    let _player = Player::start(links, Clock::start(), 1, &Logs::default())?;
    // A daemon in a host must go as well.
    let _daemon = network
        .host("primary")?
        .command("sleep")
        .arg("600")
        .spawn()?;
    println!("{}", serde_json::to_string(&spaces(&network)?)?);
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

/// The network namespaces of the lab: one a host and its own.
fn spaces(network: &Network) -> Check<HashSet<u64>> {
    let own = || Ok::<_, std::io::Error>(std::fs::metadata("/proc/thread-self/ns/net")?.ino());
    let mut all = HashSet::from([own()?]);
    for name in ["primary", "proxy", "origin"] {
        all.insert(network.host(name)?.enter(own)??);
    }
    Ok(all)
}

/// Whether any process lives in one of `spaces`.
fn is_used(spaces: &HashSet<u64>) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        std::fs::metadata(process.path().join("ns/net")).is_ok_and(|m| spaces.contains(&m.ino()))
    })
}

fn assert_none_left(spaces: &HashSet<u64>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_used(spaces) {
        assert!(Instant::now() < deadline, "processes of the lab are left");
        std::thread::sleep(Duration::from_millis(10));
    }
}
