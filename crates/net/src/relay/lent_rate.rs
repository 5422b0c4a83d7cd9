//! Rates at which the relays of a link read, together in each direction.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mpbond_units::BitRate;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time whose bytes are read at once: each reading costs a wake-up.
const QUANTUM: Duration = Duration::from_millis(4);
/// Least bytes read at once: a segment.
const LEAST_BYTES: u64 = 1448;
/// Time for which bytes that were not read may be caught up on: the delay of a timer and of a busy
/// machine.
const CATCH_UP: Duration = Duration::from_millis(20);
/// Longest time for which a part of the rate is granted ahead: a rate that rises has its effect
/// soon.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// Rates that the relays of a link share. Without a limit at first.
#[derive(Debug, Default)]
pub struct LentRate {
    /// Towards the primaries.
    pub down: Pace,
    /// Towards the proxies.
    pub up: Pace,
    woken: Notify,
    /// No byte has passed since [`LentRate::woken`] was called last.
    rests: AtomicBool,
}

impl LentRate {
    /// Waits until a byte passes any of the relays.
    pub async fn woken(&self) {
        self.rests.store(true, Relaxed);
        self.woken.notified().await;
    }

    /// A byte has passed, or a relay has ended.
    pub fn touch(&self) {
        if self.rests.load(Relaxed) && self.rests.swap(false, Relaxed) {
            self.woken.notify_one();
        }
    }
}

/// The rate of one direction, for all relays (a token bucket): each part of the future belongs to
/// the relay that asked for it first.
#[derive(Debug, Default)]
pub struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rate: Option<BitRate>,
    /// Bytes that may be read at `since`; negative: that many were granted for later. In bytes, so
    /// that what was granted at one rate and is given back at another one is the same.
    balance: f64,
    since: Option<Instant>,
}

impl State {
    fn settle(&mut self, now: Instant) {
        let before = self.since.replace(now);
        let (Some(rate), Some(before)) = (self.rate, before) else {
            self.balance = 0.0;
            return;
        };
        let passed = rate.bytes_per_sec() * now.saturating_duration_since(before).as_secs_f64();
        let most = rate.bytes_per_sec() * CATCH_UP.as_secs_f64();
        self.balance = (self.balance + passed).min(most);
    }
}

/// Bytes that a relay may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    /// Zero: to be asked for again.
    pub bytes: u64,
    /// From then on; `None`: at once.
    pub at: Option<Instant>,
}

impl Pace {
    /// Sets the rate; `None`: no limit.
    pub fn set_rate(&self, rate: Option<BitRate>) {
        let mut state = self.lock();
        if state.rate.is_some() {
            state.settle(Instant::now());
        }
        state.rate = rate.filter(|rate| *rate > BitRate::ZERO);
        if state.rate.is_none() {
            state.since = None;
        }
    }

    /// The rate; `None`: no limit.
    pub fn rate(&self) -> Option<BitRate> {
        self.lock().rate
    }

    /// Asks for bytes. What is not read of them is given back.
    pub(super) fn ask(&self, now: Instant, wanted: u64) -> Grant {
        let mut state = self.lock();
        let Some(rate) = state.rate else {
            return Grant {
                bytes: wanted,
                at: None,
            };
        };
        state.settle(now);
        let least = rate.bytes_in(QUANTUM).max(LEAST_BYTES);
        let bytes = wanted.min((state.balance as u64).max(least));
        if state.balance >= 0.0 {
            state.balance -= bytes as f64;
            return Grant { bytes, at: None };
        }
        let wait = rate.time_for((-state.balance) as u64);
        if wait > MAX_WAIT {
            let (bytes, at) = (0, Some(now + MAX_WAIT));
            return Grant { bytes, at };
        }
        state.balance -= bytes as f64;
        let at = Some(now + wait);
        Grant { bytes, at }
    }

    /// Gives back what was not read.
    pub(super) fn give_back(&self, bytes: u64) {
        self.lock().balance += bytes as f64;
    }

    // Uncontended: one thread runs the relays and sets the rate.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate::from_bps(8_000_000);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn paced(rate: BitRate) -> Pace {
        let pace = Pace::default();
        pace.set_rate(Some(rate));
        pace
    }

    #[test]
    fn without_a_rate_everything_is_granted_at_once() {
        let (pace, now) = (Pace::default(), Instant::now());
        for bytes in [1, 1 << 40] {
            assert_eq!(pace.ask(now, bytes), Grant { bytes, at: None });
        }
    }

    /// A megabyte a second: 4000 bytes at a time.
    #[test]
    fn relays_get_parts_of_the_rate_in_turn() {
        let (pace, now) = (paced(RATE), Instant::now());
        let first = pace.ask(now, 1 << 20);
        let bytes = 4_000;
        assert_eq!(first, Grant { bytes, at: None });
        for n in 1..5 {
            let at = Some(now + ms(4 * n));
            assert_eq!(pace.ask(now, 1 << 20), Grant { bytes, at });
        }
        // The last one has read nothing: another one gets its part.
        pace.give_back(bytes);
        assert_eq!(pace.ask(now, 1 << 20).at, Some(now + ms(16)));
    }

    #[test]
    fn what_was_not_read_is_caught_up_on_for_20_ms() {
        let (pace, now) = (paced(RATE), Instant::now());
        assert_eq!(pace.ask(now, 1_000).at, None);
        for (later, bytes) in [(11, 10_000), (1_000, 20_000)] {
            let grant = pace.ask(now + ms(later), 1 << 20);
            assert_eq!(grant, Grant { bytes, at: None });
        }
    }

    #[test]
    fn a_slow_rate_reads_by_segments() {
        let (pace, now) = (paced(BitRate::from_bps(11_584)), Instant::now());
        assert_eq!(pace.ask(now, 1 << 20).bytes, LEAST_BYTES);
        let grant = pace.ask(now, 1 << 20);
        // Not a second.
        assert_eq!((grant.bytes, grant.at), (0, Some(now + MAX_WAIT)));
        pace.set_rate(Some(BitRate::ZERO));
        assert_eq!(pace.ask(now, 7), Grant { bytes: 7, at: None });
    }

    /// A grant of a low rate costs its bytes and not its time.
    #[test]
    fn a_rate_that_rises_has_its_effect_at_once() {
        let (pace, now) = (paced(BitRate::from_bps(80_000)), Instant::now());
        for _ in 0..3 {
            pace.ask(now, 1 << 20);
        }
        pace.set_rate(Some(RATE));
        let at = pace.ask(now, 1 << 20).at.unwrap();
        assert!(at <= now + ms(5), "{:?}", at - now);
        pace.set_rate(Some(BitRate::from_bps(80_000)));
        pace.give_back(3 * LEAST_BYTES + 4_000);
        assert!(pace.ask(now, 100).at.is_none_or(|at| at <= now + ms(1)));
    }

    #[tokio::test]
    async fn a_byte_wakes_the_one_who_waits() {
        let lent = LentRate::default();
        lent.touch();
        let is_woken = async |lent: &LentRate| {
            let wait = tokio::time::timeout(Duration::ZERO, lent.woken());
            wait.await.is_ok()
        };
        assert!(!is_woken(&lent).await, "nothing has passed since");
        lent.touch();
        assert!(is_woken(&lent).await);
    }
}
