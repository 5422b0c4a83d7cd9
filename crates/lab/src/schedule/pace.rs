//! Progress of a run against its expected duration.

use std::time::Duration;

/// Progress of a run and its speed relative to expectations.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Expected duration of each transfer still to come; zero for those behind.
    to_come: Vec<Duration>,
    spent: Duration,
    expected: Duration,
}

impl Pace {
    /// The start of a run whose transfers are expected to take `each`.
    pub fn new(each: Vec<Duration>) -> Self {
        Self {
            to_come: each,
            spent: Duration::ZERO,
            expected: Duration::ZERO,
        }
    }

    /// Adds transfers at the end.
    pub fn further(&mut self, each: Vec<Duration>) {
        self.to_come.extend(each);
    }

    /// Number of transfers, done or not.
    pub fn total(&self) -> usize {
        self.to_come.len()
    }

    /// Transfer `number` has a result from an earlier run.
    pub fn skipped(&mut self, number: usize) {
        self.take(number);
    }

    /// Transfer `number` took `spent`, idle time included.
    pub fn done(&mut self, number: usize, spent: Duration) {
        let expected = self.take(number);
        self.expected += expected;
        self.spent += spent;
    }

    fn take(&mut self, number: usize) -> Duration {
        let place = self.to_come.get_mut(number);
        place.map(std::mem::take).unwrap_or_default()
    }

    /// Expected remaining time at the speed so far.
    pub fn left(&self) -> Duration {
        let to_come: Duration = self.to_come.iter().sum();
        if self.expected.is_zero() {
            return to_come;
        }
        to_come.mul_f64(self.spent.as_secs_f64() / self.expected.as_secs_f64())
    }
}

/// A duration in words: `40 s`, `12 min`, `3 h 20 min`.
pub(crate) fn in_words(span: Duration) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    let minutes = (seconds + 30) / 60;
    match seconds {
        ..100 => format!("{seconds} s"),
        100..5_400 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn the_rest_is_estimated_at_the_speed_so_far() {
        let mut pace = Pace::new(vec![S(10), S(100), S(10), S(100)]);
        assert_eq!(pace.left(), S(220));
        pace.done(0, S(20));
        // Twice as slow as expected.
        assert_eq!(pace.left(), S(420));
        // Results of an earlier run take no time and do not count into the speed.
        pace.skipped(1);
        assert_eq!(pace.left(), S(220));
        pace.done(2, S(10));
        assert_eq!(pace.left(), S(150));
        pace.done(3, S(9));
        assert_eq!(pace.left(), S(0));
        pace.done(99, S(1));
        assert_eq!(pace.total(), 4);
        pace.further(vec![S(120)]);
        assert_eq!((pace.total(), pace.left()), (5, S(40)));
    }

    #[test]
    fn durations_are_in_words() {
        for (seconds, words) in [(0, "0 s"), (99, "99 s"), (100, "2 min"), (5_399, "90 min")] {
            assert_eq!(in_words(S(seconds)), words);
        }
        assert_eq!(in_words(S(12_000)), "3 h 20 min");
    }
}
