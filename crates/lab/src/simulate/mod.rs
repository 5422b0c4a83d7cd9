//! Experiments in virtual time: the same file as in real time, with the
//! session that the daemons run over models of TCP and of the links. What
//! needs the kernel or a real program is left out, and said.
//!
//! Each repetition has a seed, and a seed gives the same transfers, always.

mod account;
mod scope;
mod topology;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use mpbond_sim::world::{World, observe_plain};

pub(crate) use scope::{Scope, leave_out};

use crate::duration::in_words;
use crate::energy::Accountant;
use crate::error::{Error, Result};
use crate::experiment::{Carrier, Experiment};
use crate::record::{Download, RunReport, Simulated};
use crate::run::{self, RunOptions};
use crate::{link_progress, machine, paper, summary};
use account::Place;
use topology::Prepared;

/// Nothing is shown before a simulation has taken this long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between redraws on a terminal ...
const REDRAW: Duration = Duration::from_millis(250);
/// ... and between lines in a log.
const LINES: Duration = Duration::from_secs(5);

/// What a person may choose about a simulation.
#[derive(Debug, Clone, Default)]
pub struct SimulateOptions {
    /// How many seeds; the experiment's repetitions when not given.
    pub seeds: Option<u32>,
    /// The first one; the experiment's own when not given.
    pub first_seed: Option<u64>,
    /// Where the record is written, as JSON.
    pub json: Option<PathBuf>,
    /// Where a page of tables and pictures is written.
    pub html: Option<PathBuf>,
    /// Only schemes whose name contains one of these; all when empty.
    pub schemes: Vec<String>,
    /// Only workloads whose name contains one of these; all when empty.
    pub workloads: Vec<String>,
    /// Threads; as many as there are processors when not given. Results do
    /// not depend on it.
    pub threads: Option<usize>,
    /// No progress and no table.
    pub quiet: bool,
}

/// Simulates the experiment in the file at `path`, prints its table, writes
/// its record, and returns it.
///
/// # Errors
/// [`Error::Experiment`] for a wrong file, or one of which nothing can be
/// simulated; others when files cannot be read or written.
pub fn simulate(path: &Path, options: &SimulateOptions) -> Result<RunReport> {
    let choice = RunOptions {
        repetitions: options.seeds,
        schemes: options.schemes.clone(),
        workloads: options.workloads.clone(),
        ..RunOptions::default()
    };
    let (mut experiment, reduced) = run::chosen(path, &choice)?;
    let left_out = leave_out(&mut experiment);
    if experiment.schemes.is_empty() {
        return Err(Error::Experiment(format!(
            "{}: nothing of it can be simulated: {}",
            path.display(),
            left_out.join("; ")
        )));
    }
    let simulated = Simulated {
        first_seed: options.first_seed.unwrap_or(experiment.seed),
        seeds: experiment.repetitions,
        left_out,
    };
    let downloads = all_seeds(&experiment, &simulated, options)?;
    let e = &experiment;
    let summaries = summary::summaries(e, &downloads);
    let report = RunReport {
        experiment: e.name.clone(),
        title: e.title.clone(),
        date: machine::date(),
        commit: machine::commit(&e.path),
        kernel: String::new(),
        simulated: Some(simulated),
        asserts: summary::judge(e, &downloads, &summaries),
        summary: summaries,
        paper: paper::comparisons(e, &downloads),
        file: Some(e.text.clone()),
        ideal: link_progress::ideals(e)?,
        reduced,
        downloads,
    };
    run::hand_out(&report, options.json.as_deref(), options.html.as_deref())?;
    if !options.quiet {
        print!("{}", report.to_text(std::io::stdout().is_terminal()));
    }
    Ok(report)
}

/// Every world of every seed, in the order in which the lab would run them.
fn all_seeds(
    e: &Experiment,
    simulated: &Simulated,
    options: &SimulateOptions,
) -> Result<Vec<Download>> {
    let accountants = Accountant::all(e)?;
    let mut worlds = Vec::new();
    for scheme in &e.schemes {
        worlds.extend(topology::prepare(e, scheme)?);
    }
    let each: usize = worlds.iter().map(|world| world.parts.len()).sum();
    let work = Work {
        experiment: e,
        accountants: &accountants,
        worlds: &worlds,
        first_seed: simulated.first_seed,
        count: worlds.len() * simulated.seeds as usize,
        next: AtomicUsize::new(0),
    };
    let threads = options
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    let mut progress = Progress::new(options.quiet, each * simulated.seeds as usize);
    let mut results: Vec<Option<Vec<Download>>> = Vec::new();
    results.resize_with(work.count, || None);
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..threads.clamp(1, work.count.max(1)) {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work.take_turns(&sender));
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(REDRAW) {
                Ok((place, result)) => {
                    let downloads = result.inspect_err(|_| work.stop())?;
                    progress.add(downloads.len());
                    results[place] = Some(downloads);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress.show();
        }
        Ok::<(), Error>(())
    })?;
    progress.end();
    Ok(results.into_iter().flatten().flatten().collect())
}

/// What threads share.
struct Work<'a> {
    experiment: &'a Experiment,
    accountants: &'a [Accountant<'a>],
    worlds: &'a [Prepared<'a>],
    first_seed: u64,
    count: usize,
    next: AtomicUsize,
}

type Done = (usize, Result<Vec<Download>>);

impl Work<'_> {
    fn take_turns(&self, done: &Sender<Done>) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count || done.send((number, self.one(number))).is_err() {
                return;
            }
        }
    }

    /// Nothing more is begun.
    fn stop(&self) {
        self.next.store(self.count, Ordering::Relaxed);
    }

    fn one(&self, number: usize) -> Result<Vec<Download>> {
        let world = &self.worlds[number % self.worlds.len()];
        let repetition = number / self.worlds.len();
        let place = Place {
            repetition: repetition as u32,
            seed: self.first_seed.wrapping_add(repetition as u64),
        };
        let scenario = world.scenario(place.seed);
        let observed = match world.scheme.scheme {
            Carrier::Single => observe_plain(&scenario),
            _ => World::new(scenario).observe(),
        };
        account::downloads(self.experiment, self.accountants, world, place, &observed)
    }
}

/// How far it is, on the standard error stream.
struct Progress {
    quiet: bool,
    terminal: bool,
    all: usize,
    done: usize,
    started: Instant,
    shown: Instant,
}

impl Progress {
    fn new(quiet: bool, all: usize) -> Self {
        let now = Instant::now();
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            all,
            done: 0,
            started: now,
            shown: now,
        }
    }

    fn add(&mut self, transfers: usize) {
        self.done += transfers;
    }

    fn per_second(&self) -> f64 {
        self.done as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }

    fn show(&mut self) {
        let every = if self.terminal { REDRAW } else { LINES };
        if self.quiet || self.started.elapsed() < PATIENCE || self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let rate = self.per_second();
        let left = Duration::from_secs_f64((self.all - self.done) as f64 / rate.max(1e-3));
        let text = format!(
            "{} of {} transfers, {rate:.0} a second, {} left",
            self.done,
            self.all,
            in_words(left)
        );
        if self.terminal {
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{text}");
        }
    }

    /// What it came to, where anything was shown.
    fn end(&self) {
        if self.quiet || self.started.elapsed() < PATIENCE {
            return;
        }
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!(
            "{clear}{} transfers in {:.1} s: {:.0} a second",
            self.done,
            self.started.elapsed().as_secs_f64(),
            self.per_second()
        );
    }
}

#[cfg(test)]
mod tests;
