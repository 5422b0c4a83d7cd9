//! Warnings about what lasts, said now and then.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Often enough to be seen, and no log is filled by it.
const EVERY: Duration = Duration::from_secs(10);

/// When something was last said.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Cell<Option<Instant>>);

impl Seldom {
    /// Whether it is to be said again: the first time, and ten seconds after the last.
    pub(crate) fn is_due(&self) -> bool {
        let due = self.0.get().is_none_or(|last| last.elapsed() >= EVERY);
        if due {
            self.0.set(Some(Instant::now()));
        }
        due
    }
}
