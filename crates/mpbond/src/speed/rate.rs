//! Throughput of a link: its measurement, and the minimum below which a direction is stuck.

use std::time::Duration;

use mpbond_net::control::Direction;
use mpbond_units::BitRate;
use tokio::time::{Instant, sleep};

use super::caps::{Allowance, TooLittle};

/// Interval at which the counter is read.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A direction with a lower rate is stuck: a large segment would take more than a second.
const MOVES_FROM: BitRate = BitRate::from_bps(10_000);

/// Throughput of a path or a pipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Towards the primary.
    pub down: BitRate,
    /// Away from it; `None` if a cap left too little to measure it.
    pub up: Option<BitRate>,
    /// Maximum payload of a segment, where larger ones did not pass.
    pub max_segment_bytes: Option<u32>,
}

/// Time of a measurement in one direction.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Not counted: slow start, and queues that have to fill.
    pub warm_up: Duration,
    /// Counted.
    pub measured: Duration,
}

/// The rate of the counter `total` over a span that begins now, and that ends early when so many
/// bytes have moved as are allowed: half of them are not counted at most.
///
/// # Errors
/// They have moved before anything could be measured.
pub(super) async fn rate(
    span: Span,
    allowed: &Allowance,
    total: impl Fn() -> u64,
) -> anyhow::Result<BitRate> {
    let (start, before) = (Instant::now(), total());
    let is_spent = || allowed.is_spent_by(total().saturating_sub(before));
    let is_half_spent = || allowed.is_half_spent_by(total().saturating_sub(before));
    while start.elapsed() < span.warm_up && !is_half_spent() {
        sleep(LOOK_EVERY).await;
    }
    let start = Instant::now();
    let mut meter = Meter::new(total());
    while start.elapsed() < span.measured && !is_spent() {
        sleep(LOOK_EVERY).await;
        meter.add(start.elapsed(), total());
    }
    match is_spent() && !meter.has_measured() {
        true => Err(TooLittle.into()),
        false => Ok(meter.rate()),
    }
}

/// A connection is there, and carries nothing in this direction.
#[derive(Debug, thiserror::Error)]
#[error("nothing arrives {}", match .0 {
    Direction::Down => "from the other end",
    Direction::Up => "at the other end",
})]
pub(super) struct Stuck(Direction);

/// The rate, unless it is that of a stuck direction.
pub(super) fn moves(rate: BitRate, direction: Direction) -> anyhow::Result<BitRate> {
    match rate >= MOVES_FROM {
        true => Ok(rate),
        false => Err(Stuck(direction).into()),
    }
}

/// Measures from the first change of a counter to its last one: what comes in large pieces, as over
/// a slow link, is not rounded to them.
struct Meter {
    total: u64,
    first: Option<(Duration, u64)>,
    last: (Duration, u64),
}

impl Meter {
    fn new(total: u64) -> Self {
        Self {
            total,
            first: None,
            last: (Duration::ZERO, total),
        }
    }

    fn add(&mut self, at: Duration, total: u64) {
        if total != self.total {
            self.total = total;
            self.last = (at, total);
            self.first.get_or_insert(self.last);
        }
    }

    /// Whether the counter has changed more than once.
    fn has_measured(&self) -> bool {
        self.first.is_some_and(|first| first != self.last)
    }

    fn rate(&self) -> BitRate {
        let first = self.first.unwrap_or(self.last);
        let span = self.last.0.saturating_sub(first.0).as_secs_f64();
        let bytes = self.last.1.saturating_sub(first.1) as f64;
        match span > 0.0 {
            true => BitRate::from_bytes_per_sec(bytes / span),
            false => BitRate::from_bps(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::caps::Left;
    use super::*;

    /// The rate of what has arrived after so many seconds, looked at for 4 s.
    fn measured(total: impl Fn(f64) -> u64) -> f64 {
        let mut meter = Meter::new(total(0.0));
        for n in 1..=200 {
            let at = LOOK_EVERY * n;
            meter.add(at, total(at.as_secs_f64()));
        }
        meter.rate().mbps()
    }

    #[test]
    fn a_steady_rate_is_measured() {
        let mbps = measured(|at| (at * 1e6) as u64);
        assert!((mbps - 8.0).abs() < 0.01, "{mbps}");
    }

    /// 100 kbit/s in pieces of 16 KiB, one each 1.31 s.
    #[test]
    fn pieces_that_come_slowly_are_not_rounded() {
        let mbps = measured(|at| (at * 12_500.0 / 16_384.0) as u64 * 16_384);
        assert!((mbps - 0.1).abs() < 0.002, "{mbps}");
    }

    /// 1 MB/s, with a warm-up of 2 s.
    #[tokio::test(start_paused = true)]
    async fn a_test_ends_when_what_a_cap_leaves_has_moved() {
        let span = Span {
            warm_up: Duration::from_secs(2),
            measured: Duration::from_secs(4),
        };
        for (left, moved, measures) in [
            (None, 6_000_000, true),
            (Some(8_000_000), 6_000_000, true),
            (Some(4_000_000), 3_600_000, true),
            (Some(1_000_000), 900_000, true),
            (Some(30_000), 27_000, false),
        ] {
            let start = Instant::now();
            let total = || (start.elapsed().as_secs_f64() * 1e6) as u64;
            let left = left.map(|bytes| Left {
                bytes,
                of: bytes,
                resets: String::new(),
            });
            let allowed = Allowance::of(left.as_ref()).unwrap();
            let measured = rate(span, &allowed, total).await;
            let most = moved + 2 * LOOK_EVERY.as_micros() as u64;
            assert!((moved..most).contains(&total()), "{left:?}: {}", total());
            match measured {
                Ok(rate) => assert!(measures && (rate.mbps() - 8.0).abs() < 0.01, "{rate:?}"),
                Err(e) => assert!(!measures && e.is::<TooLittle>(), "{e}"),
            }
        }
    }

    #[test]
    fn a_link_that_carries_nothing_has_no_rate() {
        assert_eq!(measured(|_| 7), 0.0);
    }
}
