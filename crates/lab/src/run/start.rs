//! Running an experiment from beginning to end.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::Path;

use super::lab::Lab;
use super::options::RunOptions;
use super::output::hand_out;
use super::selection::{Chosen, chosen};
use crate::error::{Doing, Error, Result};
use crate::experiment::{Carrier, Scheme};
use crate::figures::print::print;
use crate::isolate::{Inside, Outside};
use crate::record::RunReport;
use crate::simulate::{SimulateOptions, simulate};
use crate::transfer::energy::Accountant;
use crate::{isolate, machine, machine_use, program};

/// Runs the experiment in the file at `path` in real time, prints its table, writes its record, and
/// returns it.
///
/// The calling program is run a second time with the same arguments; see [`isolate::isolated`].
///
/// # Errors
/// [`Error::Experiment`] for a wrong file, [`Error::Missing`] where the machine lacks something,
/// others when the run fails.
pub fn run(path: &Path, options: &RunOptions) -> Result<RunReport> {
    // Errors in the file or the machine are reported before anything runs.
    let Chosen {
        experiment,
        planned,
        reduced,
    } = chosen(path, options)?;
    if experiment.simulated {
        if options.part.is_some() {
            return Err(Error::Experiment(format!(
                "{}: runs in virtual time, as a whole: leave out --part",
                path.display()
            )));
        }
        return in_virtual_time(path, options);
    }
    machine::check(&experiment)?;
    Accountant::all(&experiment)?;
    let is_mpbond = |scheme: &Scheme| scheme.scheme == Carrier::Mpbond;
    if options.binary.is_none() && experiment.schemes.iter().any(is_mpbond) {
        program::mpbond()?;
    }
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out).at("make", out)?;
    }
    let run = |inside: &Inside| Lab::new(&experiment, options, inside)?.run_all();
    let mut outside = Outside::default();
    if experiment.whole_machine {
        outside.serve = Some(Box::new(machine_use::serve));
    }
    let mut report = isolate::isolated_with(outside, run)?;
    // With those of an earlier run that this one continues.
    let ran: BTreeSet<u32> = report.transfers.iter().map(|d| d.repetition).collect();
    let ran = ran.len();
    let fewer = (ran < planned as usize).then(|| format!("{ran} of {planned} repetitions"));
    let reduced: Vec<String> = fewer.into_iter().chain(reduced).collect();
    report.reduced = (!reduced.is_empty()).then(|| reduced.join("; "));
    // The table first, which is there where a file cannot be written, and the other way round.
    let printed = match options.quiet {
        true => Ok(()),
        false => print(&report.to_text(std::io::stdout().is_terminal())),
    };
    hand_out(&report, options.json.as_deref(), options.html.as_deref())?;
    printed?;
    Ok(report)
}

/// An experiment that runs in virtual time only, where a few seconds are enough.
fn in_virtual_time(path: &Path, options: &RunOptions) -> Result<RunReport> {
    simulate(
        path,
        &SimulateOptions {
            seeds: options.repetitions,
            json: options.json.clone(),
            html: options.html.clone(),
            schemes: options.schemes.clone(),
            workloads: options.workloads.clone(),
            quiet: options.quiet,
            ..SimulateOptions::default()
        },
    )
}
