//! Pause before a pipe that was left is used again.

use std::time::Duration;

use mpbond_units::Timestamp;

const LEAST: Duration = Duration::from_secs(10);

/// A pipe that was good for this long was not used in vain.
const WAS_GOOD: Duration = Duration::from_secs(60);

/// Pause after a pipe was left for one reason; the next one is twice as long, up to a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    /// Length of the last one.
    length: Option<Duration>,
    until: Timestamp,
}

impl Pause {
    /// The pipe is left after it was good for this long, for at most `most`.
    pub(super) fn begin(&mut self, now: Timestamp, good_for: Duration, most: Duration) {
        let last = self.length.filter(|_| good_for < WAS_GOOD);
        let length = last.map_or(LEAST, |last| (2 * last).min(most));
        *self = Self {
            length: Some(length),
            until: now + length,
        };
    }

    /// The reason is gone. If it comes back, the next pause is longer all the same.
    pub(super) fn end(&mut self) {
        self.until = Timestamp::ZERO;
    }

    pub(super) fn lasts(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn pauses_double_from_10_s_to_10_minutes_until_the_pipe_was_good_for_a_minute() {
        let mut pause = Pause::default();
        let mut now = Timestamp::from_millis(7_000);
        assert!(!pause.lasts(now));
        let lengths = [10, 20, 40, 80, 160, 320, 600, 600];
        let good = [(s(59), &lengths[..]), (s(60), &[10, 10])];
        for (good_for, lengths) in good {
            for length in lengths {
                pause.begin(now, good_for, s(600));
                let end = now + s(*length);
                assert!(pause.lasts(end.before(Duration::from_nanos(1))), "{length}");
                assert!(!pause.lasts(end), "{length}");
                now = end;
            }
        }
    }

    #[test]
    fn one_that_ended_early_counts() {
        let mut pause = Pause::default();
        let now = Timestamp::from_millis(7_000);
        pause.begin(now, s(60), s(600));
        pause.end();
        assert!(!pause.lasts(now));
        pause.begin(now, s(1), s(600));
        assert!(pause.lasts(now + s(19)));
    }
}
