//! Repetitions that have run, and the file that keeps them for a later call.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::repetition::Repetition;
use crate::error::{Doing, Result};
use crate::schedule::resume::{Lines, belongs};

/// Subject of the repetitions: those of another one are not mixed with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Subject {
    /// Name of the experiment.
    experiment: String,
    /// Length of a run.
    seconds: f64,
    loads: Vec<String>,
    /// Schemes of the experiment's file, as TOML.
    schemes: String,
}

impl Subject {
    /// `file` is the text of the experiment's file.
    pub(super) fn new(experiment: &str, length: Duration, loads: Vec<String>, file: &str) -> Self {
        Self {
            experiment: experiment.to_owned(),
            seconds: length.as_secs_f64(),
            loads,
            schemes: schemes_of(file),
        }
    }

    fn check(&self, other: &Self) -> Result<(), String> {
        belongs(&other.experiment, &self.experiment)?;
        if other.seconds != self.seconds {
            let (theirs, ours) = (other.seconds, self.seconds);
            return Err(format!("runs of {theirs} s instead of {ours} s"));
        }
        match other.loads == self.loads && other.schemes == self.schemes {
            true => Ok(()),
            false => Err("runs of other loads than those of the experiment's file".to_owned()),
        }
    }
}

/// The schemes in the text of a file, without its comments and with sorted keys.
fn schemes_of(file: &str) -> String {
    let table = file.parse::<toml::Table>().unwrap_or_default();
    let schemes = table.get("scheme").map(toml::Value::to_string);
    schemes.unwrap_or_default()
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    subject: Subject,
    result: R,
}

/// All repetitions so far.
pub(super) struct Kept {
    subject: Subject,
    all: Vec<Repetition>,
    lines: Option<Lines>,
}

impl Kept {
    /// Loads the repetitions in `path`. Where a load failed in all of them, the file is renamed to
    /// `path.old`, and all run again: the reason of the failure may be gone.
    ///
    /// # Errors
    /// When a line is no result (the last one may be incomplete), or of another subject, or the
    /// file cannot be renamed.
    pub(super) fn open(subject: Subject, path: Option<&Path>) -> Result<Self> {
        let kept = Self::load(subject, path)?;
        match path.filter(|_| kept.lacks_a_load()) {
            Some(path) => {
                std::fs::rename(path, old(path)).at("rename", path)?;
                Self::load(kept.subject, Some(path))
            }
            None => Ok(kept),
        }
    }

    fn load(subject: Subject, path: Option<&Path>) -> Result<Self> {
        let mut all: Vec<Repetition> = Vec::new();
        let take = |line: Line<Repetition>| {
            subject.check(&line.subject)?;
            let number = line.result.number;
            if line.result.runs.len() != subject.loads.len() {
                return Err("a repetition without one run of each load".to_owned());
            }
            if all.iter().any(|r| r.number == number) {
                return Err(format!("repetition {number} is there twice"));
            }
            all.push(line.result);
            Ok(())
        };
        let lines = path.map(|path| Lines::open(path, take)).transpose()?;
        Ok(Self {
            subject,
            all,
            lines,
        })
    }

    /// Whether a load failed in all repetitions.
    fn lacks_a_load(&self) -> bool {
        let failed = |load| self.all.iter().all(|r| r.ran(load).is_none());
        !self.all.is_empty() && (0..self.subject.loads.len()).any(failed)
    }

    /// Adds a repetition, in the file first.
    pub(super) fn add(&mut self, repetition: Repetition) -> Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.add(&Line {
                subject: self.subject.clone(),
                result: &repetition,
            })?;
        }
        self.all.push(repetition);
        Ok(())
    }

    pub(super) fn all(&self) -> &[Repetition] {
        &self.all
    }
}

/// Name of a file that is put aside.
fn old(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}
