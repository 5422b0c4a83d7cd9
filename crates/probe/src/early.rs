//! Times at which answers are expected, and a socket is read without sleeping: a sleeping thread
//! takes tens of µs to wake up, which would count as delay.

use std::thread;
use std::time::{Duration, Instant};

/// Interval around the shortest time so far in which answers are expected: most arrive right after
/// it. It is bounded, so that a probe uses at most a millisecond of processor time.
const EARLY: Duration = Duration::from_micros(500);
const LATE: Duration = Duration::from_micros(500);

/// The shortest time from a question to its answer.
#[derive(Debug)]
pub(crate) struct Expectation {
    shortest: Option<Duration>,
    /// With one processor, reading without sleeping would keep it from the kernel's work.
    several_processors: bool,
}

impl Expectation {
    pub(crate) fn new() -> Self {
        Self {
            shortest: None,
            several_processors: thread::available_parallelism().is_ok_and(|n| n.get() > 1),
        }
    }

    /// Notes the time that an answer took.
    pub(crate) fn took(&mut self, time: Duration) {
        if self.several_processors {
            self.shortest = Some(self.shortest.map_or(time, |s| s.min(time)));
        }
    }

    /// Interval in which the answer to a question of the time `begun` is expected; `None` before
    /// the first answer, and where there is one processor.
    pub(crate) fn of(&self, begun: Instant) -> Option<(Instant, Instant)> {
        let shortest = self.shortest?;
        let from = begun + shortest.saturating_sub(EARLY);
        Some((from, begun + shortest + LATE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_expected_around_the_shortest_time() {
        let mut expectation = Expectation {
            shortest: None,
            several_processors: true,
        };
        let begun = Instant::now();
        assert_eq!(expectation.of(begun), None);
        let mut interval = |took_us| {
            expectation.took(Duration::from_micros(took_us));
            let (from, to) = expectation.of(begun).unwrap();
            [from, to].map(|at| at.duration_since(begun).as_micros())
        };
        assert_eq!(interval(10_000), [9500, 10_500]);
        // A longer time changes nothing.
        assert_eq!(interval(20_000), [9500, 10_500]);
        // An answer within less than the early part is expected at once.
        assert_eq!(interval(500), [0, 1000]);
        assert_eq!(interval(20), [0, 520]);
        expectation.several_processors = false;
        expectation.shortest = None;
        expectation.took(Duration::from_millis(10));
        assert_eq!(expectation.of(begun), None);
    }
}
