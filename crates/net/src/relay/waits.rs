//! Time for which one direction of a relay has waited for the rate of its link.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Time for which a direction has waited until the rate of the link let it read. Times are those
/// since a fixed instant.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// In waits that are over, in microseconds.
    over_us: AtomicU64,
    /// Begin of the present one in microseconds, plus one; zero while it does not wait.
    since_us: AtomicU64,
}

impl Waits {
    /// Notes whether it waits from now on.
    pub(super) fn set(&self, waits: bool, now: impl FnOnce() -> Duration) {
        let since = self.since_us.load(Relaxed);
        match (waits, since > 0) {
            (true, false) => self.since_us.store(micros(now()) + 1, Relaxed),
            (false, true) => {
                let present = (micros(now()) + 1).saturating_sub(since);
                self.over_us.fetch_add(present, Relaxed);
                self.since_us.store(0, Relaxed);
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Time in all waits, the present one until now.
    pub(super) fn total(&self, now: Duration) -> Duration {
        let present = match self.since_us.load(Relaxed) {
            0 => 0,
            since => (micros(now) + 1).saturating_sub(since),
        };
        Duration::from_micros(self.over_us.load(Relaxed).saturating_add(present))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_wait_counts_until_now_and_each_wait_once() {
        let waits = Waits::default();
        let ms = Duration::from_millis;
        let set = |is_waiting, at| waits.set(is_waiting, || ms(at));
        assert_eq!(waits.total(ms(5)), ms(0));
        set(true, 0);
        assert_eq!(waits.total(ms(7)), ms(7));
        // It goes on waiting.
        set(true, 8);
        set(false, 10);
        assert_eq!(waits.total(ms(20)), ms(10));
        set(false, 30);
        set(true, 40);
        set(false, 41);
        assert_eq!(waits.total(ms(50)), ms(11));
    }
}
