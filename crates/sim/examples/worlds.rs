//! Random worlds on all cores: how many a minute, the seeds of those that fail, and what the
//! applications felt in the others.
//!
//! `worlds [COUNT] [FIRST_SEED]`; `make simulate WORLDS=100000` is the long form. Progress goes to
//! standard error every ten seconds, a line for each failure and one summary to standard output.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mpbond_sim::world::{Outcome, Scenario, World};

/// What came of the worlds so far.
#[derive(Default)]
struct Tally {
    failed: Vec<u64>,
    packets: u64,
    virtual_s: f64,
    bytes: u64,
    redundant_bytes: u64,
    /// The longest time without a new byte while a route worked, and the world it was in.
    gaps: Vec<(Duration, u64)>,
}

impl Tally {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.packets += outcome.packets;
        self.virtual_s += outcome.ended.as_secs_f64();
        for stats in [&outcome.client, &outcome.server] {
            self.bytes += stats.bytes_in;
            self.redundant_bytes += stats.redundant_bytes_in;
        }
        self.gaps.push((outcome.longest_gap, seed));
    }

    fn gap(&self, share: f64) -> (f64, u64) {
        let last = self.gaps.len().saturating_sub(1);
        let at = (last as f64 * share) as usize;
        self.gaps
            .get(at)
            .map_or((0.0, 0), |(gap, seed)| (gap.as_secs_f64(), *seed))
    }

    fn summary(&mut self, count: u64, took: Duration) -> String {
        self.gaps.sort_unstable();
        self.failed.sort_unstable();
        let (longest, seed) = self.gap(1.0);
        let took = took.as_secs_f64();
        format!(
            "{count} worlds, {} failed {:?}, {:.0} worlds/minute; longest gap while a route \
             worked {longest:.1} s (seed {seed}), 99 % {:.2} s, median {:.2} s; redundant \
             {:.2} % of {:.1} GB; {} packets, {:.0} virtual hours in {took:.0} s",
            self.failed.len(),
            self.failed,
            count as f64 * 60.0 / took,
            self.gap(0.99).0,
            self.gap(0.5).0,
            100.0 * self.redundant_bytes as f64 / self.bytes.max(1) as f64,
            self.bytes as f64 / 1e9,
            self.packets,
            self.virtual_s / 3_600.0,
        )
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>());
    let (Ok(count), Ok(first)) = (
        args.next().unwrap_or(Ok(1_000)),
        args.next().unwrap_or(Ok(1)),
    ) else {
        eprintln!("usage: worlds [COUNT] [FIRST_SEED]");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let (next, done, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let world = next.fetch_add(1, Ordering::Relaxed);
                        if world >= count {
                            return;
                        }
                        let seed = first.wrapping_add(world);
                        live(seed, &tally);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let progress = scope.spawn(|| {
            loop {
                thread::park_timeout(Duration::from_secs(10));
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let done = done.load(Ordering::Relaxed);
                let rate = done as f64 * 60.0 / start.elapsed().as_secs_f64();
                eprintln!("{done} of {count} worlds, {rate:.0} a minute");
            }
        });
        for worker in workers {
            // A world that panics is told of by the panic itself, and below.
            let _ = worker.join();
        }
        over.store(true, Ordering::Relaxed);
        progress.thread().unpark();
    });
    let took = start.elapsed();
    let mut tally = tally
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{}", tally.summary(count, took));
    match tally.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn live(seed: u64, tally: &Mutex<Tally>) {
    let lived = std::panic::catch_unwind(|| World::new(Scenario::random(seed)).run());
    let mut tally = tally
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let failure = match lived {
        Ok(Ok(outcome)) => return tally.add(seed, &outcome),
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => "it panicked".to_owned(),
    };
    tally.failed.push(seed);
    println!(
        "seed {seed} (SIMULATION_SEED={seed} cargo test -p mpbond-sim --test worlds \
         random_worlds_end_well): {failure}"
    );
}
