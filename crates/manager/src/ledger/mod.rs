//! Ledger of a link that a device uses itself and lends: the rate of its relays in one direction
//! (ADR 0041).
//!
//! Own traffic is what passes the interface and is not of relays. While it is a small part of the
//! link's traffic, relays have no limit. Beside more of it they have what it leaves of the largest
//! total of the last minute, less some room in which it can grow: its rate alone does not show how
//! much more it would take.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Interval of readings while relays carry bytes.
pub const READ_EVERY: Duration = Duration::from_millis(200);

/// Intervals over which rates are taken. The least total of them counts: one alone may be a burst
/// that waited, or that fills a queue.
const INTERVALS: usize = 3;

/// Time between readings after which earlier ones do not count: relays have rested.
const REST: Duration = Duration::from_secs(1);

/// Time for which a total counts.
const MOST_WITHIN: Duration = Duration::from_secs(60);

/// Time without a limit, and how often there is one: a link that has become faster shows it. Both
/// together are no multiple of usual periods.
const TRIAL: Duration = Duration::from_secs(1);
const TRIAL_EVERY: Duration = Duration::from_secs(31);

/// Part of the largest total from which on own traffic has nearly all, in percent; and what relays
/// have in a trial then. Own traffic shows by itself that the link has become faster, unless it is
/// limited elsewhere. A trial without a limit would cost it as much as receive buffers take.
const NEARLY_ALL_PERCENT: u64 = 90;
const TRIAL_PERCENT: u64 = 50;

/// Part of the total up to which own traffic needs no room, in percent.
const SMALL_PERCENT: u64 = 5;

/// Part of the largest total that own traffic and relays share, in percent.
const SHARED_PERCENT: u64 = 97;

/// Part of own traffic's rate that is left to it, in percent. It can grow by a quarter with each
/// interval, so that a download that competes with relays soon has the link.
const OWN_PERCENT: u64 = 125;

/// Part of the largest total that relays have in any case, in percent, so that they do not fail.
const FLOOR_PERCENT: u64 = 2;

/// Part of the wire's bytes that is payload, in percent, in segments of 1500 bytes: relays are
/// limited in payload.
const PAYLOAD_PERCENT: u64 = 95;

/// Counts of one direction of a link, in bytes on the wire since some time before the first
/// reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// All that has passed the link; not what relays have sent and is not acknowledged.
    pub all_bytes: u64,
    /// The part of it that relays have carried.
    pub lent_bytes: u64,
    /// Whether relays had more to carry than they could, all the time since the last reading. Then
    /// the total is what the link, or the limit of its relays, lets pass.
    pub backlogged: bool,
}

/// Ledger of one direction of a link.
///
/// # Contract
/// [`handle_reading`](Self::handle_reading) is called every [`READ_EVERY`] while relays carry
/// bytes, and its answer holds until the next call.
#[derive(Debug, Default)]
pub struct LinkLedger {
    /// The last readings.
    recent: VecDeque<(Timestamp, Passed)>,
    /// Totals that count: each is smaller than those before it.
    totals: VecDeque<(Timestamp, BitRate)>,
    /// Rate of own traffic for which there is room.
    own: BitRate,
}

impl LinkLedger {
    /// Takes the counts of now. Returns the rate of payload that all relays together may have;
    /// `None`: no limit.
    pub fn handle_reading(&mut self, now: Timestamp, passed: Passed) -> Option<BitRate> {
        let last = self.recent.back();
        if last.is_some_and(|(at, _)| now.since(*at) > REST) {
            self.recent.clear();
            self.own = BitRate::ZERO;
        }
        self.recent.push_back((now, passed));
        if self.recent.len() > INTERVALS + 1 {
            self.recent.pop_front();
        }
        let recent = self.recent.make_contiguous();
        let [(then, before), intervals @ ..] = &*recent else {
            return None;
        };
        if intervals.len() < INTERVALS {
            return None;
        }
        let rate =
            |bytes: u64, before| BitRate::over(bytes.saturating_sub(before), now.since(*then));
        let total = rate(passed.all_bytes, before.all_bytes);
        let lent = rate(passed.lent_bytes, before.lent_bytes);
        let own = BitRate::from_bps(total.bps().saturating_sub(lent.bps()));
        let totals = recent.windows(2).map(|pair| {
            let ((then, before), (at, passed)) = (pair[0], pair[1]);
            let bytes = passed.all_bytes.saturating_sub(before.all_bytes);
            BitRate::over(bytes, at.since(then))
        });
        let sustained = match intervals.iter().all(|(_, passed)| passed.backlogged) {
            true => totals.min(),
            false => None,
        };
        let most = self.most(now, sustained);
        // A trial takes from own traffic what it gets back after it.
        let trial = now.as_nanos() % nanos(TRIAL_EVERY);
        let is_disturbed = trial < nanos(TRIAL + READ_EVERY * INTERVALS as u32);
        self.own = match is_disturbed {
            true => self.own.max(own),
            false => own,
        };
        if own <= percent(total, SMALL_PERCENT) {
            return None;
        }
        let most = most?;
        if trial < nanos(TRIAL) {
            let has_nearly_all = self.own >= percent(most, NEARLY_ALL_PERCENT);
            return has_nearly_all.then(|| percent(most, TRIAL_PERCENT));
        }
        let shared = percent(most, SHARED_PERCENT).bps();
        let left = shared.saturating_sub(percent(self.own, OWN_PERCENT).bps());
        let lent = BitRate::from_bps(left).max(percent(most, FLOOR_PERCENT));
        Some(percent(lent, PAYLOAD_PERCENT))
    }

    /// The largest total that counts, with this one.
    fn most(&mut self, now: Timestamp, total: Option<BitRate>) -> Option<BitRate> {
        self.totals.retain(|(at, _)| now.since(*at) <= MOST_WITHIN);
        if let Some(total) = total {
            while self
                .totals
                .pop_back_if(|(_, before)| *before <= total)
                .is_some()
            {}
            self.totals.push_back((now, total));
        }
        self.totals.front().map(|(_, most)| *most)
    }
}

const fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn percent(rate: BitRate, percent: u64) -> BitRate {
    let bps = u128::from(rate.bps()) * u128::from(percent) / 100;
    BitRate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
