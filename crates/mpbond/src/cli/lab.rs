//! `mpbond lab`: experiments in network namespaces of their own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use mpbond_lab::player::Logs;
use mpbond_lab::report::{self, Sheet};
use mpbond_lab::{
    AccuracyRow, LINK_COUNTS, RecordingOptions, RunOptions, SPEEDS_MBPS, SimulateOptions,
};
use mpbond_sim::duration_text;
use mpbond_sim::trace::{Column, DistanceForm, RateUnit};

use super::failure::Failure;
use super::lab_chain::ChainArgs;
use super::lab_relay::RelayArgs;
use super::lab_report::ReportArgs;
use super::output::print;
use super::rows::Row;

/// Run experiments: hosts, links and daemons on this one machine.
///
/// Everything happens in network namespaces that vanish with the lab, however it ends. Root is
/// not needed where the kernel allows user namespaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab run experiments/demo.toml --json out.json
  mpbond lab simulate experiments/demo.toml --seeds 1000
  mpbond lab list experiments
  mpbond lab report out.json --html report.html
  mpbond lab shell experiments/demo.toml primary")]
pub(super) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Run(RunArgs),
    Simulate(SimulateArgs),
    List(ListArgs),
    Report(ReportArgs),
    Shell(ShellArgs),
    Chain(ChainArgs),
    Relay(RelayArgs),
    Origin(OriginArgs),
    PlayerAccuracy(PlayerAccuracyArgs),
    Recordings(RecordingsArgs),
    Distances(DistancesArgs),
}

/// Run an experiment file and print its table.
///
/// In real time, with real daemons; `lab simulate` takes the same file through virtual time.
///
/// Exit codes: 0 all asserts hold, 1 one does not or a transfer failed, 2 the file is wrong, 3
/// the machine lacks something, 4 nothing failed but the machine was too busy to judge.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab run experiments/demo.toml
  mpbond lab run experiments/bench-8-10-5.toml --repetitions 5 --scheme pams --json out.json")]
struct RunArgs {
    /// The experiment.
    #[arg(value_name = "FILE")]
    experiment: PathBuf,
    /// Write the record there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables and pictures there.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep the daemons' configurations and logs in this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Log every packet of every shaped link there, as CSV (docs/packet-log.md).
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Capture what every shaped link's near host sends and receives: LINK.pcap in this folder.
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// Keep results in this file, and do not repeat those that are in it.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// How often each scheme does each workload, instead of what the file says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: Option<u32>,
    /// Leave out repetitions, then workloads, until it should take no longer than that.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    at_most: Option<Duration>,
    /// Only schemes whose name contains this; may be repeated.
    #[arg(long = "scheme", value_name = "TEXT")]
    schemes: Vec<String>,
    /// Only workloads whose name contains this; may be repeated.
    #[arg(long = "workload", value_name = "TEXT")]
    workloads: Vec<String>,
    /// Test this mpbond program instead of the one that runs.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Neither progress nor table.
    #[arg(long, short)]
    quiet: bool,
}

/// Run an experiment file in virtual time: many seeds, no namespaces, no root.
///
/// The session that the daemons run lives over models of TCP and of the file's links. Each
/// repetition has a seed of its own, which draws losses, jitter and up to 1 ms of delay more for
/// each link; the same seed gives the same transfers. What needs the kernel or a real program
/// (kibbutz, COMBINE, videos, pages) is left out, and the output says so.
///
/// Exit codes: 0 all asserts hold, 1 one does not or a transfer failed, 2 the file is wrong or
/// nothing of it can be simulated.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab simulate experiments/bench-8-10-5.toml --seeds 1000 --json out.json
  mpbond lab simulate experiments/mpbond/fig04.toml --html fig04.html
  mpbond lab simulate experiments/demo.toml --first-seed 4711 --seeds 1    # that one again")]
struct SimulateArgs {
    /// The experiment.
    #[arg(value_name = "FILE")]
    experiment: PathBuf,
    /// How many seeds, instead of the repetitions that the file says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    #[arg(visible_alias = "repetitions")]
    seeds: Option<u32>,
    /// The first seed, instead of the file's own; the next ones follow it.
    #[arg(long, value_name = "SEED")]
    first_seed: Option<u64>,
    /// Write the record there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables and pictures there.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Only schemes whose name contains this; may be repeated.
    #[arg(long = "scheme", value_name = "TEXT")]
    schemes: Vec<String>,
    /// Only workloads whose name contains this; may be repeated.
    #[arg(long = "workload", value_name = "TEXT")]
    workloads: Vec<String>,
    /// Use so many threads; results do not depend on it. As many as processors when not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Neither progress nor table.
    #[arg(long, short)]
    quiet: bool,
}

/// List the experiments in a folder and the folders in it.
///
/// With their titles, about how long they take, whether all or part of them can be simulated, and
/// the figures of papers that they regenerate.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpbond lab list experiments")]
struct ListArgs {
    /// Where they are.
    #[arg(value_name = "FOLDER", default_value = "experiments")]
    folder: PathBuf,
}

