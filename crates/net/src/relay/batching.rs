//! Batching of wake-ups: a busy direction of a relay is looked at in intervals. No clock and no
//! socket: instants are durations since the start of the relay.
//!
//! Each wake-up costs several system calls, however few bytes it moves. An interval of more than a
//! millisecond ends while earlier bytes still wait at the sink, so that it never makes the next hop
//! idle. It also grows with the time for which bytes have flowed only, so that a short exchange is
//! not delayed by more.

use std::time::Duration;

/// Minimum interval. The runtime's timer has a resolution of 1 ms and rounds up, so that the delay
/// is up to 1 ms longer than an interval.
pub(super) const LEAST_TICK: Duration = Duration::from_millis(1);
/// Interval after bytes have flowed for some time: this part of that time.
const SHARE_OF_FLOW: u32 = 8;
/// Maximum of an interval: this part of the time for which what waits at the sink lasts.
const SHARE_OF_BACKLOG: u32 = 2;
/// Gap between wake-ups below which batching starts: one tick covers more than one of them.
const BUSY_GAP: Duration = Duration::from_millis(1);
/// Number of such wake-ups in a row that starts batching.
const BUSY_WAKES: u32 = 4;
/// A tick with fewer bytes than this, hardly more than one packet, saved no wake-up.
const QUIET_TICK_BYTES: u64 = 2 * 1024;
/// Number of such ticks in a row that ends batching.
const QUIET_TICKS: u32 = 4;

/// When a direction is looked at.
#[derive(Debug)]
pub(super) struct Batching {
    longest: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    /// At every arrival.
    Off {
        last_wake: Option<Duration>,
        close_wakes: u32,
    },
    /// At ticks, and when a large amount waits.
    On {
        quiet_ticks: u32,
        /// Start of the flow: no tick since was quiet.
        flows_since: Duration,
        /// The last look.
        looked_at: Duration,
        tick: Duration,
    },
}

const OFF: State = State::Off {
    last_wake: None,
    close_wakes: 0,
};

/// What follows a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Every arrival is an event, as before.
    Arrivals,
    /// Batching starts: only large amounts are events. The next tick is due after this time.
    Start(Duration),
    /// The next tick is due after this time.
    Tick(Duration),
    /// Batching ends: every arrival is an event.
    Stop,
}

impl Batching {
    /// Off. Intervals reach `longest`, at least [`LEAST_TICK`]; there are none where it is zero.
    pub(super) fn new(longest: Duration) -> Self {
        let longest = match longest.is_zero() {
            true => longest,
            false => longest.max(LEAST_TICK),
        };
        Self {
            longest,
            state: OFF,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self.state, State::On { .. })
    }

    /// The present interval; zero while batching is off.
    pub(super) fn tick(&self) -> Duration {
        match self.state {
            State::Off { .. } => Duration::ZERO,
            State::On { tick, .. } => tick,
        }
    }

    /// After a turn that an arrival or a tick (`ticked`) has caused, and that read `read` bytes.
    /// `backlog` bytes are held for the sink, or have not left it yet.
    pub(super) fn after_turn(
        &mut self,
        now: Duration,
        read: u64,
        ticked: bool,
        backlog: u64,
    ) -> After {
        match &mut self.state {
            State::Off {
                last_wake,
                close_wakes,
            } => {
                let is_close = last_wake.is_some_and(|t| now.saturating_sub(t) < BUSY_GAP);
                *last_wake = Some(now);
                *close_wakes = if is_close {
                    close_wakes.saturating_add(1)
                } else {
                    0
                };
                if *close_wakes < BUSY_WAKES || self.longest.is_zero() {
                    return After::Arrivals;
                }
                self.state = State::On {
                    quiet_ticks: 0,
                    flows_since: now,
                    looked_at: now,
                    tick: LEAST_TICK,
                };
                After::Start(LEAST_TICK)
            }
            State::On {
                quiet_ticks,
                flows_since,
                looked_at,
                tick,
            } => {
                let gap = now.saturating_sub(std::mem::replace(looked_at, now));
                if ticked && read < QUIET_TICK_BYTES {
                    *quiet_ticks += 1;
                    *flows_since = now;
                } else {
                    *quiet_ticks = 0;
                }
                if *quiet_ticks >= QUIET_TICKS {
                    self.state = OFF;
                    return After::Stop;
                }
                let flows = now.saturating_sub(*flows_since) / SHARE_OF_FLOW;
                let most = flows.min(lasts(backlog, read, gap) / SHARE_OF_BACKLOG);
                *tick = most.clamp(LEAST_TICK, self.longest);
                After::Tick(*tick)
            }
        }
    }

    /// Ends batching.
    pub(super) fn stop(&mut self) {
        self.state = OFF;
    }
}

