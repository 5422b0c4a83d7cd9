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

    /// A byte has passed.
    pub(super) fn touch(&self) {
        if self.rests.load(Relaxed) && self.rests.swap(false, Relaxed) {
            self.woken.notify_one();
        }
    }
}

/// The rate of one direction, for all relays (generic cell rate algorithm): each part of the future
/// belongs to the relay that asked for it first.
#[derive(Debug, Default)]
pub struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rate: Option<BitRate>,
    /// Time from which on more may be read.
    next: Option<Instant>,
    held_back: u64,
}

/// Bytes that a relay may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    pub bytes: u64,
    /// From then on; `None`: at once.
    pub at: Option<Instant>,
}

impl Pace {
    /// Sets the rate; `None`: no limit.
    pub fn set_rate(&self, rate: Option<BitRate>) {
        self.lock().rate = rate;
    }

    /// How often a relay has had to wait although there was something to read.
    pub fn held_back(&self) -> u64 {
        self.lock().held_back
    }

    /// Asks for bytes. What is not read of them is given back.
    pub(super) fn ask(&self, now: Instant, wanted: u64) -> Grant {
        let mut state = self.lock();
        let Some(rate) = state.rate.filter(|rate| *rate > BitRate::ZERO) else {
            return Grant {
                bytes: wanted,
                at: None,
            };
        };
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let next = state.next.map_or(now, |next| next.max(earliest));
        let due = rate.bytes_in(now.saturating_duration_since(next));
        let least = rate.bytes_in(QUANTUM).max(LEAST_BYTES);
        let bytes = wanted.min(due.max(least));
        state.next = next.checked_add(rate.time_for(bytes));
        let at = (next > now).then_some(next);
        state.held_back += u64::from(at.is_some());
        Grant { bytes, at }
    }

    pub(super) fn give_back(&self, bytes: u64) {
        let mut state = self.lock();
        if let (Some(rate), Some(next)) = (state.rate, state.next) {
            state.next = next.checked_sub(rate.time_for(bytes));
        }
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
        assert_eq!(pace.held_back(), 0);
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
        assert_eq!(pace.held_back(), 4);
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
        assert_eq!(
            (grant.bytes, grant.at),
            (LEAST_BYTES, Some(now + ms(1_000)))
        );
        pace.set_rate(Some(BitRate::ZERO));
        assert_eq!(pace.ask(now, 7), Grant { bytes: 7, at: None });
    }

    #[tokio::test]
    async fn a_byte_wakes_the_one_who_waits() {
        let lent = LentRate::default();
        lent.touch();
        let wait = |lent: &LentRate| {
            let mut wait = Box::pin(lent.woken());
            futures_poll(wait.as_mut())
        };
        assert!(!wait(&lent), "nothing has passed since");
        lent.touch();
        assert!(wait(&lent));
    }

    fn futures_poll(wait: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        wait.poll(&mut cx).is_ready()
    }
}
