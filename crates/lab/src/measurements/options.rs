//! Options of a measurement.

use std::path::PathBuf;
use std::time::Duration;

/// Time limit below which measurements are short.
const QUICK: Duration = Duration::from_secs(60);

/// How much is measured, and where results are kept.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Time limit: below 60 s the run is short, and shows only that the measurement works.
    pub at_most: Option<Duration>,
    /// Repetitions, instead of the file's number, of measurements of processor time. Of others, one
    /// makes the run short.
    pub repetitions: Option<u32>,
    /// Further repetitions where some were disturbed, of measurements of processor time; half of
    /// the repetitions when absent.
    pub further: Option<u32>,
    /// File of results, which are not measured again: repetitions as JSON lines where processor
    /// time is measured, otherwise the record.
    pub resume: Option<PathBuf>,
}

impl Options {
    /// Whether the time limit makes the run short.
    pub(super) fn is_quick(&self) -> bool {
        self.at_most.is_some_and(|time| time < QUICK)
    }
}