/// The time for which `backlog` bytes last at the rate at which `read` came in the time `gap`. The
/// sink may take longer.
fn lasts(backlog: u64, read: u64, gap: Duration) -> Duration {
    let us = u64::try_from(gap.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(us.saturating_mul(backlog) / read.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(5);

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// One that has just started, at 2 ms.
    fn started() -> Batching {
        let mut batching = Batching::new(LONGEST);
        for n in 0..4 {
            let after = batching.after_turn(us(1600 + 100 * n), 1448, false, 0);
            assert_eq!(after, After::Arrivals, "{n}");
        }
        let after = batching.after_turn(us(2000), 1448, false, 0);
        assert_eq!(after, After::Start(LEAST_TICK));
        batching
    }

    /// Ticks on time, each of which reads so many bytes; the interval after each of them.
    fn ticks_with(
        batching: &mut Batching,
        now: &mut Duration,
        (read, backlog): (u64, u64),
        count: u32,
    ) -> Vec<u64> {
        let each = (0..count).map(|_| {
            *now += batching.tick();
            match batching.after_turn(*now, read, true, backlog) {
                After::Tick(tick) => u64::try_from(tick.as_micros()).unwrap(),
                other => panic!("{other:?}"),
            }
        });
        each.collect()
    }

    /// The same with much that waits at the sink.
    fn ticks(batching: &mut Batching, now: &mut Duration, read: u64, count: u32) -> Vec<u64> {
        ticks_with(batching, now, (read, 1 << 20), count)
    }

    #[test]
    fn wake_ups_far_apart_are_not_batched() {
        let mut batching = Batching::new(LONGEST);
        for n in 1..100 {
            let after = batching.after_turn(us(1000 * n), 1448, false, 0);
            assert_eq!(after, After::Arrivals);
        }
        assert_eq!(batching.tick(), Duration::ZERO);
    }

    #[test]
    fn without_a_longest_interval_every_arrival_is_an_event() {
        let mut batching = Batching::new(Duration::ZERO);
        for n in 1..100 {
            let after = batching.after_turn(us(100 * n), 8192, false, 0);
            assert_eq!(after, After::Arrivals);
        }
    }

    #[test]
    fn the_interval_is_an_eighth_of_the_time_of_a_flow_and_bounded() {
        let mut batching = started();
        let mut now = us(2000);
        let first = ticks(&mut batching, &mut now, 5000, 8);
        assert_eq!(first, [1000; 8]);
        let mut last = 1000;
        for tick in ticks(&mut batching, &mut now, 5000, 40) {
            assert!(tick >= last, "{tick} after {last}");
            last = tick;
        }
        assert_eq!(last, 5000);
        // 40 ms of flow are needed for it.
        let mut batching = started();
        let mut now = us(2000);
        while batching.tick() < LONGEST {
            ticks(&mut batching, &mut now, 5000, 1);
        }
        assert!((us(42_000)..us(48_000)).contains(&now), "{now:?}");
        assert_eq!(Batching::new(us(1)).longest, LEAST_TICK);
    }

    #[test]
    fn the_sink_does_not_run_dry_within_an_interval() {
        let mut batching = started();
        let mut now = us(2000);
        // Nothing waits: the next hop is as fast.
        let without = ticks_with(&mut batching, &mut now, (5000, 0), 100);
        assert_eq!(without, [1000; 100]);
        // 5000 came in 1 ms; 30,000 last for 6 ms, and for half of it until the next look.
        let with = ticks_with(&mut batching, &mut now, (5000, 30_000), 1);
        assert_eq!(with, [3000]);
        // 15,000 came in 3 ms: the same rate.
        let with = ticks_with(&mut batching, &mut now, (15_000, 60_000), 1);
        assert_eq!(with, [5000]);
        let with = ticks_with(&mut batching, &mut now, (25_000, 5_000), 1);
        assert_eq!(with, [1000]);
        assert_eq!(lasts(u64::MAX, 0, Duration::MAX), us(u64::MAX));
    }

    #[test]
    fn one_quiet_tick_shortens_the_interval_and_four_end_batching() {
        let mut batching = started();
        let mut now = us(2000);
        ticks(&mut batching, &mut now, 5000, 100);
        assert_eq!(batching.tick(), LONGEST);
        assert_eq!(ticks(&mut batching, &mut now, 2047, 1), [1000]);
        // A flow again: the quiet ticks before do not count.
        assert_eq!(ticks(&mut batching, &mut now, 2048, 1), [1000]);
        assert_eq!(ticks(&mut batching, &mut now, 0, 3), [1000; 3]);
        assert_eq!(batching.after_turn(now + us(1000), 0, true, 0), After::Stop);
        assert!(!batching.is_on());
    }

    /// The kernel reports a large amount before the tick: that is no quiet tick.
    #[test]
    fn an_amount_before_the_tick_is_a_flow() {
        let mut batching = started();
        for n in 0..100 {
            let after = batching.after_turn(us(2000 + 500 * n), 1000, false, 1 << 20);
            assert!(matches!(after, After::Tick(_)), "{after:?}");
        }
        assert_eq!(batching.tick(), LONGEST);
        batching.stop();
        assert!(!batching.is_on());
    }
}