/// Run a shell, or another program, in one host of an experiment.
///
/// Hosts, links and web server are made as for a run, but no daemon is started. What hosts there
/// are and their addresses is said first, on standard error. The exit code is the program's.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab shell experiments/demo.toml primary
  mpbond lab shell experiments/demo.toml primary -- curl -so /dev/null http://198.51.100.1/bytes/1048576")]
struct ShellArgs {
    /// The experiment.
    #[arg(value_name = "FILE")]
    experiment: PathBuf,
    /// The name of a host.
    #[arg(value_name = "HOST")]
    host: String,
    /// HOST=COMMAND: what else runs, and in which host, until the program ends; may be repeated.
    #[arg(long = "at", value_name = "HOST=COMMAND", value_parser = beside)]
    beside: Vec<(String, String)>,
    /// Log every packet of every shaped link there, as CSV (docs/packet-log.md).
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Capture what every shaped link's near host sends and receives: LINK.pcap in this folder.
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// The program and its arguments; $SHELL when none is given.
    #[arg(last = true, value_name = "CMD")]
    program: Vec<OsString>,
}

/// Serve files whose content is known: the lab's web server, for tests by hand.
///
/// GET /bytes/N gives N bytes, GET /sha256/N their digest; PUT /upload answers with the digest of
/// what it was sent. It serves until it is interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab origin --listen 127.0.0.1:8000
  curl --socks5-hostname 127.0.0.1:1080 http://127.0.0.1:8000/bytes/10485760 | sha256sum")]
