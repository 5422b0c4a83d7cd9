//! Sojourn time of bytes in a relay: offsets are stamped on arrival and looked up on departure
//! ("direct buffering delay measurements", MPBond section 6.2). No clock: times are durations since
//! the start of the relay.

use std::collections::VecDeque;
use std::time::Duration;

/// Arrivals within this interval share a stamp.
const STEP: Duration = Duration::from_millis(1);
/// Maximum number of stamps; beyond it the sojourn time of the oldest bytes is underestimated. At 1
/// ms each they cover 8 s, in which the default buffer drains at 4 Mbit/s.
const MOST_STAMPS: usize = 8192;

/// Sojourn times of one direction.
#[derive(Debug, Default)]
pub struct Sojourn {
    /// Cumulative bytes and arrival time, rising.
    stamps: VecDeque<(u64, Duration)>,
    came_bytes: u64,
    left_bytes: u64,
    looked_at: Duration,
    last: Option<Duration>,
}

impl Sojourn {
    /// Records the cumulative number of bytes that have arrived by `now`.
    ///
    /// `tick` is the interval of looking for them, zero when each arrival is looked at. New bytes
    /// came in the time since the last look, in the middle of it on average.
    pub fn came(&mut self, bytes: u64, now: Duration, tick: Duration) {
        let gap = now.saturating_sub(std::mem::replace(&mut self.looked_at, now));
        let now = now.saturating_sub(gap.min(tick) / 2);
        if bytes <= self.came_bytes {
            return;
        }
        if self.left_bytes == self.came_bytes {
            // Nothing has waited since: what the last byte took is over.
            self.last = None;
        }
        self.came_bytes = bytes;
        match self.stamps.back_mut() {
            Some((end, at)) if now.saturating_sub(*at) < STEP => *end = self.came_bytes,
            _ => self.stamps.push_back((self.came_bytes, now)),
        }
        if self.stamps.len() > MOST_STAMPS {
            self.stamps.pop_front();
        }
    }

    /// Records the cumulative number of bytes that have departed.
    pub fn left(&mut self, bytes: u64, now: Duration) {
        if bytes <= self.left_bytes {
            return;
        }
        self.left_bytes = bytes;
        while self.stamps.front().is_some_and(|(end, _)| *end < bytes) {
            self.stamps.pop_front();
        }
        // The stamp that covers the last of these bytes.
        if let Some((_, came)) = self.stamps.front() {
            self.last = Some(now.saturating_sub(*came));
        }
    }

    /// Sojourn time of the last departed byte; `None` before the first, and after a time in which
    /// nothing waited.
    pub fn last(&self) -> Option<Duration> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_last_byte_out_is_looked_up() {
        let mut s = Sojourn::default();
        s.came(100, MS(10), Duration::ZERO);
        s.came(200, MS(20), Duration::ZERO);
        s.left(0, MS(30));
        assert_eq!(s.last(), None);
        s.left(1, MS(30));
        assert_eq!(s.last(), Some(MS(20)));
        s.left(100, MS(40));
        assert_eq!(s.last(), Some(MS(30)), "still of the first hundred");
        s.left(101, MS(40));
        assert_eq!(s.last(), Some(MS(20)));
        // Nothing more has left: nothing more is known.
        s.left(101, MS(90));
        assert_eq!(s.last(), Some(MS(20)));
        s.left(200, MS(95));
        s.came(205, MS(200), Duration::ZERO);
        assert_eq!(s.last(), None, "all had left before");
        s.left(205, MS(201));
        assert_eq!(s.last(), Some(MS(1)));
    }

    #[test]
    fn bytes_found_at_a_tick_have_waited_for_half_of_it() {
        let mut s = Sojourn::default();
        s.came(100, MS(100), Duration::ZERO);
        s.left(100, MS(100));
        assert_eq!(s.last(), Some(Duration::ZERO));
        // After a pause, half of the tick.
        s.came(200, MS(200), MS(4));
        s.left(200, MS(200));
        assert_eq!(s.last(), Some(MS(2)));
        // Looked at in between, because of the other direction.
        s.came(200, MS(202), MS(4));
        s.came(300, MS(204), MS(4));
        s.left(300, MS(204));
        assert_eq!(s.last(), Some(MS(1)));
    }

    #[test]
    fn stamps_are_bounded() {
        let mut s = Sojourn::default();
        for ms in 0..20_000 {
            s.came(20 * ms + 10, MS(ms), Duration::ZERO);
            s.came(20 * ms + 20, MS(ms), Duration::ZERO);
        }
        assert_eq!(s.stamps.len(), MOST_STAMPS);
        s.left(1, MS(20_000));
        assert_eq!(s.last(), Some(MS(MOST_STAMPS as u64)), "at least so long");
    }
}
