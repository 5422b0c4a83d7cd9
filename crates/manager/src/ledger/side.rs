//! One direction of a link: its capacity, and the rate that is lent.

use std::time::Duration;

use mpbond_units::BitRate;

use super::lent_rate::lent_rate;
use super::reading::Passed;

/// Part of the wire's bytes that is payload, in segments of 1500 bytes: a relay's rate is counted
/// in payload. The capacity is found in a closed loop, so a link of other segments is lent the same
/// part.
const PAYLOAD_PERCENT: u64 = 95;

/// Growth of the capacity in percent in the first interval without a queue in which relays were
/// held back, and in the last of several: it doubles. The first ones exceed the capacity by less
/// than the lent part is below it; the last one makes a queue of 16 ms, once.
const GROWTH_PERCENT: std::ops::RangeInclusive<u64> = 1..=8;

/// The same of the last one beside own traffic of some size, from which it may take.
const GROWTH_BESIDE_PERCENT: u64 = 2;

/// Part of the total, in percent, from which on own traffic has some size.
const BESIDE_PERCENT: u64 = 5;

/// Part of the capacity, in percent, by which own traffic counts more in each interval. What relays
/// have accepted must be forwarded, or it is held up for as long as own traffic lasts; senders
/// notice a rate that sinks within 5 s, and give less to these relays. Exchanges of a second or two
/// share the link as TCP does: two devices that lend to each other gain from that.
const COUNTED_PERCENT: u64 = 4;

/// A direction whose total sinks below this part of what it was when the queue came, in percent,
/// while the queue stays, has none.
const DOUBT_PERCENT: u64 = 70;

/// Intervals that a queue has to drain before it is doubted: more than it takes to lower the
/// capacity to a quarter.
const DRAINING: u32 = 10;

/// Intervals with a queue before the capacity is lowered: one may be a gap of the sender.
const CERTAIN: u32 = 2;

/// Part of the capacity to which it is lowered in an interval, in percent, at most.
const LOWERED_PERCENT: u64 = 75;

/// Rates of one direction in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub all: BitRate,
    pub own: BitRate,
    pub is_held_back: bool,
}

impl Load {
    /// The rates between two counts. Counters that have sunk (another interface) count nothing.
    pub(super) fn over(interval: Duration, before: Passed, now: Passed) -> Self {
        let all = now.all_bytes.saturating_sub(before.all_bytes);
        let lent = now.lent_bytes.saturating_sub(before.lent_bytes);
        Self {
            all: BitRate::over(all, interval),
            own: BitRate::over(all.saturating_sub(lent), interval),
            is_held_back: now.held_back > before.held_back,
        }
    }

    /// Whether own traffic has some size.
    fn is_beside_own(self) -> bool {
        self.own >= percent(self.all, BESIDE_PERCENT)
    }

    /// Whether most of what relays have gained was lost by own traffic, about as much: a link that
    /// is full without a queue, since it serves flows in turn.
    fn takes_of(self, before: Self) -> bool {
        let own_lost = before.own.bps().saturating_sub(self.own.bps());
        let lent = |load: Self| load.all.bps().saturating_sub(load.own.bps());
        let gained = lent(self).saturating_sub(lent(before));
        gained >= percent(self.all, 1).bps()
            && (gained / 2..=gained.saturating_mul(2)).contains(&own_lost)
    }
}

/// What is known of a direction in an interval besides its rates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// There is a queue in this direction.
    pub is_full: bool,
    /// There is none, or it is in the other direction.
    pub is_empty: bool,
    /// More passes than in the other direction, which may only acknowledge it.
    pub is_busier: bool,
}

/// A queue that stays for several intervals.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The total when it came.
    all: BitRate,
    intervals: u32,
}

