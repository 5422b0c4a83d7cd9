//! `mpbond lab ablation`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond_command::Failure;
use mpbond_lab::AblationOptions;
use mpbond_sim::world::Mechanism;

use super::failure::failed;

/// Measure what each mechanism of the sender gains.
///
/// In virtual time: transfers over settings of the survey, the rows of the MPBond paper's setting,
/// messages beside a download, and random worlds with faults. Each runs with every mechanism left
/// out in turn, and with every one alone (docs/ablation.md).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab ablation --json ablation.json --html ablation.html
  mpbond lab ablation --mechanism hedged-ends --mechanism rebalancing --settings 100")]
pub(super) struct AblationArgs {
    /// Number of settings of each seed.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=100_000))]
    settings: u32,
    /// Seed of the settings; may be repeated. 1 and 2 when not given.
    #[arg(long, value_name = "SEED")]
    seed: Vec<u64>,
    /// Variants of each row, whose delays differ by up to 1 ms.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=1_000))]
    repeat: u32,
    /// Number of random worlds, with seeds from 1001 on.
    #[arg(long, value_name = "N", default_value_t = 150)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    worlds: u64,
    /// Only this mechanism; may be repeated. The table of docs/ablation.md names all.
    #[arg(long = "mechanism", value_name = "NAME")]
    mechanisms: Vec<Mechanism>,
    /// Write the record to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables as Markdown to this file.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Number of threads, which changes no results but CPU times. One per processor when not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print neither progress nor tables.
    #[arg(long, short)]
    quiet: bool,
}

impl AblationArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        super::outputs::check([&self.json, &self.html, &self.markdown])?;
        let options = AblationOptions {
            settings: self.settings,
            seed: match self.seed.is_empty() {
                true => vec![1, 2],
                false => self.seed,
            },
            repeat: self.repeat,
            worlds: self.worlds,
            mechanisms: self.mechanisms,
            json: self.json,
            html: self.html,
            markdown: self.markdown,
            threads: self.threads.map(|n| n as usize),
            quiet: self.quiet,
        };
        mpbond_lab::ablation(&options).map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }
}
