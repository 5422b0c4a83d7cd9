//! Surveys: transfers over links drawn at random, in virtual time.
//!
//! A *setting* consists of the links of a primary and two helpers. It depends on the survey's seed
//! and on its own number alone. Rates of PS-Paths and HS-Paths are 1 to 80 Mbit/s, of pipes 2 to
//! 100, one-way delays 5 to 100 ms and 1 to 30, queues 30 to 400 ms, all with uniformly distributed
//! logarithms. Settings with odd numbers are *rough*: half of their links lose up to 2 % of the
//! packets at random, half delay packets by up to 20 ms.
//!
//! Each transfer is compared in pairs with the same transfer over the best link alone. The best
//! link is the fastest, on other seeds, of mpbond and plain TCP over each single path. Bounds are
//! the fluid bound, the bound with slow start, and a clairvoyant scheduler.

mod case;
mod measure;
mod page;
mod record;
mod setting;
mod summary;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use mpbond_units::Size;

pub use case::{SurveyScheme, SurveyStart};
use record::Row;
pub use record::Survey;

use crate::error::{Doing, Error, Result};
use crate::experiment::Direction;
use crate::simulate::{Progress, on_all_processors};
use crate::{json, machine};
use case::Case;
use setting::{MAX_DEVICES, Setting};

/// Options of a survey.
#[derive(Debug, Clone)]
pub struct SurveyOptions {
    /// Number of settings.
    pub settings: u32,
    /// Seed of the settings.
    pub seed: u64,
    /// Only the setting with this number.
    pub only: Option<u32>,
    /// Transfers of each row.
    pub seeds: u32,
    /// Numbers of devices, 2 or 3.
    pub devices: Vec<u8>,
    /// States of the connections before the transfer.
    pub starts: Vec<SurveyStart>,
    /// Directions: down, up.
    pub directions: Vec<Direction>,
    /// Sizes.
    pub transfers: Vec<Size>,
    /// Schemes.
    pub schemes: Vec<SurveyScheme>,
    /// File for the record, as JSON.
    pub json: Option<PathBuf>,
    /// File for a page of tables and pictures.
    pub html: Option<PathBuf>,
    /// Number of threads; by default that of processors. Results do not depend on it.
    pub threads: Option<usize>,
    /// Whether to print neither progress nor table.
    pub quiet: bool,
}

/// Runs a survey, prints its table, writes its record, and returns it.
///
/// # Errors
/// [`Error::Experiment`] for options that select nothing; others when a file cannot be written or a
/// transfer cannot be judged.
pub fn survey(options: &SurveyOptions) -> Result<Survey> {
    if let Some(wrong) = options
        .devices
        .iter()
        .find(|n| !(2..=MAX_DEVICES).contains(n))
    {
        return Err(Error::Experiment(format!(
            "{wrong} devices: a survey compares 2 or {MAX_DEVICES} devices with one"
        )));
    }
    let mut work = Vec::new();
    for number in options.only.map_or(0..options.settings, |n| n..n + 1) {
        for &devices in &options.devices {
            for &start in &options.starts {
                for &direction in &options.directions {
                    for &transfer in &options.transfers {
                        let case = Case {
                            devices,
                            start,
                            direction,
                            transfer,
                        };
                        work.push((Setting::draw(options.seed, number), case));
                    }
                }
            }
        }
    }
    let progress = Progress::new(options.quiet, work.len() * options.schemes.len());
    let rows = on_all_processors(work.len(), options.threads, progress, |number| {
        let (setting, case) = &work[number];
        measure::measure(setting, *case, &options.schemes, options.seeds)
    })?;
    let report = Survey {
        seed: options.seed,
        commit: machine::commit(Path::new(".")).unwrap_or_default(),
        seeds: options.seeds,
        summary: summary::groups(options.seed, options.seeds, &rows),
        settings: rows,
    };
    if let Some(path) = &options.json {
        let text = json::lines(&report)
            .map_err(|e| Error::run(format!("cannot write the record: {e}")))?;
        std::fs::write(path, text).at("write", path)?;
    }
    if let Some(path) = &options.html {
        std::fs::write(path, page::to_html(&report, &machine::date())).at("write", path)?;
    }
    if !options.quiet {
        println!("{}", summary::grid(&report.summary).to_text());
        let worst = report.summary.iter();
        if let Some(worst) = worst.max_by(|a, b| a.ratio[2].total_cmp(&b.ratio[2]))
            && std::io::stdout().is_terminal()
        {
            println!("worst: {}", worst.worst);
        }
    }
    Ok(report)
}

/// The command that measures a row again.
fn replay(seed: u64, seeds: u32, row: &Row) -> String {
    let direction = match row.direction {
        Direction::Down => "down",
        Direction::Up => "up",
    };
    let scheme = match row.scheme == SurveyScheme::default() {
        true => String::new(),
        false => format!(" --scheme {}", row.scheme),
    };
    format!(
        "mpbond lab survey --seed {seed} --only {} --seeds {seeds} --devices {} --start {} \
         --direction {direction} --transfer {}{scheme}",
        row.setting,
        row.devices,
        row.start.name(),
        row.transfer.to_string().replace(' ', "")
    )
}

#[cfg(test)]
mod tests;
