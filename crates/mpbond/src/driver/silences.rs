//! Log lines about paths that fall silent and come back.

use std::collections::HashMap;
use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::{Timestamp, human};
use tracing::{debug, info};

use crate::rate_limited_log::Line;

/// Interval between two lines that a path of this name is silent: a path with a full queue falls
/// silent many times a minute.
const INTERVAL: Duration = Duration::from_secs(60);

/// A silence that lasts longer is reported when it ends, whatever was reported before.
const LONG: Duration = Duration::from_secs(1);

/// Names whose last line is remembered; paths and helpers of a configuration are fewer.
const MAX_NAMES: usize = 256;

/// Silences of a session's subflows: one line when one begins and one when it ends.
#[derive(Debug, Default)]
pub(super) struct Silences {
    /// Subflows whose silence was reported.
    told: Vec<SubflowId>,
    /// Time of the last line, by the path's name.
    last: HashMap<String, Timestamp>,
}

impl Silences {
    /// A subflow has potentially failed. `line` is the line that its peer may cause, if any.
    pub(super) fn begin(
        &mut self,
        now: Timestamp,
        id: SubflowId,
        name: &str,
        line: impl FnOnce() -> Option<Line>,
    ) {
        if !self.is_due(now, name) {
            return debug!(subflow = %id, path = name, "path is silent");
        }
        self.told.push(id);
        if let Some(Line { left_out }) = line() {
            info!(subflow = %id, path = name, left_out, "path is silent: others take over");
        }
    }

    /// A subflow is acknowledged again.
    pub(super) fn end(
        &mut self,
        id: SubflowId,
        name: &str,
        silent: Duration,
        line: impl FnOnce() -> Option<Line>,
    ) {
        let span = human::millis(silent.as_secs_f64() * 1e3);
        if !self.forget(id) && silent < LONG {
            debug!(subflow = %id, path = name, "path is back after {span}");
        } else if let Some(Line { left_out }) = line() {
            info!(subflow = %id, path = name, left_out, "path is back after {span}");
        }
    }

    /// A subflow is gone, which has a line of its own. Returns whether its silence was reported.
    pub(super) fn forget(&mut self, id: SubflowId) -> bool {
        self.told.extract_if(.., |told| *told == id).count() > 0
    }

    fn is_due(&mut self, now: Timestamp, name: &str) -> bool {
        let last = self.last.get(name);
        if last.is_some_and(|last| now.since(*last) < INTERVAL) {
            return false;
        }
        if self.last.len() >= MAX_NAMES {
            self.last.clear();
        }
        self.last.insert(name.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_silent_often_is_reported_once_a_minute() {
        let mut silences = Silences::default();
        let id = SubflowId(1);
        let mut told = 0;
        for second in 0..180 {
            let now = Timestamp::from_millis(second * 1_000);
            silences.begin(now, id, "mobile", || Some(Line::default()));
            told += usize::from(silences.forget(id));
        }
        assert_eq!(told, 3);
    }

    #[test]
    fn paths_are_reported_apart_and_names_are_bounded() {
        let mut silences = Silences::default();
        let now = Timestamp::from_millis(5);
        for n in 0..1_000 {
            silences.begin(now, SubflowId(n), &n.to_string(), || None);
            assert!(silences.forget(SubflowId(n)));
            assert!(silences.last.len() <= MAX_NAMES);
        }
    }
}
