//! Ledger of a link that a device uses itself and lends: what relays may carry (ADR 0041).
//!
//! The device's own traffic goes first. A [`LinkLedger`] is told, several times a second while
//! relays carry bytes, what has passed the link, which part of it was lent, and the round-trip
//! times of relays. It finds the link's capacity and answers with the rate that all relays together
//! may have in each direction, and with the receive window at which a relay's sender fills that
//! rate without a queue.
//!
//! A sign of a queue is a round-trip time above the least one of the same relay, its *base*
//! (rLEDBAT, RFC 9840). It does not show in which direction the queue is, nor whether the base
//! still holds: see `LinkLedger::handle_reading`.

mod lent_rate;
mod reading;
mod side;

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

pub use reading::{Passed, Reading};
use side::{Load, Side, Signs};

/// Interval of readings while relays carry bytes.
pub const READ_EVERY: Duration = Duration::from_millis(200);

/// An interval that is longer was not used throughout: its mean rates say nothing.
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// Round-trip time above the base from which on there is a queue. Lending may add 20 ms to the
/// round trips of own traffic.
const QUEUE: Duration = Duration::from_millis(15);

/// Round-trip time above the base up to which there is none.
const NO_QUEUE: Duration = Duration::from_millis(8);

/// Part of the capacity, in percent, by which less is lent while there is a queue, so that it
/// drains. No window bounds the queue of an upload.
const DRAINING_DOWN_PERCENT: u64 = 10;
const DRAINING_UP_PERCENT: u64 = 20;

/// Part of the capacity, in percent, from which on a direction's total explains a queue.
const FULL_PERCENT: u64 = 90;

/// Part of a window for the variation of round-trip times. A queue of relays cannot exceed it while
/// the lent rate is right; it is less than [`QUEUE`], so that such a queue is no sign of the
/// contrary.
const WINDOW_SLACK: Duration = Duration::from_millis(12);

/// Least receive window in bytes: some segments, so that a loss is repaired by copies.
const LEAST_WINDOW_BYTES: u64 = 8 << 10;

/// A direction of the link, as seen from the device that lends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Towards the device.
    Down,
    /// Away from it.
    Up,
}

/// Ledger of one link.
#[derive(Debug)]
pub struct LinkLedger {
    down: Side,
    up: Side,
    /// Least round-trip times of relays.
    bases: BTreeMap<u64, Duration>,
    /// Delay of a queue that is not in the direction towards this device.
    elsewhere: Duration,
    last: Option<(Timestamp, Passed, Passed)>,
}

impl Default for LinkLedger {
    fn default() -> Self {
        Self {
            down: Side::received(),
            up: Side::default(),
            bases: BTreeMap::new(),
            elsewhere: Duration::ZERO,
            last: None,
        }
    }
}

impl LinkLedger {
    /// The link's state now, every [`READ_EVERY`] while relays carry bytes.
    ///
    /// A queue that does not drain although less is carried is none: it is in the other direction,
    /// the route has become longer, or round trips vary. Those of then become the bases.
    pub fn handle_reading(&mut self, now: Timestamp, reading: &Reading) {
        let queue = self.queue(&reading.round_trips);
        let before = self.last.replace((now, reading.down, reading.up));
        let Some((at, down, up)) = before else {
            return;
        };
        let interval = now.since(at);
        if interval.is_zero() || interval > MAX_INTERVAL {
            return;
        }
        let down = Load::over(interval, down, reading.down);
        let up = Load::over(interval, up, reading.up);
        let is_full = queue.is_some_and(|queue| queue >= QUEUE);
        let uses = [self.down.use_percent(down), self.up.use_percent(up)];
        // A queue that neither direction's known capacity explains is in the busier one.
        let is_down = match uses.iter().any(|used| *used >= FULL_PERCENT) {
            true => uses[0] >= uses[1],
            false => down.all >= up.all,
        };
        self.elsewhere = queue.filter(|_| is_full && !is_down).unwrap_or_default();
        let is_empty = is_full || queue.is_some_and(|queue| queue <= NO_QUEUE);
        let is_down_busier = down.all >= up.all;
        let signs = |is_here: bool, is_busier| Signs {
            queue: queue.filter(|_| is_full && is_here),
            is_empty,
            is_busier,
        };
        let doubts = [
            self.down.handle_load(down, signs(is_down, is_down_busier)),
            self.up.handle_load(up, signs(!is_down, !is_down_busier)),
        ];
        if doubts.contains(&true) {
            self.bases.extend(reading.round_trips.iter().copied());
        }
    }

    /// The queue's delay, if it was measured: what is in the way of all relays is this link's.
    fn queue(&mut self, round_trips: &[(u64, Duration)]) -> Option<Duration> {
        let excess = round_trips.iter().map(|&(relay, round_trip)| {
            let base = self.bases.entry(relay).or_insert(round_trip);
            *base = (*base).min(round_trip);
            round_trip - *base
        });
        excess.min()
    }

    /// Forgets relays that have ended: those for whose number it is false.
    pub fn retain_relays(&mut self, is_open: impl Fn(u64) -> bool) {
        self.bases.retain(|relay, _| is_open(*relay));
    }

    /// Relays carry nothing any more: the next reading is the beginning of an interval.
    pub fn handle_idle(&mut self) {
        self.last = None;
    }

    /// Rate of payload that all relays together may have; `None`: no limit, since the capacity is
    /// not known.
    pub fn lent_rate(&self, way: Way) -> Option<BitRate> {
        let draining_percent = match way {
            Way::Down => DRAINING_DOWN_PERCENT,
            Way::Up => DRAINING_UP_PERCENT,
        };
        self.side(way).lent_rate(draining_percent)
    }

    /// Capacity of the link, once it has been filled.
    pub fn capacity(&self, way: Way) -> Option<BitRate> {
        self.side(way).capacity()
    }

    /// Rate of own traffic in the last interval.
    pub fn own_rate(&self, way: Way) -> BitRate {
        self.side(way).own()
    }

    /// Receive window in bytes at which the sender of a relay can fill this part (0 to 1) of the
    /// lent rate, without a queue. `None`: no limit.
    pub fn window_bytes(&self, relay: u64, part: f64) -> Option<u64> {
        let base = self.bases.get(&relay)?;
        let rate = self.lent_rate(Way::Down)?;
        let rate = BitRate::from_bytes_per_sec(rate.bytes_per_sec() * part.clamp(0.0, 1.0));
        let window = rate.bytes_in(*base + self.elsewhere + WINDOW_SLACK);
        Some(window.max(LEAST_WINDOW_BYTES))
    }

    fn side(&self, way: Way) -> &Side {
        match way {
            Way::Down => &self.down,
            Way::Up => &self.up,
        }
    }
}

#[cfg(test)]
mod tests;
