//! What links share and how they fail, with real hosts: airtime, a radio, a
//! recording, a capture; and a link that goes down so that hosts see it.
//!
//! Not a libtest harness: see `isolation.rs`. Nothing is asserted about time
//! beyond what the link models make impossible.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation is this test's message"
)]

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mpbond_lab::experiment::{Direction, Experiment};
use mpbond_lab::player::{Clock, Logs, Player, TimedChange};
use mpbond_lab::{Error, Network, RunOptions, isolate, played_links, run};
use mpbond_sim::link::LinkChange;
use mpbond_testing::Need;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/shared.toml");
/// At 20 Mbit/s a bit takes 50 ns.
const NS_PER_BYTE: u64 = 400;
/// Promotion of the radio (Huang 2012), and the link's delay there and back.
const BEFORE_FIRST_BYTE: Duration = Duration::from_millis(260 + 20);

fn main() -> ExitCode {
    let done = if std::env::args().any(|a| a == "carrier") {
        // Keeps its descriptors open until the process ends.
        let inside = isolate::inside().unwrap();
        assert!(inside.is_some(), "only for the test itself");
        carrier_inside()
    } else {
        shared().and_then(|()| carrier())
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

type Check<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn shared() -> Check {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let log = folder.join("shared.csv");
    let pcap = folder.join("shared-pcap");
    let options = RunOptions {
        packet_log: Some(log.clone()),
        pcap: Some(pcap.clone()),
        quiet: true,
        ..RunOptions::default()
    };
    let report = run(Path::new(FILE), &options)?;
    let download = &report.transfers[0];
    assert!(download.sha256_ok, "{download:?}");
    let first = download.first_byte_s.unwrap();
    assert!(first >= BEFORE_FIRST_BYTE.as_secs_f64(), "{first}");
    // At the recording's first second it would be 1 Mbit/s.
    assert!(
        download.ideal_seconds < 0.3,
        "the bound knows the offset: {}",
        download.ideal_seconds
    );

    let log = std::fs::read_to_string(log)?;
    let (mut packets, mut sent_up) = (Vec::new(), 0);
    for line in log.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        sent_up += usize::from(columns[3] == "up");
        if columns[10].is_empty() {
            let number = |column: usize| columns[column].parse::<u64>().unwrap();
            packets.push((number(1), number(4), columns[3] == "up"));
        }
    }
    packets.sort_unstable();
    assert!(packets.iter().any(|p| p.2) && packets.iter().any(|p| !p.2));
    // One packet at a time is on the air, whichever way it goes.
    for pair in packets.windows(2) {
        let (before, (departed, bytes, _)) = (pair[0].0, pair[1]);
        // Departures are rounded to the nanosecond.
        assert!(departed + 2 >= before + bytes * NS_PER_BYTE, "{pair:?}");
    }

    let capture = std::fs::read(pcap.join("wifi.pcap"))?;
    let received = packets.iter().filter(|p| !p.2).count();
    let (captured_down, captured_up) = packets_of(&capture);
    assert_eq!(captured_down, received);
    // What is under way at the end was sent, but has no line in the log.
    assert!(
        (sent_up..sent_up + 10).contains(&captured_up),
        "{captured_up} {sent_up}"
    );
    println!("airtime, radio, recording and capture: ok");
    Ok(())
}

/// Packets of a pcap file from the origin and to it; each is whole.
fn packets_of(capture: &[u8]) -> (usize, usize) {
    let (mut down, mut up) = (0, 0);
    let mut rest = &capture[24..];
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let packet = &rest[16..16 + length];
        assert_eq!(packet[0] >> 4, 4);
        assert_eq!(u16::from_be_bytes([packet[2], packet[3]]) as usize, length);
        match &packet[12..16] {
            [198, 51, 100, 1] => down += 1,
            _ => up += 1,
        }
        rest = &rest[16 + length..];
    }
    (down, up)
}

fn carrier() -> Check {
    match isolate::rerun([OsString::from("carrier")])? {
        (0, _) => {
            println!("a link that says that it is down: ok");
            Ok(())
        }
        (code, _) => Err(format!("the inner process ended with {code}").into()),
    }
}

/// A connection over a link without a carrier is refused at once; over one
/// that is silently dead it only takes long.
fn carrier_inside() -> Check {
    let experiment = Experiment::load(Path::new(FILE))?;
    let mut network = Network::build(&experiment)?;
    network.set_congestion("reno")?;
    let links = played_links(&experiment, &mut network)?;
    let player = Player::start(links, Clock::start(), 1, &Logs::default())?;
    let primary = network.host("primary")?;
    let connect = |within| {
        let to = SocketAddr::from((Ipv4Addr::new(203, 0, 113, 1), 5000));
        primary.enter(|| TcpStream::connect_timeout(&to, within))
    };
    // Long enough for the radio and the link, and too short for both.
    let (long, short) = (Duration::from_secs(1), Duration::from_millis(20));
    let wait_for = |kind, within| -> Check {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let e = connect(within)?.unwrap_err();
            if e.kind() == kind {
                return Ok(());
            }
            assert!(Instant::now() < deadline, "{e} instead of {kind}");
        }
    };
    wait_for(ErrorKind::ConnectionRefused, long)?;

    let down = |carrier| {
        [Direction::Down, Direction::Up].map(|direction| TimedChange {
            at: Duration::ZERO,
            link: "wifi".into(),
            direction,
            change: LinkChange::down(),
            carrier: (direction == Direction::Down).then_some(carrier),
        })
    };
    player.begin(down(false).to_vec())?;
    let lost = Instant::now();
    wait_for(ErrorKind::NetworkUnreachable, short)?;
    let took = lost.elapsed();
    println!("unreachable {took:?} after the carrier was lost");
    player.begin(down(true).to_vec())?;
    wait_for(ErrorKind::TimedOut, short)?;
    player.begin(Vec::new())?;
    wait_for(ErrorKind::ConnectionRefused, long)?;
    player.stop()?;
    Ok(())
}
