//! Limit on equal log lines.

use std::time::{Duration, Instant};

/// Time after which the same line is logged again: a primary tries about every 30 s for ever.
const INTERVAL: Duration = Duration::from_secs(600);

/// Shortest time between lines, whatever they say.
const LEAST: Duration = Duration::from_secs(1);

/// Lines about failures, of which equal ones are logged once in ten minutes, and any at most once a
/// second.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    last: Option<(Instant, String)>,
    left_out: u64,
}

impl Repeats {
    /// The line to log at `now`, if any; with the number of lines that were left out before it.
    pub fn failed(&mut self, now: Instant, line: &str) -> Option<String> {
        if let Some((at, last)) = &self.last {
            let wait = if last == line { INTERVAL } else { LEAST };
            if now.saturating_duration_since(*at) < wait {
                self.left_out += 1;
                return None;
            }
        }
        self.last = Some((now, line.to_owned()));
        Some(match std::mem::take(&mut self.left_out) {
            0 => line.to_owned(),
            n => format!("{line} ({n} more failures since the last line)"),
        })
    }

    /// Whether failures were logged before this success, so that it is to be logged, too.
    pub fn succeeded(&mut self) -> bool {
        self.left_out = 0;
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_come_once_in_ten_minutes_and_any_once_a_second() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut repeats = Repeats::default();
        assert_eq!(repeats.failed(at(0), "off").as_deref(), Some("off"));
        assert_eq!(repeats.failed(at(0), "far"), None);
        assert_eq!(repeats.failed(at(599), "off"), None);
        let counted = "off (2 more failures since the last line)";
        assert_eq!(repeats.failed(at(600), "off").as_deref(), Some(counted));
        assert_eq!(repeats.failed(at(601), "far").as_deref(), Some("far"));
    }

    #[test]
    fn a_success_is_told_after_a_failure_only() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        assert!(!repeats.succeeded());
        repeats.failed(start, "off");
        repeats.failed(start, "off");
        assert!(repeats.succeeded());
        assert!(!repeats.succeeded());
        assert_eq!(repeats.failed(start, "off").as_deref(), Some("off"));
    }
}
