//! Throughput of recorded links, alone and together: Figure 1 of the MPBond paper for any
//! recordings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mpbond_sim::ideal::Capacity;
use mpbond_sim::link::RateSpec;
use mpbond_sim::trace::{self, Combination, ProfileForm, RateUnit, Recording};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::experiment::read_recording;
use crate::figures::grid::Grid;

/// Maximum number of recordings: combinations grow with its third power.
const MAX_RECORDINGS: usize = 16;

/// The part of the recordings to read, and how to read it.
#[derive(Debug, Clone)]
pub struct RecordingOptions {
    /// Start of the part.
    pub offset: Duration,
    /// Length of the part.
    pub length: Duration,
    /// Length of the bins over which throughput is taken.
    pub bin: Duration,
    /// The unit of recordings that are tables of seconds and rates.
    pub unit: RateUnit,
}

/// Throughput of single recordings and of all combinations of two and three.
#[derive(Debug, Serialize)]
pub struct RecordingReport {
    /// Length of the part, in seconds.
    pub seconds: f64,
    /// Length of a bin, in seconds.
    pub bin_s: f64,
    /// The combinations, single recordings first.
    pub combinations: Vec<Combination>,
}

/// Reads recordings, in Mahimahi's format or as tables of seconds and rates (told apart by their
/// first line), and adds them up.
///
/// # Errors
/// [`Error::Experiment`] naming the wrong file and line.
pub fn recordings(files: &[PathBuf], options: &RecordingOptions) -> Result<RecordingReport> {
    if files.len() > MAX_RECORDINGS {
        return Err(Error::Experiment(format!(
            "{} recordings: at most {MAX_RECORDINGS} at once",
            files.len()
        )));
    }
    if options.bin.is_zero() || options.bin > options.length {
        return Err(Error::Experiment(
            "the bin must be longer than 0 and no longer than the part".into(),
        ));
    }
    let all = files.iter().map(|file| read(file, options.unit));
    let all = all.collect::<Result<Vec<Recording>>>()?;
    Ok(RecordingReport {
        seconds: options.length.as_secs_f64(),
        bin_s: options.bin.as_secs_f64(),
        combinations: trace::combinations(&all, options.offset, options.length, options.bin, 3),
    })
}

/// The text of a recording.
///
/// # Errors
/// [`Error::Experiment`] naming the file.
pub(crate) fn text_of(path: &Path) -> Result<String> {
    read_recording(path).map_err(|e| Error::Experiment(format!("{}: {e}", path.display())))
}

fn read(path: &Path, unit: RateUnit) -> Result<Recording> {
    let wrong = |e: &dyn std::fmt::Display| Error::Experiment(e.to_string());
    let file = path.display().to_string();
    let text = text_of(path)?;
    let first = text.lines().find(|line| !line.trim().is_empty());
    let one_number = first.is_some_and(|line| line.trim().parse::<u64>().is_ok());
    let spec = if one_number {
        RateSpec::Mahimahi {
            file: file.clone(),
            offset: Duration::ZERO,
        }
    } else {
        RateSpec::Profile {
            file: file.clone(),
            form: ProfileForm::new(unit),
            offset: Duration::ZERO,
        }
    };
    let rate = spec
        .resolve(|_| Ok::<_, std::convert::Infallible>(text))
        .map_err(|e| wrong(&e))?;
    let name = path
        .file_stem()
        .map_or(file, |stem| stem.to_string_lossy().into_owned());
    Ok(Recording {
        name,
        capacity: Capacity::from(&rate),
    })
}

impl RecordingReport {
    /// The report as a table.
    pub fn to_text(&self) -> String {
        let header = [
            "recordings",
            "mean",
            "p5",
            "p25",
            "median",
            "p75",
            "p95",
            "gain over best",
            "over worst",
        ];
        let mut table = Grid::new(header, &[0]);
        let percent = |p: Option<f64>| p.map_or("-".into(), |p| format!("{p:.1} %"));
        for c in &self.combinations {
            let t = c.throughput_mbps;
            let mut row = vec![c.links.join(" + ")];
            row.extend([t.mean, t.p5, t.p25, t.p50, t.p75, t.p95].map(|v| format!("{v:.2}")));
            row.extend([percent(c.least_gain_percent), percent(c.most_gain_percent)]);
            table.row(row);
        }
        format!(
            "Mbit/s over {} s in bins of {} s\n{}\n",
            self.seconds,
            self.bin_s,
            table.to_text()
        )
    }
}
