//! Bytes of a transfer over time.

use std::time::{Duration, Instant};

/// Minimum distance of points of a series: ten in each bin of 100 ms over which throughput is
/// taken.
const SERIES_STEP: Duration = Duration::from_millis(10);

/// A byte counter with its longest pause and its series.
pub(crate) struct Watch {
    start: Instant,
    bytes: u64,
    last: Option<Instant>,
    longest: Duration,
    series: Vec<(f64, u64)>,
}

impl Watch {
    /// A counter at zero; its series begins at `start`.
    pub fn since(start: Instant) -> Self {
        Self {
            start,
            bytes: 0,
            last: None,
            longest: Duration::ZERO,
            series: Vec::new(),
        }
    }

    /// Sets the total of bytes at `now`.
    pub fn saw(&mut self, bytes: u64, now: Instant) {
        if let Some(last) = self.last {
            self.longest = self.longest.max(now.saturating_duration_since(last));
        }
        self.bytes = bytes;
        self.last = Some(now);
        let at = now.saturating_duration_since(self.start).as_secs_f64();
        match self.series.last_mut() {
            // A point stands at the end of its step, so that no byte appears before its arrival.
            Some((begun, so_far)) if step(*begun) == step(at) => (*begun, *so_far) = (at, bytes),
            _ => self.series.push((at, bytes)),
        }
    }

    /// Total of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time of the last change.
    pub fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Longest time between two changes.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Seconds from the start to the first bytes, rounded to the step.
    pub fn first_s(&self) -> Option<f64> {
        self.series.first().map(|(at, _)| *at)
    }

    /// Series of seconds since the start and bytes by then.
    pub fn into_series(self) -> Vec<(f64, u64)> {
        self.series
    }
}

fn step(at_s: f64) -> u64 {
    (at_s / SERIES_STEP.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_one_point_a_step_and_ends_with_the_last_byte() {
        let start = Instant::now();
        let mut watch = Watch::since(start);
        for (ms, bytes) in [(1, 10), (2, 20), (9, 30), (31, 40), (500, 50)] {
            watch.saw(bytes, start + Duration::from_millis(ms));
        }
        assert_eq!(watch.bytes(), 50);
        assert_eq!(watch.longest(), Duration::from_millis(469));
        let series = watch.into_series();
        let ms: Vec<(u64, u64)> = series
            .iter()
            .map(|(at, bytes)| ((at * 1e3).round() as u64, *bytes))
            .collect();
        assert_eq!(ms, [(9, 30), (31, 40), (500, 50)]);
    }
}
