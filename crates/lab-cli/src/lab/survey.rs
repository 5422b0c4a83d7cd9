//! `mpbond lab survey`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond_command::Failure;
use mpbond_lab::experiment::Direction;
use mpbond_lab::{PAIRS_FILE, SurveyOptions, SurveyPairs, SurveyScheme, SurveyStart};
use mpbond_units::Size;

use super::failure::failed;

/// Compare several devices with the best link alone, over links drawn at random.
///
/// In virtual time. A setting consists of the links of a primary and two helpers, drawn from the
/// seed and the setting's number. Settings with odd numbers lose and delay packets at random. Each
/// transfer is measured with several devices, over each link alone and with plain TCP, and compared
/// with the fastest link and with lower bounds (docs/experiments.md).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab survey --settings 60 --json survey.json --html survey.html
  mpbond lab survey --devices 2 --start joined --direction down --transfer 64KiB --scheme min-rtt
  mpbond lab survey --seed 1 --only 17 --transfer 512KiB    # one setting again")]
pub(super) struct SurveyArgs {
    /// Number of settings.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    settings: u32,
    /// Seed of the settings; may be repeated, for so many settings of each.
    #[arg(long, value_name = "SEED", default_value = "1")]
    seed: Vec<u64>,
    /// Only the setting with this number, counted from 0; may be repeated.
    #[arg(long, value_name = "NUMBER", conflicts_with = "settings")]
    #[arg(value_parser = clap::value_parser!(u32).range(..100_000))]
    only: Vec<u32>,
    /// Pairs of recorded links in place of drawn ones: those for tuning, for reports (ADR 0022), or
    /// all.
    #[arg(long, value_name = "tuning|report|all", num_args = 0..=1, default_missing_value = "all")]
    #[arg(conflicts_with_all = ["settings", "seed"])]
    trace_pairs: Option<SurveyPairs>,
    /// Experiment file with these pairs as settings.
    #[arg(long, value_name = "FILE", requires = "trace_pairs")]
    #[arg(default_value = PAIRS_FILE)]
    pairs_file: PathBuf,
    /// Transfers of each kind and setting, in pairs with the best link; beyond 1 MiB fewer, but
    /// at least 4.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=10_000))]
    seeds: u32,
    /// Number of devices, 2 or 3; may be repeated. Both when not given; 2 of recorded pairs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=3))]
    devices: Vec<u8>,
    /// State before the transfer: joined, cold (no session yet), kept (used, then idle) or
    /// remembered (the same, with new connections); may be repeated. All when not given.
    #[arg(long = "start", value_name = "STATE")]
    starts: Vec<SurveyStart>,
    /// down or up; may be repeated. Both when not given.
    #[arg(long = "direction", value_name = "DIRECTION", value_parser = direction)]
    directions: Vec<Direction>,
    /// Size of the transfer; may be repeated. 32 KiB to 16 MiB when not given.
    #[arg(long = "transfer", value_name = "SIZE")]
    transfers: Vec<Size>,
    /// Scheduler, with ",published" for the paper's reinjection; may be repeated.
    #[arg(long = "scheme", value_name = "NAME", default_value = "mpbond")]
    schemes: Vec<SurveyScheme>,
    /// Write the record to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables and charts to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Number of threads, which does not change results. One per processor when not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print neither progress nor table.
    #[arg(long, short)]
    quiet: bool,
}

fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "down" => Ok(Direction::Down),
        "up" => Ok(Direction::Up),
        _ => Err("allowed are down and up".to_owned()),
    }
}

impl SurveyArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        super::outputs::check([&self.json, &self.html])?;
        fn or_all<T>(given: Vec<T>, all: impl IntoIterator<Item = T>) -> Vec<T> {
            match given.is_empty() {
                true => all.into_iter().collect(),
                false => given,
            }
        }
        const SIZES_KIB: [u64; 6] = [32, 128, 512, 1 << 10, 4 << 10, 16 << 10];
        let options = SurveyOptions {
            settings: self.settings,
            seed: self.seed,
            pairs: self.trace_pairs,
            pairs_file: self.pairs_file,
            only: self.only,
            seeds: self.seeds,
            devices: match self.trace_pairs {
                None => or_all(self.devices, [2, 3]),
                Some(_) => or_all(self.devices, [2]),
            },
            starts: or_all(self.starts, SurveyStart::ALL),
            directions: or_all(self.directions, [Direction::Down, Direction::Up]),
            transfers: or_all(self.transfers, SIZES_KIB.map(|kib| Size(kib << 10))),
            schemes: self.schemes,
            json: self.json,
            html: self.html,
            threads: self.threads.map(|n| n as usize),
            quiet: self.quiet,
        };
        mpbond_lab::survey(&options).map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }
}
