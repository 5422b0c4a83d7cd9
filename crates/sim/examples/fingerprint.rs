//! Exact results of worlds, one line each, to compare two builds with `diff`.
//!
//! `fingerprint [--worlds N] [--first SEED] [--repeat N] [--rows TEXT]`
//!
//! First the rows of `figures`, N variants of each (9), then N random worlds (1,000). A line holds
//! times in nanoseconds, bytes, redundant bytes, what each route carried, and a digest of all
//! subflows' counters, estimates and states at every step of the world: two builds that print the
//! same lines took the same decisions at the same instants. A change that is to change nothing
//! prints the same before and after; one that is to change something shows by the lines what.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use mpbond_session::Session;
use mpbond_sim::rows;
use mpbond_sim::world::{Outcome, Scenario, World};
use mpbond_units::Timestamp;

struct Options {
    worlds: u64,
    first: u64,
    repeat: u32,
    rows: String,
}

fn options() -> Option<Options> {
    let mut options = Options {
        worlds: 1_000,
        first: 1,
        repeat: 9,
        rows: String::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next()?;
        match arg.as_str() {
            "--worlds" => options.worlds = value.parse().ok()?,
            "--first" => options.first = value.parse().ok()?,
            "--repeat" => options.repeat = value.parse().ok()?,
            "--rows" => options.rows = value,
            _ => return None,
        }
    }
    Some(options)
}

/// A world with the name of its line.
struct Named {
    name: String,
    scenario: Scenario,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: fingerprint [--worlds N] [--first SEED] [--repeat N] [--rows TEXT]");
        return ExitCode::from(2);
    };
    let figures = rows::all()
        .into_iter()
        .filter(|row| row.label.contains(&options.rows))
        .flat_map(|row| {
            (0..options.repeat).map(move |variant| Named {
                name: format!("{} #{variant}", row.label.trim()),
                scenario: row.scenario.clone().varied(variant),
            })
        });
    print_all(&figures.collect::<Vec<_>>());
    let seeds = options.first..options.first.saturating_add(options.worlds);
    let random = seeds.map(|seed| {
        let scenario = Scenario::random(seed);
        let (client, server) = (&scenario.client, &scenario.server);
        Named {
            name: format!(
                "world {seed} {}/{} {:?}/{:?}",
                client.scheduler, server.scheduler, client.feedback, server.feedback
            ),
            scenario,
        }
    });
    print_all(&random.collect::<Vec<_>>());
    ExitCode::SUCCESS
}

/// Runs worlds on all cores and prints their lines in order.
fn print_all(worlds: &[Named]) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let lines = Mutex::new(vec![None; worlds.len()]);
    let printed = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((i, world)) = take(&next, worlds) {
                    let line = line(world);
                    let mut printed = lock(&printed);
                    let mut lines = lock(&lines);
                    lines[i] = Some(line);
                    while let Some(line) = lines.get_mut(*printed).and_then(Option::take) {
                        println!("{line}");
                        *printed += 1;
                    }
                }
            });
        }
    });
}

fn take<'a>(next: &AtomicU64, worlds: &'a [Named]) -> Option<(usize, &'a Named)> {
    let i = next.fetch_add(1, Ordering::Relaxed) as usize;
    Some((i, worlds.get(i)?))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn line(world: &Named) -> String {
    let mut digest = DefaultHasher::new();
    let outcome = World::new(world.scenario.clone()).run_watched(|now, primary, proxy| {
        now.as_nanos().hash(&mut digest);
        for session in [primary, proxy].into_iter().flatten() {
            add(&mut digest, now, session);
        }
    });
    match outcome {
        Ok(outcome) => format!(
            "{}: {} digest {:016x}",
            world.name,
            results(&outcome),
            digest.finish()
        ),
        Err(failure) => format!("{}: FAILED {failure}", world.name),
    }
}

/// Adds the state of one end to a digest.
fn add(digest: &mut DefaultHasher, now: Timestamp, session: &Session) {
    let stats = session.stats();
    [
        stats.bytes_in,
        stats.bytes_out,
        stats.redundant_bytes_in,
        stats.copies_out.total(),
        stats.reinjected_bytes_out,
        stats.streams_open,
        stats.streams_total,
        stats.cuts,
        session.unscheduled_bytes(),
        session.held_bytes(),
        session.unread_bytes(),
    ]
    .hash(digest);
    session.poll_timeout().map(Timestamp::as_nanos).hash(digest);
    for s in session.subflows(now) {
        s.id.hash(digest);
        (s.state as u8).hash(digest);
        [
            s.bytes_in,
            s.bytes_out,
            s.redundant_bytes_out,
            s.b_near_bytes,
            s.b_far_bytes,
        ]
        .hash(digest);
        (s.pad, s.rtt, s.throughput, s.far_throughput).hash(digest);
    }
}

/// Results of a world that ended as it should.
fn results(outcome: &Outcome) -> String {
    let mut line = format!(
        "ended {} packets {} joins {} gap {}",
        outcome.ended.as_nanos(),
        outcome.packets,
        outcome.joins,
        outcome.longest_gap.as_nanos()
    );
    for (end, stats) in [("primary", &outcome.client), ("proxy", &outcome.server)] {
        let _ = write!(
            line,
            " {end} in {} twice {} out {} twice {} reinjected {} cuts {}",
            stats.bytes_in,
            stats.redundant_bytes_in,
            stats.bytes_out,
            stats.copies_out.total(),
            stats.reinjected_bytes_out,
            stats.cuts
        );
    }
    for x in &outcome.exchanges {
        let _ = write!(
            line,
            " | took {} stall {} down {} up {} redundant {}",
            x.took.map_or(0, |t| t.as_nanos()),
            x.longest_stall.as_nanos(),
            x.down_bytes,
            x.up_bytes,
            x.redundant_bytes
        );
        for share in &x.shares {
            let finished = share.finished.map_or(0, |t| t.as_nanos());
            let _ = write!(line, " {} {} until {finished}", share.route, share.bytes);
        }
    }
    line
}
