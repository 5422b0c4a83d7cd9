//! Results kept as JSON lines, so that an interrupted run can be resumed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Scheme, Workload};
use crate::record::Transfer;

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
    file: Option<(File, PathBuf)>,
}

impl Done {
    /// Loads the results of experiment `e` from `path`.
    ///
    /// # Errors
    /// When a line is no result (the last one may be incomplete), or belongs to another experiment.
    pub fn open(e: &Experiment, path: Option<&Path>) -> Result<Self> {
        let mut done = Self {
            experiment: e.name.clone(),
            transfers: Vec::new(),
            file: None,
        };
        let Some(path) = path else { return Ok(done) };
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let mut file = file.at("open", path)?;
        let mut whole_bytes = 0;
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        for number in 1.. {
            text.clear();
            if reader.read_line(&mut text).at("read", path)? == 0 || !text.ends_with('\n') {
                break;
            }
            whole_bytes += text.len() as u64;
            let wrong =
                |why: String| Error::Experiment(format!("{}:{number}: {why}", path.display()));
            let line: Line<Transfer> =
                serde_json::from_str(&text).map_err(|e| wrong(format!("no result: {e}")))?;
            if line.experiment != e.name {
                return Err(wrong(format!(
                    "a result of experiment \"{}\" instead of \"{}\"",
                    line.experiment, e.name
                )));
            }
            done.transfers.push(line.transfer);
        }
        drop(reader);
        // A run that was interrupted while writing leaves an incomplete line.
        file.set_len(whole_bytes).at("shorten", path)?;
        file.flush().at("write", path)?;
        done.file = Some((file, path.to_owned()));
        Ok(done)
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
        if let Some((file, path)) = &mut self.file {
            let line = Line {
                experiment: self.experiment.clone(),
                transfer: &transfer,
            };
            let mut text = serde_json::to_string(&line)
                .map_err(|e| Error::run(format!("cannot keep a result: {e}")))?;
            text.push('\n');
            file.write_all(text.as_bytes()).at("write", path)?;
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
