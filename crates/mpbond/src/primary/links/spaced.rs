//! Changes that peers cause, applied no more often than at an interval.

use std::cell::Cell;
use std::time::Duration;

use mpbond_units::Timestamp;

/// Shortest interval at which they are applied: each time, all connections and links are looked
/// at, and a helper can send thousands of changes a second. One of this implementation tells its
/// state each 5 s at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// When changes of one kind are applied: the first one at once, those of the interval after it
/// together at its end. For use on one thread.
#[derive(Debug, Default)]
pub(super) struct Spaced {
    /// When changes were applied last.
    applied: Cell<Option<Timestamp>>,
    /// Whether there is one that is not applied yet.
    waits: Cell<bool>,
}

impl Spaced {
    /// Something has changed. Returns the time until it is to be applied; `None` if that comes with
    /// an earlier change, which waits.
    pub(super) fn changed(&self, now: Timestamp) -> Option<Duration> {
        if self.waits.replace(true) {
            return None;
        }
        let passed = self.applied.get().map_or(INTERVAL, |at| now.since(at));
        Some(INTERVAL.saturating_sub(passed))
    }

    /// All changes until now are applied.
    pub(super) fn applied(&self, now: Timestamp) {
        self.applied.set(Some(now));
        self.waits.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A helper that changes each millisecond for 10 s, and a last time.
    #[test]
    fn changes_are_applied_once_a_second_and_the_last_one_is_among_them() {
        let spaced = Spaced::default();
        let (mut value, mut due) = (0, None);
        let mut applied = Vec::new();
        for ms in 0..20_000 {
            let now = Timestamp::from_millis(ms);
            if ms <= 10_000 {
                value = ms;
                if let Some(wait) = spaced.changed(now) {
                    assert_eq!(due, None, "one wait at a time");
                    due = Some(now + wait);
                }
            }
            if due.is_some_and(|due| due <= now) {
                due = None;
                applied.push((ms, value));
                spaced.applied(now);
            }
        }
        let expected: Vec<_> = (0..=10).map(|n| (n * 1_000, n * 1_000)).collect();
        assert_eq!(applied, expected);
        // The next one does not wait.
        assert_eq!(
            spaced.changed(Timestamp::from_millis(20_000)),
            Some(Duration::ZERO)
        );
    }
}