/// One direction of a link.
///
/// The capacity is unknown until the direction has been full; until then nothing is limited, since
/// what passes without a queue takes nothing of own traffic. In the busier direction, beside own
/// traffic of some size, the largest total counts as capacity. While there is a queue, the total is
/// the capacity; while relays are held back and there is no queue, the capacity is more, and grows
/// until one shows, or until relays gain only what own traffic loses.
#[derive(Debug, Default)]
pub(super) struct Side {
    capacity: Option<BitRate>,
    /// The direction has been full at this capacity.
    is_certain: bool,
    growth_percent: u64,
    standing: Option<Standing>,
    last: Option<Load>,
    /// Own traffic, as far as it counts.
    counted: BitRate,
}

impl Side {
    /// Part of the capacity that was used, in percent; 0 if the capacity is unknown.
    pub(super) fn use_percent(&self, load: Load) -> u64 {
        let capacity = self.capacity.map_or(0, BitRate::bps);
        load.all
            .bps()
            .saturating_mul(100)
            .checked_div(capacity)
            .unwrap_or(0)
    }

    /// The rates of an interval. Returns whether the queue is doubted.
    pub(super) fn handle_load(&mut self, load: Load, signs: Signs) -> bool {
        let before = self.last.replace(load);
        let is_doubted = match signs.is_full {
            true => self.handle_queue(load.all),
            false => {
                self.handle_no_queue(load, before, signs);
                false
            }
        };
        let more = percent(self.capacity.unwrap_or_default(), COUNTED_PERCENT).bps();
        let most = BitRate::from_bps(self.counted.bps().saturating_add(more));
        self.counted = load.own.min(most);
        is_doubted
    }

    fn handle_no_queue(&mut self, load: Load, before: Option<Load>, signs: Signs) {
        self.standing = None;
        let counts = load.is_beside_own() && signs.is_busier;
        if !self.is_certain && !counts {
            self.capacity = None;
            return;
        }
        let capacity = self
            .capacity
            .map_or(load.all, |capacity| capacity.max(load.all));
        let has_taken = self.growth_percent > 0 && before.is_some_and(|b| load.takes_of(b));
        let growth = match (signs.is_empty && load.is_held_back, load.is_beside_own()) {
            (false, _) => 0,
            (true, false) => *GROWTH_PERCENT.end(),
            (true, true) => GROWTH_BESIDE_PERCENT,
        };
        if has_taken {
            self.growth_percent = 0;
            self.capacity = Some(lowered(capacity, load.all));
        } else if growth > 0 {
            let doubled = (self.growth_percent * 2).max(*GROWTH_PERCENT.start());
            self.growth_percent = doubled.min(growth);
            self.capacity = Some(percent(capacity, 100 + self.growth_percent));
        } else {
            self.growth_percent = 0;
            self.capacity = Some(capacity);
        }
    }

    fn handle_queue(&mut self, all: BitRate) -> bool {
        self.growth_percent = 0;
        let standing = self.standing.get_or_insert(Standing { all, intervals: 0 });
        standing.intervals += 1;
        if standing.intervals > DRAINING && all < percent(standing.all, DOUBT_PERCENT) {
            self.capacity = Some(standing.all);
            self.standing = None;
            return true;
        }
        if standing.intervals >= CERTAIN {
            self.is_certain = true;
            self.capacity = Some(self.capacity.map_or(all, |capacity| lowered(capacity, all)));
        }
        false
    }

    pub(super) fn lent_rate(&self) -> Option<BitRate> {
        let lent = lent_rate(self.capacity, self.counted)?;
        Some(percent(lent, PAYLOAD_PERCENT))
    }

    pub(super) fn capacity(&self) -> Option<BitRate> {
        self.capacity
    }

    pub(super) fn own(&self) -> BitRate {
        self.last.map_or(BitRate::ZERO, |load| load.own)
    }
}

/// A capacity that turns out to be the total of an interval, or a higher one than was known.
fn lowered(capacity: BitRate, all: BitRate) -> BitRate {
    let mean = BitRate::from_bps(capacity.bps().midpoint(all.bps()));
    mean.max(percent(capacity, LOWERED_PERCENT)).max(all)
}

fn percent(rate: BitRate, percent: u64) -> BitRate {
    let bps = u128::from(rate.bps()) * u128::from(percent) / 100;
    BitRate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}
