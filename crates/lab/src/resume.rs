//! Results kept as JSON lines, so that an interrupted run can be resumed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Scheme, Workload};
use crate::record::Transfer;

/// A file of results, one JSON text a line.
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Opens or creates the file, and gives each result to `take`, which returns the reason why it
    /// does not belong there.
    ///
    /// # Errors
    /// When a line is no result (the last one may be incomplete), or is not taken.
    pub fn open<T: DeserializeOwned>(
        path: &Path,
        mut take: impl FnMut(T) -> Result<(), String>,
    ) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.at("open", path)?;
        let mut whole_bytes = 0;
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        for number in 1.. {
            text.clear();
            if reader.read_line(&mut text).at("read", path)? == 0 || !text.ends_with('\n') {
                break;
            }
            whole_bytes += text.len() as u64;
            let result = serde_json::from_str(&text).map_err(|e| format!("no result: {e}"));
            result
                .and_then(&mut take)
                .map_err(|why| Error::Experiment(format!("{}:{number}: {why}", path.display())))?;
        }
        drop(reader);
        // A run that was interrupted while writing leaves an incomplete line.
        file.set_len(whole_bytes).at("shorten", path)?;
        let path = path.to_owned();
        Ok(Self { file, path })
    }

    /// Writes a result.
    pub fn add(&mut self, result: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(result)
            .map_err(|e| Error::run(format!("cannot keep a result: {e}")))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).at("write", &self.path)
    }
}

/// One line: a transfer and the name of its experiment.
#[derive(Serialize, Deserialize)]
struct Line<D> {
    experiment: String,
    transfer: D,
}

/// Results so far, and the file that keeps them.
pub(crate) struct Done {
    experiment: String,
    transfers: Vec<Transfer>,
    lines: Option<Lines>,
}

impl Done {
    /// Loads the results of experiment `e` from `path`.
    ///
    /// # Errors
    /// When a line is no result (the last one may be incomplete), or belongs to another experiment.
    pub fn open(e: &Experiment, path: Option<&Path>) -> Result<Self> {
        let mut transfers = Vec::new();
        let take = |line: Line<Transfer>| {
            belongs(&line.experiment, &e.name)?;
            transfers.push(line.transfer);
            Ok(())
        };
        let lines = path.map(|path| Lines::open(path, take)).transpose()?;
        Ok(Self {
            experiment: e.name.clone(),
            transfers,
            lines,
        })
    }

    /// Whether this transfer has a result.
    pub fn has(&self, scheme: &Scheme, workload: &Workload, repetition: u32) -> bool {
        self.transfers.iter().any(|d| {
            d.name == *scheme.name.get_ref()
                && d.workload == *workload.name.get_ref()
                && d.repetition == repetition
        })
    }

    /// Adds a result.
    pub fn add(&mut self, transfer: Transfer) -> Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.add(&Line {
                experiment: self.experiment.clone(),
                transfer: &transfer,
            })?;
        }
        self.transfers.push(transfer);
        Ok(())
    }

    /// All results so far.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// All results.
    pub fn into_transfers(self) -> Vec<Transfer> {
        self.transfers
    }
}

/// Checks that a result is one of experiment `ours`.
pub(crate) fn belongs(experiment: &str, ours: &str) -> Result<(), String> {
    match experiment == ours {
        true => Ok(()),
        false => Err(format!(
            "a result of experiment \"{experiment}\" instead of \"{ours}\""
        )),
    }
}
