//! Results so far, kept as JSON lines so that a run can be taken up again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Scheme, Workload};
use crate::record::Download;

/// One line: a result, and which experiment it belongs to.
#[derive(Serialize, Deserialize)]
struct Line<D> {
    experiment: String,
    download: D,
}

/// What has been done, and the file it is kept in.
pub(crate) struct Done {
    experiment: String,
    downloads: Vec<Download>,
    file: Option<(File, PathBuf)>,
}

impl Done {
    /// Takes up what `path` holds of experiment `e`.
    ///
    /// # Errors
    /// When a line is no result (the last one may be cut short), or belongs to
    /// another experiment.
    pub fn open(e: &Experiment, path: Option<&Path>) -> Result<Self> {
        let mut done = Self {
            experiment: e.name.clone(),
            downloads: Vec::new(),
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
            let line: Line<Download> =
                serde_json::from_str(&text).map_err(|e| wrong(format!("no result: {e}")))?;
            if line.experiment != e.name {
                return Err(wrong(format!(
                    "a result of experiment \"{}\", not \"{}\"",
                    line.experiment, e.name
                )));
            }
            done.downloads.push(line.download);
        }
        drop(reader);
        // A run that was interrupted while writing leaves half a line.
        file.set_len(whole_bytes).at("shorten", path)?;
        file.flush().at("write", path)?;
        done.file = Some((file, path.to_owned()));
        Ok(done)
    }

    /// Whether this transfer has a result.
    pub fn has(&self, scheme: &Scheme, workload: &Workload, repetition: u32) -> bool {
        self.downloads.iter().any(|d| {
            d.name == *scheme.name.get_ref()
                && d.workload == *workload.name.get_ref()
                && d.repetition == repetition
        })
    }

    /// Keeps a result.
    pub fn add(&mut self, download: Download) -> Result<()> {
        if let Some((file, path)) = &mut self.file {
            let line = Line {
                experiment: self.experiment.clone(),
                download: &download,
            };
            let mut text = serde_json::to_string(&line)
                .map_err(|e| Error::run(format!("cannot keep a result: {e}")))?;
            text.push('\n');
            file.write_all(text.as_bytes()).at("write", path)?;
        }
        self.downloads.push(download);
        Ok(())
    }

    /// All results.
    pub fn into_downloads(self) -> Vec<Download> {
        self.downloads
    }
}