struct OriginArgs {
    /// Where to.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Decides what the bytes are.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Measure how well emulated links keep their rate and delay on this machine.
///
/// Against the number of links at once and the speed of each, all kept full: how far off rate and
/// delay are, and how late packets were. Exit code 1 where a target is missed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab player-accuracy --json accuracy.json
  mpbond lab player-accuracy --links 8 --mbps 50,100 --both-ways")]
struct PlayerAccuracyArgs {
    /// How many links at once.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = LINK_COUNTS.map(|n| n as u32))]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16))]
    links: Vec<u32>,
    /// How fast each is, in Mbit/s.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = SPEEDS_MBPS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    mbps: Vec<u32>,
    /// Keep both directions full, not only the one down.
    #[arg(long)]
    both_ways: bool,
    /// Write the figures there, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Show what recorded links give, alone and together (MPBond, Figure 1).
///
/// Recordings are in Mahimahi's format, or tables of seconds and rates. Of each, and of every two
/// and three of them added up, the distribution of throughput is shown, and how much more it is
/// than the best and the worst of them alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab recordings Verizon-LTE-short.down TMobile-LTE-short.down ATT-LTE-driving-2016.down
  mpbond lab recordings --unit byte/s --bin 1s wifi.csv cellular.csv --json")]
struct RecordingsArgs {
    /// The recordings; 1 to 16.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where in them to begin.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    offset: Duration,
    /// How much of them to look at.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    length: Duration,
    /// Throughput is taken over this long each.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    bin: Duration,
    /// Unit of the rates in tables: bit/s, kbit/s, Mbit/s or byte/s.
    #[arg(long, default_value = "Mbit/s", value_parser = rate_unit)]
    unit: RateUnit,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Show what a pipe gave at which distance (MPBond, Figure 2).
///
/// Of tables with a line a measurement: its distance in metres, its rate, and where they say so the
/// condition that it was taken under, such as walls between the devices.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab distances walked.csv
  mpbond lab distances log.csv --distance receiverDist --rate nBytesReceived --unit byte/s")]
struct DistancesArgs {
    /// The tables.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The distances' column: its name in the first line, or its number from 1.
    #[arg(long, value_name = "COLUMN", default_value = "1", value_parser = column)]
    distance: Column,
    /// The rates' column.
    #[arg(long, value_name = "COLUMN", default_value = "2", value_parser = column)]
    rate: Column,
    /// The conditions' column, if there is one.
    #[arg(long, value_name = "COLUMN", value_parser = column)]
    condition: Option<Column>,
    /// Unit of the rates: bit/s, kbit/s, Mbit/s or byte/s.
    #[arg(long, default_value = "Mbit/s", value_parser = rate_unit)]
    unit: RateUnit,
    /// Metres that are taken together.
    #[arg(long, value_name = "METRES", default_value_t = 5.0)]
    step: f64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn beside(text: &str) -> Result<(String, String), String> {
    let (host, command) = text.split_once('=').ok_or("HOST=COMMAND is wanted")?;
    Ok((host.to_owned(), command.to_owned()))
}

fn duration(text: &str) -> Result<Duration, String> {
    duration_text::parse(text).map_err(|e| e.to_string())
}

fn rate_unit(text: &str) -> Result<RateUnit, String> {
    serde_json::from_value(text.into()).map_err(|_| "bit/s, kbit/s, Mbit/s or byte/s".to_owned())
}

fn column(text: &str) -> Result<Column, String> {
    match text.parse() {
        Ok(number) => Ok(Column::Number(number)),
        Err(_) if text.is_empty() || text == "0" => Err("a name, or a number from 1".to_owned()),
        Err(_) => Ok(Column::Name(text.to_owned())),
    }
}

fn failed(e: mpbond_lab::Error) -> Failure {
    Failure::with_code(&e, e.exit_code())
}

impl LabArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            LabCommand::Run(args) => args.run(),
            LabCommand::Simulate(args) => args.run(),
            LabCommand::List(args) => args.run(),
            LabCommand::Report(args) => args.run(),
            LabCommand::Shell(args) => {
                let logs = Logs {
                    packets: args.packet_log,
                    pcap: args.pcap,
                };
                mpbond_lab::shell(
                    &args.experiment,
                    &args.host,
                    &args.beside,
                    &logs,
                    &args.program,
                )
                .map(ExitCode::from)
                .map_err(failed)
            }
            LabCommand::Chain(args) => args.run(),
            LabCommand::Relay(args) => args.run(),
            LabCommand::Origin(args) => {
                mpbond_lab::origin(args.listen, args.seed).map_err(failed)?;
                Ok(ExitCode::SUCCESS)
            }
            LabCommand::PlayerAccuracy(args) => args.run(),
            LabCommand::Recordings(args) => args.run(),
            LabCommand::Distances(args) => args.run(),
        }
    }
}

impl RecordingsArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        let options = RecordingOptions {
            offset: self.offset,
            length: self.length,
            bin: self.bin,
            unit: self.unit,
        };
        let report = mpbond_lab::recordings(&self.files, &options).map_err(failed)?;
        if self.json {
            let text = serde_json::to_string_pretty(&report).map_err(Failure::run)?;
            print(&format!("{text}\n"))?;
        } else {
            print(&report.to_text())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl DistancesArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        let form = DistanceForm {
            distance: self.distance,
            rate: self.rate,
            condition: self.condition,
            unit: self.unit,
        };
        let report = mpbond_lab::distances(&self.files, &form, self.step).map_err(failed)?;
        if self.json {
            let text = serde_json::to_string_pretty(&report).map_err(Failure::run)?;
            print(&format!("{text}\n"))?;
        } else {
            print(&report.to_text())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl RunArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        if let Some(row) = Row::load(&self.experiment)? {
            let quick = self.at_most.is_some_and(|t| t < QUICK) || self.repetitions == Some(1);
            let kept = self.resume.as_deref().and_then(|file| row.kept(file));
            let sheet = match kept {
                Some(kept) => kept,
                None => row.measure(quick)?,
            };
            return row_told(&sheet, &self);
        }
        let options = RunOptions {
            json: self.json,
            html: self.html,
            out: self.out,
            packet_log: self.packet_log,
            pcap: self.pcap,
            resume: self.resume,
            repetitions: self.repetitions,
            at_most: self.at_most,
            schemes: self.schemes,
            workloads: self.workloads,
            binary: self.binary,
            quiet: self.quiet,
        };
        let report = mpbond_lab::run(&self.experiment, &options).map_err(failed)?;
        Ok(ExitCode::from(report.verdict().exit_code()))
    }
}

/// A measurement that is to take less is made with few repetitions.
const QUICK: Duration = Duration::from_secs(60);

fn row_told(sheet: &Sheet, args: &RunArgs) -> Result<ExitCode, Failure> {
    let write = |file: &Path, text: &str| {
        std::fs::write(file, text)
            .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", file.display())))
    };
    for file in [&args.json, &args.resume].into_iter().flatten() {
        let text = serde_json::to_string_pretty(sheet).map_err(Failure::run)?;
        write(file, &(text + "\n"))?;
    }
    if let Some(file) = &args.html {
        let sheets = std::slice::from_ref(sheet);
        let page = report::to_html_with(&sheet.title, &sheet.date, &[], sheets);
        write(file, &page)?;
    }
    if !args.quiet {
        print(&sheet.to_text())?;
    }
    Ok(ExitCode::from(sheet.verdict().exit_code()))
}

impl SimulateArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        let options = SimulateOptions {
            seeds: self.seeds,
            first_seed: self.first_seed,
            json: self.json,
            html: self.html,
            schemes: self.schemes,
            workloads: self.workloads,
            threads: self.threads.map(|n| n as usize),
            quiet: self.quiet,
        };
        let report = mpbond_lab::simulate(&self.experiment, &options).map_err(failed)?;
        Ok(ExitCode::from(report.verdict().exit_code()))
    }
}

impl ListArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        let list = mpbond_lab::list(&self.folder).map_err(Failure::input)?;
        print(&list)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl PlayerAccuracyArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        let report = {
            let links: Vec<usize> = self.links.iter().map(|n| *n as usize).collect();
            mpbond_lab::player_accuracy(&links, &self.mbps, self.both_ways).map_err(failed)?
        };
        if let Some(file) = &self.json {
            let text = serde_json::to_string_pretty(&report).map_err(Failure::run)?;
            std::fs::write(file, text + "\n")
                .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", file.display())))?;
        }
        print(&format!("{report}\n"))?;
        let all = report.rows.iter().all(AccuracyRow::holds);
        Ok(ExitCode::from(u8::from(!all)))
    }
}
