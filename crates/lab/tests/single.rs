//! A whole run of the lab without daemons: hosts, links, origin, curl, record
//! and packet log, with plain TCP both ways over one shaped link.
//!
//! Not a libtest harness: see `isolation.rs`. Nothing is asserted about time
//! beyond what the link models make impossible.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation is this test's message"
)]

use std::path::Path;
use std::process::ExitCode;

use mpbond_lab::experiment::Direction;
use mpbond_lab::{Error, RunOptions, run};
use mpbond_testing::Need;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/single.toml");
const BYTES: u64 = 512 << 10;
/// At 20 Mbit/s a bit takes 50 ns.
const NS_PER_BYTE: u64 = 400;

fn main() -> ExitCode {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("single.csv");
    let options = RunOptions {
        packet_log: Some(log.clone()),
        quiet: true,
        ..RunOptions::default()
    };
    let report = match run(Path::new(FILE), &options) {
        Ok(report) => report,
        Err(Error::Missing(why)) => {
            Need::Namespaces.is_missing(why);
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("failed: {e}");
            return ExitCode::FAILURE;
        }
    };

    let directions: Vec<Direction> = report.transfers.iter().map(|d| d.direction).collect();
    assert_eq!(directions, [Direction::Down, Direction::Up]);
    for d in &report.transfers {
        assert!(d.sha256_ok, "{d:?}");
        assert_eq!(d.bytes, BYTES);
        assert!(d.ratio > 1.0, "nothing beats the bound: {d:?}");
        assert_eq!(d.subflows.len(), 1);
        assert_eq!(d.subflows[0].bytes, BYTES);
    }
    assert_eq!(report.summary.len(), 2);
    for direction in ["down", "up"] {
        check_packets(&std::fs::read_to_string(&log).unwrap(), direction);
    }
    println!("plain TCP both ways: ok");
    ExitCode::SUCCESS
}

/// Whatever the machine's load, the log must show a link that carried the file
/// and sent no byte faster than its rate allows.
fn check_packets(log: &str, direction: &str) {
    let mut bytes = 0;
    let mut free_from = 0;
    for line in log.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        assert_eq!(columns.len(), 11, "{line}");
        if columns[3] != direction || !columns[10].is_empty() {
            continue;
        }
        let number = |column: usize| columns[column].parse::<u64>().unwrap();
        let (enqueued, departed, size) = (number(0), number(1), number(4));
        let earliest = enqueued.max(free_from) + size * NS_PER_BYTE;
        // Departures are rounded to the nanosecond.
        assert!(departed + 1 >= earliest, "{line}");
        assert_eq!(columns[2], "lte");
        assert_eq!(columns[7], "6", "only TCP crosses the link: {line}");
        free_from = departed;
        bytes += size;
    }
    assert!(bytes > BYTES, "{bytes} bytes {direction}");
}
