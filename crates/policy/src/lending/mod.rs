//! Rate of the relays of a link whose capacity is stated, beside own traffic (ADR 0041).
//!
//! Own traffic is what passes the interface and is not of relays. Nothing is estimated: a rate
//! depends on the stated capacity and on the bytes of the last 0.6 s, and on nothing before.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Interval of readings while relays carry bytes.
pub const READ_EVERY: Duration = Duration::from_millis(200);

/// Intervals over which rates are taken.
const INTERVALS: usize = 3;

/// Time between readings after which earlier ones do not count: relays have rested.
const REST: Duration = Duration::from_secs(1);

/// Part of the capacity up to which own traffic limits nothing, in percent. A call needs no room.
const LITTLE_PERCENT: u64 = 3;

/// Part of the capacity that own traffic and relays share, in percent. The rest lets own traffic
/// grow with each reading: its rate alone does not show how much more it would take.
const SHARED_PERCENT: u64 = 94;

/// Part of the capacity that relays have in any case, in percent.
const FLOOR_PERCENT: u64 = 2;

/// Rate on the wire that each relay with something to carry has in any case, 16 kB/s. Its sender
/// aborts when it sees closed windows only for 30 s (TCP_USER_TIMEOUT), and Linux opens a window
/// again when a sixteenth of the receive buffer is free: with segments of 64 KiB and a buffer of
/// 2 MiB, senders aborted below about 8 kB/s.
const FLOOR_EACH: BitRate = BitRate::from_bps(128_000);

/// Part of the capacity up to which [`FLOOR_EACH`] is kept, in percent.
const MOST_FLOOR_PERCENT: u64 = 25;

/// Multiple of the excess by which less is read while relays receive more than their rate, over the
/// last interval and over all: a burst, as of a page, is none. What they do not read fills their
/// buffers, and their senders go on until these are full.
const EXCESS_FACTOR: u64 = 4;

/// Part of the wire's bytes that is payload, in percent, in segments of 1500 bytes: relays read
/// payload.
const PAYLOAD_PERCENT: u64 = 95;

/// Counts of one direction of a link, in bytes on the wire since some time before the first
/// reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// All that has passed the interface.
    pub all_bytes: u64,
    /// The part of it that pipes of relays have carried.
    pub pipe_bytes: u64,
    /// The part of it that relays have carried over their HS-Paths.
    pub lent_bytes: u64,
}

/// One direction of a link that is used and lent.
///
/// # Contract
/// [`handle_reading`](Self::handle_reading) is called every [`READ_EVERY`] while relays carry
/// bytes, and its answer holds until the next call.
#[derive(Debug)]
pub struct Lending {
    capacity: BitRate,
    /// The last readings.
    recent: VecDeque<(Timestamp, Passed)>,
    is_limited: bool,
}

impl Lending {
    /// A direction of a link with this capacity on the wire.
    pub fn new(capacity: BitRate) -> Self {
        Self {
            capacity,
            recent: VecDeque::new(),
            is_limited: false,
        }
    }

    /// Takes the counts of now, and the number of relays that have something to carry. Returns the
    /// rate of payload at which all relays together may read; `None`: no limit.
    pub fn handle_reading(
        &mut self,
        now: Timestamp,
        passed: Passed,
        relays: usize,
    ) -> Option<BitRate> {
        let last = self.recent.back();
        if last.is_some_and(|(at, _)| now.since(*at) > REST) {
            self.recent.clear();
            self.is_limited = false;
        }
        self.recent.push_back((now, passed));
        if self.recent.len() > INTERVALS + 1 {
            self.recent.pop_front();
        }
        let recent = self.recent.make_contiguous();
        let (Some(first), true) = (recent.first(), recent.len() > INTERVALS) else {
            return None;
        };
        let mut intervals = recent.windows(2).map(|pair| own_and_lent(pair[0], pair[1]));
        let little = percent(self.capacity, LITTLE_PERCENT);
        let (own, lent) = own_and_lent(*first, (now, passed));
        // One interval alone may have the bytes of relays whose segments came out of order: the
        // kernel counts them late.
        self.is_limited =
            own > little && (self.is_limited || intervals.clone().all(|(own, _)| own > little));
        if !self.is_limited {
            return None;
        }
        let floor = floor(self.capacity, relays);
        let shared = percent(self.capacity, SHARED_PERCENT);
        let left = less(shared, own).max(floor);
        let last = intervals.next_back().map_or(lent, |(_, lent)| lent);
        let received = last.min(lent);
        let excess = less(received, left).bps().saturating_mul(EXCESS_FACTOR);
        let read = less(left, BitRate::from_bps(excess)).max(floor);
        Some(percent(read, PAYLOAD_PERCENT))
    }
}

/// Rate on the wire that relays have in any case.
fn floor(capacity: BitRate, relays: usize) -> BitRate {
    let relays = u64::try_from(relays).unwrap_or(u64::MAX);
    let all = BitRate::from_bps(FLOOR_EACH.bps().saturating_mul(relays));
    let most = percent(capacity, MOST_FLOOR_PERCENT);
    percent(capacity, FLOOR_PERCENT).max(all.min(most))
}

/// Rates of own traffic and of relays between two readings.
fn own_and_lent(
    (then, before): (Timestamp, Passed),
    (now, passed): (Timestamp, Passed),
) -> (BitRate, BitRate) {
    let rate = |bytes: u64, before| BitRate::over(bytes.saturating_sub(before), now.since(then));
    let all = rate(passed.all_bytes, before.all_bytes);
    let pipes = rate(passed.pipe_bytes, before.pipe_bytes);
    let lent = rate(passed.lent_bytes, before.lent_bytes);
    (less(less(all, pipes), lent), lent)
}

fn less(rate: BitRate, by: BitRate) -> BitRate {
    BitRate::from_bps(rate.bps().saturating_sub(by.bps()))
}

fn percent(rate: BitRate, percent: u64) -> BitRate {
    let bps = u128::from(rate.bps()) * u128::from(percent) / 100;
    BitRate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
