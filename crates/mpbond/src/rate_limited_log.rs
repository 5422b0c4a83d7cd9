//! Log lines about conditions that last, at most one in ten seconds.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Shortest interval between two lines: frequent enough to be noticed, too rare to fill a log.
const INTERVAL: Duration = Duration::from_secs(10);

/// Rate limiter of one log line.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedLog(Cell<Option<Instant>>);

impl RateLimitedLog {
    /// Whether the line may be written now: the first time, and ten seconds after the last line.
    pub(crate) fn is_due(&self) -> bool {
        let due = self.0.get().is_none_or(|last| last.elapsed() >= INTERVAL);
        if due {
            self.0.set(Some(Instant::now()));
        }
        due
    }
}
