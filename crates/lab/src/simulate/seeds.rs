//! Runs the worlds of all seeds, on all processors.

use std::io::IsTerminal;
use std::path::Path;

use super::account::{self, Place};
use super::options::SimulateOptions;
use super::progress::Progress;
use super::topology::{self, Prepared};
use super::workers::on_all_processors;
use crate::error::{Error, Result};
use crate::experiment::{Experiment, leave_out};
use crate::figures::print::print;
use crate::figures::{oracle, paper, summary};
use crate::machine;
use crate::record::{RunReport, Simulated, Transfer};
use crate::run::{Chosen, RunOptions, chosen, hand_out};
use crate::transfer::energy::Accountant;
use crate::transfer::link_progress;

/// Simulates the experiment in the file at `path`, prints its table, writes its record, and returns
/// it.
///
/// # Errors
/// [`Error::Experiment`] for a wrong file, or one of which nothing can be simulated; others when
/// files cannot be read or written.
pub fn simulate(path: &Path, options: &SimulateOptions) -> Result<RunReport> {
    let choice = RunOptions {
        schemes: options.schemes.clone(),
        workloads: options.workloads.clone(),
        ..RunOptions::default()
    };
    let Chosen {
        mut experiment,
        reduced,
        ..
    } = chosen(path, &choice)?;
    if let Some(seeds) = options.seeds {
        experiment.repetitions = seeds.max(1);
    }
    let left_out = leave_out(&mut experiment);
    if experiment.schemes.is_empty() {
        return Err(Error::Experiment(format!(
            "{}: nothing can be simulated: {}",
            path.display(),
            left_out.join("; ")
        )));
    }
    let simulated = Simulated {
        first_seed: options.first_seed.unwrap_or(experiment.seed),
        seeds: experiment.repetitions,
        left_out,
    };
    let e = &experiment;
    // Those of its start: files may change while it runs.
    let (date, commit) = (machine::date(), machine::commit(&e.path));
    let transfers = all_seeds(e, &simulated, options)?;
    let summaries = summary::summaries(e, &transfers);
    let report = RunReport {
        experiment: e.name.clone(),
        title: e.title.clone(),
        date,
        commit,
        kernel: String::new(),
        simulated: Some(simulated),
        asserts: summary::judge(e, &transfers, &summaries),
        summary: summaries,
        paper: paper::comparisons(e, &transfers),
        file: Some(e.text.clone()),
        ideal: link_progress::ideals(e)?,
        reduced,
        transfers,
    };
    // The table first, which is there where a file cannot be written, and the other way round.
    let printed = match options.quiet {
        true => Ok(()),
        false => print(&report.to_text(std::io::stdout().is_terminal())),
    };
    hand_out(&report, options.json.as_deref(), options.html.as_deref())?;
    printed?;
    Ok(report)
}

/// Runs every world of every seed; results are in the order of a run in real time.
pub(super) fn all_seeds(
    e: &Experiment,
    simulated: &Simulated,
    options: &SimulateOptions,
) -> Result<Vec<Transfer>> {
    let accountants = Accountant::all(e)?;
    let mut worlds = Vec::new();
    for scheme in &e.schemes {
        worlds.extend(topology::prepare(e, scheme, &accountants)?);
    }
    let each: usize = worlds.iter().map(|world| world.parts.len()).sum();
    let work = Work {
        experiment: e,
        accountants: &accountants,
        worlds: &worlds,
        first_seed: simulated.first_seed,
    };
    let seeds = simulated.seeds as usize;
    let progress = Progress::new(options.quiet, each * seeds);
    let count = worlds.len() * seeds;
    let each = |number| work.one(number);
    let mut all = on_all_processors(count, options.threads, progress, each)?;
    oracle::compare(e, &mut all);
    Ok(all)
}

/// State shared by the threads.
struct Work<'a> {
    experiment: &'a Experiment,
    accountants: &'a [Accountant<'a>],
    worlds: &'a [Prepared<'a>],
    first_seed: u64,
}

impl Work<'_> {
    fn one(&self, number: usize) -> Result<Vec<Transfer>> {
        let world = &self.worlds[number % self.worlds.len()];
        let repetition = number / self.worlds.len();
        let place = Place {
            repetition: repetition as u32,
            seed: self.first_seed.wrapping_add(repetition as u64),
        };
        let observed = world.observe(place.seed);
        account::transfers(self.experiment, self.accountants, world, place, &observed)
    }
}
