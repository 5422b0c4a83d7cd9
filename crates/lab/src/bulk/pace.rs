//! Bytes that are due at a constant rate, or as fast as possible. The elapsed time is a parameter.

use std::time::Duration;

use super::options::SendOptions;

/// Decides how many bytes a sender sends, and when.
pub(super) struct Pace {
    sent: u64,
    rate_bps: Option<u64>,
    tick: Duration,
    bytes: u64,
    duration: Duration,
}

impl Pace {
    pub(super) fn new(options: &SendOptions) -> Self {
        Self {
            sent: 0,
            rate_bps: options.rate.map(|rate| rate.bps()),
            tick: options.tick,
            bytes: options.bytes.unwrap_or(u64::MAX),
            duration: options.duration.unwrap_or(Duration::MAX),
        }
    }

    /// Number of bytes that are due since the last tick, or all that are left without a rate;
    /// `None` at the end. Those of missed ticks are due at the next one.
    pub(super) fn due(&self, elapsed: Duration) -> Option<u64> {
        if elapsed >= self.duration || self.sent >= self.bytes {
            return None;
        }
        let until_now = match self.rate_bps {
            Some(bps) => {
                let at = elapsed.as_nanos() - self.since_tick(elapsed).as_nanos();
                let bytes = u128::from(bps).saturating_mul(at) / 8_000_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
            None => u64::MAX,
        };
        Some(until_now.min(self.bytes).saturating_sub(self.sent))
    }

    /// Time until the next tick, or until the end if that is earlier.
    pub(super) fn until_tick(&self, elapsed: Duration) -> Duration {
        let left = self.duration.saturating_sub(elapsed);
        self.tick.saturating_sub(self.since_tick(elapsed)).min(left)
    }

    fn since_tick(&self, elapsed: Duration) -> Duration {
        let ns = elapsed.as_nanos() % self.tick.as_nanos().max(1);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    pub(super) fn add(&mut self, sent: usize) {
        self.sent += sent as u64;
    }

    /// Number of bytes that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of bytes that are still to be sent before the end, if the time suffices.
    pub(super) fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::{Datagrams, Transport};

    use std::net::SocketAddr;

    use mpbond_units::BitRate;

    /// 8 Mbit/s for 500 ms: 1000 bytes in each tick of 1 ms.
    fn pace() -> Pace {
        Pace::new(&SendOptions {
            to: SocketAddr::from(([127, 0, 0, 1], 9)),
            transport: Transport::Tcp,
            datagrams: Datagrams::Single,
            file: None,
            rate: Some(BitRate::from_mbps(8.0)),
            tick: Duration::from_millis(1),
            bytes: None,
            duration: Some(Duration::from_millis(500)),
        })
    }

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_rate_is_kept_to_the_byte_until_the_time_is_over() {
        let mut pace = pace();
        for (at_us, due) in [
            (0, 0),
            (999, 0),
            (1_000, 1_000),
            (1_999, 0),
            // 249 ticks at once.
            (250_000, 249_000),
            (499_999, 249_000),
        ] {
            assert_eq!(pace.due(us(at_us)), Some(due), "{at_us}");
            pace.add(due as usize);
        }
        assert_eq!(pace.due(us(500_000)), None);
        assert_eq!(pace.sent(), 499_000);
    }

    #[test]
    fn ticks_are_at_multiples_of_their_interval() {
        let pace = pace();
        for (at_us, wait_us) in [(0, 1000), (999, 1), (1000, 1000), (7300, 700)] {
            assert_eq!(pace.until_tick(us(at_us)), us(wait_us), "{at_us}");
        }
        let seconds = Pace {
            tick: Duration::from_secs(1),
            ..pace
        };
        assert_eq!(seconds.until_tick(us(300_000)), us(200_000));
        assert_eq!(seconds.until_tick(us(500_000)), Duration::ZERO);
    }

    #[test]
    fn bytes_that_are_due_do_not_prolong_a_transfer() {
        let mut pace = pace();
        let mut elapsed = us(1_000);
        // Each call takes 1000 bytes in 10 ms, a tenth of the rate.
        while pace.due(elapsed).is_some_and(|due| due > 0) {
            pace.add(1_000);
            elapsed += us(10_000);
        }
        assert_eq!((elapsed, pace.sent()), (us(501_000), 50_000));
        assert_eq!(pace.due(elapsed), None);
    }

    #[test]
    fn without_a_rate_everything_is_due_at_once() {
        let mut pace = Pace {
            rate_bps: None,
            bytes: 3_000,
            ..pace()
        };
        assert_eq!(pace.due(Duration::ZERO), Some(3_000));
        pace.add(2_000);
        assert_eq!((pace.due(us(1)), pace.left()), (Some(1_000), 1_000));
        pace.add(1_000);
        assert_eq!(pace.due(us(2)), None);
    }
}
