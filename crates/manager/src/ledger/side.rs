//! One direction of a link: its capacity, and the rate that is lent.

use std::time::Duration;

use mpbond_units::BitRate;

use super::lent_rate::lent_rate;
use super::reading::Passed;

/// Part of the wire's bytes that is payload, in segments of 1500 bytes: a relay's rate is counted
/// in payload. The capacity is found in a closed loop, so a link of other segments is lent the same
/// part.
const PAYLOAD_PERCENT: u64 = 95;

/// Growth of the capacity, in percent, in an interval without a queue in which relays were held
/// back: 1 % at first, and twice as much after every three in a row. What exceeds the capacity is
/// little while that is near, and a link that has become faster is followed soon.
const MAX_GROWTH_PERCENT: u64 = 8;
const DOUBLED_AFTER: u32 = 3;

/// The same beside own traffic of some size, from which the growth may take.
const MAX_GROWTH_BESIDE_PERCENT: u64 = 2;

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

/// Intervals in which a queue is not doubted: more than it takes to lower the capacity to a
/// quarter.
const LOWERING: u32 = 10;

/// Delay that drains in an interval, and intervals after which what is left of a queue is none.
const DRAINED: Duration = Duration::from_millis(20);
const AFTER_DRAINING: u32 = 3;

/// Intervals in a row with a queue before the capacity is lowered. One may be a gap of the sender.
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
    /// Delay of the queue, if there is one in this direction.
    pub queue: Option<Duration>,
    /// There is none, or it is in the other direction.
    pub is_empty: bool,
    /// More passes than in the other direction, which may only acknowledge it.
    pub is_busier: bool,
}

/// A queue that stays for several intervals.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The total and the delay when it came.
    all: BitRate,
    queue: Duration,
    intervals: u32,
}

impl Standing {
    /// Intervals in which it drains.
    fn draining(self) -> u32 {
        let intervals = self.queue.as_millis() / DRAINED.as_millis();
        u32::try_from(intervals)
            .unwrap_or(u32::MAX)
            .saturating_add(AFTER_DRAINING)
    }
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
    /// Relays that are held back have received more than they may forward, so that the link does
    /// not limit them. Those that send may fill a queue meanwhile.
    is_received: bool,
    /// The direction has been full at this capacity.
    is_certain: bool,
    /// Intervals in a row in which it has grown.
    grown: u32,
    standing: Option<Standing>,
    last: Option<Load>,
    /// Own traffic, as far as it counts.
    counted: BitRate,
}

impl Side {
    /// The direction in which relays receive.
    pub(super) fn received() -> Self {
        Self {
            is_received: true,
            ..Self::default()
        }
    }

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
        let is_doubted = match signs.queue {
            Some(queue) => self.handle_queue(load, queue),
            None => {
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
        let has_taken = self.grown > 0 && before.is_some_and(|b| load.takes_of(b));
        let most = match load.is_beside_own() {
            false => MAX_GROWTH_PERCENT,
            true => MAX_GROWTH_BESIDE_PERCENT,
        };
        let is_held_back = signs.is_empty && load.is_held_back;
        self.capacity = Some(match is_held_back {
            _ if has_taken => lowered(capacity, load.all),
            true => percent(capacity, 100 + growth_percent(self.grown).min(most)),
            false => capacity,
        });
        self.grown = match is_held_back && !has_taken {
            true => self.grown.saturating_add(1),
            false => 0,
        };
    }

    fn handle_queue(&mut self, load: Load, queue: Duration) -> bool {
        self.grown = 0;
        let begin = Standing {
            all: load.all,
            queue,
            intervals: 0,
        };
        let standing = self.standing.get_or_insert(begin);
        standing.intervals += 1;
        // Less is carried since relays are held back, not since the link carries less.
        let is_limited_here =
            self.is_received && load.is_held_back && load.own.bps() <= load.all.bps() / 2;
        let is_doubted = match is_limited_here {
            true => standing.intervals > standing.draining(),
            false => {
                let less = percent(standing.all, DOUBT_PERCENT);
                standing.intervals > LOWERING && load.all < less
            }
        };
        if is_doubted {
            self.capacity = self.capacity.max(Some(standing.all));
            self.standing = None;
        } else if !is_limited_here && standing.intervals >= CERTAIN {
            self.is_certain = true;
            let lower = |capacity| lowered(capacity, load.all);
            self.capacity = Some(self.capacity.map_or(load.all, lower));
        }
        is_doubted
    }

    /// The rate of payload that is lent; less by `draining_percent` of the capacity at most while
    /// there is a queue.
    pub(super) fn lent_rate(&self, draining_percent: u64) -> Option<BitRate> {
        let lent = lent_rate(self.capacity, self.counted)?;
        let part = match self.standing {
            Some(_) => PAYLOAD_PERCENT - draining_percent,
            None => PAYLOAD_PERCENT,
        };
        Some(percent(lent, part))
    }

    pub(super) fn capacity(&self) -> Option<BitRate> {
        self.capacity
    }

    pub(super) fn own(&self) -> BitRate {
        self.last.map_or(BitRate::ZERO, |load| load.own)
    }
}

/// Growth after so many intervals in a row.
fn growth_percent(grown: u32) -> u64 {
    1 << (grown / DOUBLED_AFTER).min(8)
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
