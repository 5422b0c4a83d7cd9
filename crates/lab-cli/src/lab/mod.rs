//! `mpbond lab`: experiments in network namespaces of their own.

#[cfg(feature = "analysers")]
mod ablation;
mod chain;
mod failure;
mod outputs;
mod relay;
mod report;
mod run;
#[cfg(feature = "analysers")]
mod survey;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use mpbond_command::{Failure, print};
use mpbond_lab::player::Logs;
use mpbond_lab::{AccuracyRow, LINK_COUNTS, RecordingOptions, SPEEDS_MBPS, SimulateOptions};
use mpbond_sim::trace::{Column, DistanceForm, RateUnit};
use mpbond_units::duration_text;
use serde::Serialize;

pub(crate) use self::failure::failed;

/// Run experiments: hosts, links and daemons on this one machine.
///
/// Everything runs in network namespaces, which are removed however the lab ends. Root is not
/// needed where the kernel allows user namespaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab run experiments/demo.toml --json out.json
  mpbond lab simulate experiments/demo.toml --seeds 1000
  mpbond lab list experiments
  mpbond lab report out.json --html report.html
  mpbond lab shell experiments/demo.toml primary")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Run(run::RunArgs),
    Simulate(SimulateArgs),
    #[cfg(feature = "analysers")]
    Survey(survey::SurveyArgs),
    #[cfg(feature = "analysers")]
    Ablation(ablation::AblationArgs),
    List(ListArgs),
    Report(report::ReportArgs),
    Shell(ShellArgs),
    Chain(chain::ChainArgs),
    Relay(relay::RelayArgs),
    Origin(OriginArgs),
    PlayerAccuracy(PlayerAccuracyArgs),
    Recordings(RecordingsArgs),
    Distances(DistancesArgs),
}

/// Run an experiment file in virtual time: many seeds, no namespaces, no root.
///
/// The daemons' session code runs over models of TCP and of the file's links. Each repetition has
/// its own seed for losses, jitter and up to 1 ms of additional delay on each link; the same seed
/// gives the same transfers. Schemes and workloads that need the kernel or a real program (kibbutz,
/// COMBINE) are left out, and the output lists them.
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
    /// Number of seeds, instead of the file's repetitions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    #[arg(visible_alias = "repetitions")]
    seeds: Option<u32>,
    /// The first seed, instead of the file's own; the next ones follow it.
    #[arg(long, value_name = "SEED")]
    first_seed: Option<u64>,
    /// Write the record to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables and charts to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Only schemes whose name contains this; may be repeated.
    #[arg(long = "scheme", value_name = "TEXT")]
    schemes: Vec<String>,
    /// Only workloads whose name contains this; may be repeated.
    #[arg(long = "workload", value_name = "TEXT")]
    workloads: Vec<String>,
    /// Number of threads, which does not change results. One per processor when not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print neither progress nor table.
    #[arg(long, short)]
    quiet: bool,
}

/// List the experiments in a folder and its subfolders.
///
/// With their titles, estimated durations, whether all or part of them can be simulated, and the
/// papers' figures that they reproduce.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpbond lab list experiments")]
struct ListArgs {
    /// The folder.
    #[arg(value_name = "FOLDER", default_value = "experiments")]
    folder: PathBuf,
}

/// Run a shell, or another program, on one host of an experiment.
///
/// Hosts, links and web server are set up as for a run, without daemons. The hosts and their
/// addresses are printed first, on standard error. The exit code is the program's.
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
    /// HOST=COMMAND: another command, on this host, until the program ends; may be repeated.
    #[arg(long = "at", value_name = "HOST=COMMAND", value_parser = beside)]
    beside: Vec<(String, String)>,
    /// Log every packet of every shaped link to this file, as CSV (docs/packet-log.md).
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Capture the packets of every shaped link's near host: LINK.pcap in this folder.
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// The program and its arguments; $SHELL when none is given.
    #[arg(last = true, value_name = "CMD")]
    program: Vec<OsString>,
}

/// Serve files with known content: the lab's web server, for manual tests.
///
/// GET /bytes/N returns N bytes, GET /sha256/N their digest; PUT /upload returns the digest of its
/// body. It serves until it is interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab origin --listen 127.0.0.1:8000
  curl --socks5-hostname 127.0.0.1:1080 http://127.0.0.1:8000/bytes/10485760 | sha256sum")]
struct OriginArgs {
    /// Listening address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Seed of the content.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Measure the accuracy of emulated links on this machine.
///
/// Errors of rate and delay and lateness of packets, by the number of links and their speed, all
/// fully loaded. Exit code 1 where a target is missed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab player-accuracy --json accuracy.json
  mpbond lab player-accuracy --links 8 --mbps 50,100 --both-ways")]
struct PlayerAccuracyArgs {
    /// Numbers of links at the same time.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_values_t = LINK_COUNTS.map(|n| n as u32)
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16))]
    links: Vec<u32>,
    /// Speeds of each link, in Mbit/s.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = SPEEDS_MBPS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    mbps: Vec<u32>,
    /// Load both directions, not only down.
    #[arg(long)]
    both_ways: bool,
    /// Write the figures to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Show the throughput of recorded links, alone and combined (MPBond Figure 1).
///
/// Recordings are in Mahimahi's format, or tables of seconds and rates. For each, and for every sum
/// of two and three of them, the distribution of throughput is shown, with the gain over the best
/// and the worst of them alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab recordings Verizon-LTE-short.down TMobile-LTE-short.down ATT-LTE-driving-2016.down
  mpbond lab recordings --unit byte/s --bin 1s wifi.csv cellular.csv --json")]
struct RecordingsArgs {
    /// The recordings; 1 to 16.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Start within the recordings.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration_text::parse)]
    offset: Duration,
    /// Length of the part used.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration_text::parse)]
    length: Duration,
    /// Width of the time bins of throughput.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration_text::parse)]
    bin: Duration,
    /// Unit of the rates in tables: bit/s, kbit/s, Mbit/s or byte/s.
    #[arg(long, default_value = "Mbit/s", value_parser = rate_unit)]
    unit: RateUnit,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Show the throughput of a pipe against distance (MPBond Figure 2).
///
/// From tables with one line per measurement: distance in metres, rate, and optionally a condition
/// such as walls between the devices.
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
    /// Width of the distance bins in metres.
    #[arg(long, value_name = "METRES", default_value_t = 5.0)]
    step: f64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn beside(text: &str) -> Result<(String, String), String> {
    let (host, command) = text.split_once('=').ok_or("not HOST=COMMAND")?;
    Ok((host.to_owned(), command.to_owned()))
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

impl LabArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            LabCommand::Run(args) => args.run(),
            LabCommand::Simulate(args) => args.run(),
            #[cfg(feature = "analysers")]
            LabCommand::Survey(args) => args.run(),
            #[cfg(feature = "analysers")]
            LabCommand::Ablation(args) => args.run(),
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

/// Prints a report as JSON or as text.
fn print_report(json: bool, report: &impl Serialize, text: &str) -> Result<ExitCode, Failure> {
    if json {
        let json = serde_json::to_string_pretty(report).map_err(Failure::run)?;
        print(&format!("{json}\n"))?;
    } else {
        print(text)?;
    }
    Ok(ExitCode::SUCCESS)
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
        print_report(self.json, &report, &report.to_text())
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
        print_report(self.json, &report, &report.to_text())
    }
}

impl SimulateArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        outputs::check([&self.json, &self.html])?;
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
        outputs::check([&self.json])?;
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
