//! Surveys: transfers over links drawn at random or recorded, in virtual time.
//!
//! A *setting* consists of the links of a primary and two helpers. It depends on the survey's seed
//! and on its own number alone. Rates of PS-Paths and HS-Paths are 1 to 80 Mbit/s, of pipes 2 to
//! 100, one-way delays 5 to 100 ms and 1 to 30, queues 30 to 400 ms, all with uniformly distributed
//! logarithms. Settings with odd numbers are *rough*: half of their links lose up to 2 % of the
//! packets at random, half delay packets by up to 20 ms. Pairs of recorded links are settings of an
//! experiment file; their recordings begin with each transfer.
//!
//! Each transfer is compared in pairs with the same transfer over the best link alone. The best
//! link is the fastest, on other seeds, of mpbond and plain TCP over each single path. Bounds are
//! the fluid bound, the bound with slow start, and a clairvoyant scheduler.

mod case;
mod figures;
mod measure;
mod page;
mod pairs;
mod record;
mod setting;
mod summary;

use std::path::{Path, PathBuf};

use mpbond_units::Size;

pub use case::{SurveyScheme, SurveyStart};
pub use pairs::{PAIRS_FILE, SurveyPairs};
pub use record::Survey;

use crate::error::{Doing, Error, Result};
use crate::experiment::Direction;
use crate::figures::json;
use crate::figures::print::print;
use crate::machine;
use crate::simulate::{Progress, on_all_processors};
pub(crate) use case::Case;
use setting::MAX_DEVICES;
pub(crate) use setting::{Over, Setting};

/// Options of a survey.
#[derive(Debug, Clone)]
pub struct SurveyOptions {
    /// Number of settings.
    pub settings: u32,
    /// Seeds of the settings.
    pub seed: Vec<u64>,
    /// Pairs of recorded links in place of drawn ones.
    pub pairs: Option<SurveyPairs>,
    /// Experiment file with these pairs as settings.
    pub pairs_file: PathBuf,
    /// Only settings with these numbers; all if there are none.
    pub only: Vec<u32>,
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
    let (settings, left_out) = settings(options)?;
    let most = settings.iter().map(Setting::devices).min();
    if options.devices.iter().any(|devices| Some(*devices) > most) {
        return Err(Error::Experiment(
            "3 devices: pairs of recorded links have one helper, so that --devices is 2".to_owned(),
        ));
    }
    let mut work = Vec::new();
    for setting in &settings {
        for &start in &options.starts {
            for &direction in &options.directions {
                for &transfer in &options.transfers {
                    let case = |&devices| Case {
                        devices,
                        start,
                        direction,
                        transfer,
                    };
                    let cases: Vec<Case> = options.devices.iter().map(case).collect();
                    work.push((setting, cases));
                }
            }
        }
    }
    // Those of its start: files may change while it runs.
    let (date, commit) = (machine::date(), machine::commit(Path::new(".")));
    let rows = options.devices.len() * options.schemes.len();
    let progress = Progress::new(options.quiet, work.len() * rows);
    let rows = on_all_processors(work.len(), options.threads, progress, |number| {
        let (setting, cases) = &work[number];
        measure::measure(setting, cases, &options.schemes, options.seeds)
    })?;
    let report = Survey {
        seed: match options.pairs {
            None => options.seed.clone(),
            Some(_) => Vec::new(),
        },
        commit: commit.unwrap_or_default(),
        seeds: options.seeds,
        summary: summary::groups(&rows),
        figures: figures::figures(&rows),
        settings: rows,
    };
    if let Some(path) = &options.json {
        let text = json::lines(&report)
            .map_err(|e| Error::run(format!("cannot write the record: {e}")))?;
        std::fs::write(path, text).at("write", path)?;
    }
    if let Some(path) = &options.html {
        std::fs::write(path, page::to_html(&report, &date)).at("write", path)?;
    }
    if !options.quiet {
        let (summary, figures) = (
            summary::grid(&report.summary),
            figures::grid(&report.figures),
        );
        let mut text = format!("{}\n\n{}\n", summary.to_text(), figures.to_text());
        for missed in &report.figures {
            if let Some(worst) = &missed.worst {
                text.push_str(&format!("worst of \"{}\": {worst}\n", missed.name));
            }
        }
        if let Some(left_out) = left_out {
            text.push_str(&format!("{left_out}\n"));
        }
        print(&text)?;
    }
    Ok(report)
}

/// The settings, and a remark on those that are left out.
fn settings(options: &SurveyOptions) -> Result<(Vec<Setting>, Option<String>)> {
    let (mut all, left_out) = match &options.pairs {
        Some(pairs) => {
            let (mut all, left_out) = pairs::read(&options.pairs_file)?;
            all.retain(|setting| pairs.contain(setting.number));
            (all, left_out)
        }
        None => {
            let last = options.only.iter().map(|number| number + 1).max();
            let numbers = 0..last.unwrap_or(options.settings);
            let draw = |&seed| {
                numbers
                    .clone()
                    .map(move |number| Setting::draw(seed, number))
            };
            (options.seed.iter().flat_map(draw).collect(), None)
        }
    };
    all.retain(|setting| options.only.is_empty() || options.only.contains(&setting.number));
    if all.is_empty() {
        let why = left_out.unwrap_or_default();
        return Err(Error::Experiment(format!("no setting is selected; {why}")));
    }
    Ok((all, left_out))
}

#[cfg(test)]
mod tests;
