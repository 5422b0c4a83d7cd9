//! `mpbond lab run`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond_command::Failure;
use mpbond_lab::{Part, RunOptions};
use mpbond_units::duration_text;
#[cfg(feature = "analysers")]
use {
    mpbond_command::print,
    mpbond_lab::measurements::{Measurement, Options},
    mpbond_lab::report,
    std::path::Path,
};

use super::failure::failed;
use super::outputs;

/// Run an experiment file and print its table.
///
/// In real time, with real daemons; `lab simulate` runs the same file in virtual time.
///
/// Exit codes: 0 all asserts hold, 1 one does not or a transfer failed, 2 the file is wrong, 3
/// the machine lacks something, 4 nothing failed but not all could be judged: the machine was too
/// busy, or --scheme or --workload leaves out what an assert compares with.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab run experiments/demo.toml
  mpbond lab run experiments/bench-8-10-5.toml --repetitions 5 --scheme mpbond --json out.json
  seq 4 | xargs -P 4 -I{} mpbond lab run a.toml --part {}/4 --resume a.{}.jsonl --quiet
  cat a.?.jsonl > a.jsonl
  mpbond lab run a.toml --resume a.jsonl --json a.json")]
pub(crate) struct RunArgs {
    /// The experiment.
    #[arg(value_name = "FILE")]
    experiment: PathBuf,
    /// Write the record to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables and charts to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep the daemons' configurations and logs in this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Log every packet of every shaped link to this file, as CSV (docs/packet-log.md).
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Capture the packets of every shaped link's near host: LINK.pcap in this folder.
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// Store results in this file, and do not repeat those in it.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Repetitions of each scheme and workload, instead of the file's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: Option<u32>,
    /// Further repetitions where some were disturbed, at most. By default half of the
    /// repetitions, and none with --at-most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=10_000))]
    further: Option<u32>,
    /// Only each N-th repetition, from the K-th on, and no further ones: parts may run side by
    /// side. A run with the results of all parts as --resume measures what is missing, and judges.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["further", "at_most"])]
    part: Option<Part>,
    /// Leave out repetitions, then workloads, until the estimated time is at most this.
    #[arg(long, value_name = "TIME", value_parser = duration_text::parse)]
    at_most: Option<Duration>,
    /// Only schemes whose name contains this; may be repeated.
    #[arg(long = "scheme", value_name = "TEXT")]
    schemes: Vec<String>,
    /// Only workloads whose name contains this; may be repeated.
    #[arg(long = "workload", value_name = "TEXT")]
    workloads: Vec<String>,
    /// The mpbond program under test. Otherwise the one beside this program, else in PATH.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Print neither progress nor table.
    #[arg(long, short)]
    quiet: bool,
}

impl RunArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        outputs::check([&self.json, &self.html, &self.packet_log, &self.resume])?;
        #[cfg(feature = "analysers")]
        if let Some(measurement) = Measurement::load(&self.experiment).map_err(failed)? {
            return self.measure(&measurement);
        }
        let options = RunOptions {
            json: self.json,
            html: self.html,
            out: self.out,
            packet_log: self.packet_log,
            pcap: self.pcap,
            resume: self.resume,
            repetitions: self.repetitions,
            further: self.further,
            part: self.part,
            at_most: self.at_most,
            schemes: self.schemes,
            workloads: self.workloads,
            binary: self.binary,
            quiet: self.quiet,
        };
        let report = mpbond_lab::run(&self.experiment, &options).map_err(failed)?;
        Ok(ExitCode::from(report.verdict().exit_code()))
    }

    #[cfg(feature = "analysers")]
    fn measure(self, measurement: &Measurement) -> Result<ExitCode, Failure> {
        if self.part.is_some() {
            return Err(Failure::input(format_args!(
                "{}: a measurement without transfers runs as a whole: leave out --part",
                self.experiment.display()
            )));
        }
        let options = Options {
            at_most: self.at_most,
            repetitions: self.repetitions,
            further: self.further,
            resume: self.resume,
        };
        let sheet = measurement.run(&options).map_err(failed)?;
        if let Some(file) = &self.json {
            let text = serde_json::to_string_pretty(&sheet).map_err(Failure::run)?;
            write(file, &(text + "\n"))?;
        }
        if let Some(file) = &self.html {
            let sheets = std::slice::from_ref(&sheet);
            let page = report::to_html_with(&sheet.title, &sheet.date, &[], sheets);
            write(file, &page)?;
        }
        if !self.quiet {
            print(&sheet.to_text())?;
        }
        Ok(ExitCode::from(sheet.verdict().exit_code()))
    }
}

#[cfg(feature = "analysers")]
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", file.display())))
}
