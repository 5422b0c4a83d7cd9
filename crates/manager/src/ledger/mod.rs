//! Ledger of a link that a device uses itself and lends: the rate of its relays in one direction
//! (ADR 0041).
//!
//! Own traffic is what passes the interface and is not of relays. Relays have no limit unless less
//! of them has been seen to be more of own traffic: totals do not tell a full link from one whose
//! traffic is limited elsewhere.

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

/// Longest time of a comparison: with fewer bytes of relays, or with more.
const TRIAL: Duration = Duration::from_secs(2);

/// Time without a limit after a trial that has shown no harm, and after the first release that has
/// shown none.
const FREE: Duration = Duration::from_secs(30);
const FREE_AGAIN: Duration = Duration::from_secs(10);

/// Time of a limit until its first release, and the longest one. Each release that shows harm
/// makes it three times as long: two flows that change by chance seldom agree so often.
const FIRST_LIMIT: Duration = Duration::from_secs(5);
const LONGEST_LIMIT: Duration = Duration::from_secs(30);

/// Change of own traffic that is an effect of relays, in percent.
const EFFECT_PERCENT: u64 = 10;

/// What relays have in a trial, of what they carried; and what they have more in a release, of the
/// largest total. A release without a limit would cost own traffic as much as receive buffers take.
const TRIAL_PERCENT: u64 = 50;

/// Part of the total up to which own traffic needs no room, in percent.
const SMALL_PERCENT: u64 = 5;

/// Part of the largest total from which on own traffic shows by itself what the link carries, in
/// percent.
const NEARLY_ALL_PERCENT: u64 = 90;

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
}

/// A reading.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Timestamp,
    passed: Passed,
    /// Relays had a limit before it.
    limited: bool,
}

/// Rates of the last intervals.
#[derive(Clone, Copy, Debug)]
struct Rates {
    own: BitRate,
    lent: BitRate,
    /// The least of the intervals.
    least_own: BitRate,
    least_total: BitRate,
    limited: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No limit. No trial until then, unless own traffic or relays carry twice as much as this.
    Free {
        until: Timestamp,
        own: BitRate,
        lent: BitRate,
    },
    /// Relays have less: does own traffic rise?
    Trial {
        begun: Timestamp,
        own: BitRate,
        lent: BitRate,
    },
    Limited {
        begun: Timestamp,
        time: Duration,
        /// Own traffic before the release that has just been.
        own: BitRate,
    },
    /// Relays have more: does own traffic fall?
    Release {
        begun: Timestamp,
        /// Time of the limit before it.
        time: Duration,
        own: BitRate,
    },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Free {
            until: Timestamp::ZERO,
            own: BitRate::ZERO,
            lent: BitRate::ZERO,
        }
    }
}

/// Ledger of one direction of a link.
///
/// # Contract
/// [`handle_reading`](Self::handle_reading) is called every [`READ_EVERY`] while relays carry
/// bytes, and its answer holds until the next call.
#[derive(Debug, Default)]
pub struct LinkLedger {
    /// The last readings.
    recent: VecDeque<Reading>,
    /// Totals that count: each is smaller than those before it.
    totals: VecDeque<(Timestamp, BitRate)>,
    phase: Phase,
    /// The last answer was a limit.
    limited: bool,
}

impl LinkLedger {
    /// Takes the counts of now. Returns the rate of payload that all relays together may have;
    /// `None`: no limit.
    pub fn handle_reading(&mut self, now: Timestamp, passed: Passed) -> Option<BitRate> {
        let last = self.recent.back();
        if last.is_some_and(|last| now.since(last.at) > REST) {
            self.recent.clear();
            if !matches!(self.phase, Phase::Free { .. }) {
                self.phase = Phase::default();
            }
        }
        let limited = self.limited;
        self.recent.push_back(Reading {
            at: now,
            passed,
            limited,
        });
        if self.recent.len() > INTERVALS + 1 {
            self.recent.pop_front();
        }
        let limit = self.rates().and_then(|rates| self.limit(now, rates));
        self.limited = limit.is_some();
        limit.map(|rate| percent(rate, PAYLOAD_PERCENT))
    }

    /// The rates, once there are enough readings.
    fn rates(&mut self) -> Option<Rates> {
        let recent = self.recent.make_contiguous();
        let ([first, .., last], INTERVALS) = (&*recent, recent.len() - 1) else {
            return None;
        };
        let each = recent.windows(2).map(|pair| between(&pair[0], &pair[1]));
        let (own, lent) = between(first, last);
        Some(Rates {
            own,
            lent,
            least_own: each.clone().map(|(own, _)| own).min()?,
            least_total: each.map(|(own, lent)| sum(own, lent)).min()?,
            limited: recent[1..].iter().any(|reading| reading.limited),
        })
    }

    /// The limit on the wire.
    fn limit(&mut self, now: Timestamp, rates: Rates) -> Option<BitRate> {
        let most = self.most(now, rates);
        self.phase = self.next_phase(now, rates, most);
        let most = most?;
        match self.phase {
            Phase::Free { .. } => None,
            Phase::Trial { lent, .. } => {
                Some(percent(lent, TRIAL_PERCENT).max(percent(most, FLOOR_PERCENT)))
            }
            Phase::Limited { begun, own, .. } => {
                // A release has taken from own traffic what it gets back after it.
                let is_disturbed = now.since(begun) < READ_EVERY * INTERVALS as u32;
                let before = if is_disturbed { own } else { BitRate::ZERO };
                Some(beside(rates.own.max(before), most))
            }
            Phase::Release { own, .. } => {
                Some(sum(beside(own, most), percent(most, TRIAL_PERCENT)))
            }
        }
    }

    fn next_phase(&self, now: Timestamp, rates: Rates, most: Option<BitRate>) -> Phase {
        let Rates { own, lent, .. } = rates;
        let small = percent(sum(own, lent), SMALL_PERCENT);
        let Some(most) = most else {
            return Phase::default();
        };
        // Neither carries twice as much unless the link has become faster.
        let free = |time| Phase::Free {
            until: now + time,
            own: most,
            lent: most,
        };
        match self.phase {
            Phase::Free {
                until,
                own: own_then,
                lent: lent_then,
            } => {
                let is_time = now >= until || own >= twice(own_then) || lent >= twice(lent_then);
                // So few bytes of relays would not be seen in own traffic.
                let is_seen = percent(lent, TRIAL_PERCENT) >= percent(own, EFFECT_PERCENT);
                if is_time && is_seen && rates.least_own > small && !rates.limited {
                    let begun = now;
                    return Phase::Trial { begun, own, lent };
                }
                self.phase
            }
            Phase::Trial {
                begun,
                own: before,
                lent: lent_before,
            } => {
                if own >= percent(before, 100 + EFFECT_PERCENT) {
                    return Phase::Limited {
                        begun: now,
                        time: FIRST_LIMIT,
                        own,
                    };
                }
                if own > small && now.since(begun) < TRIAL {
                    return self.phase;
                }
                Phase::Free {
                    until: now + FREE,
                    own: before,
                    lent: lent_before,
                }
            }
            // What has not been confirmed is not tried again soon.
            Phase::Limited { time, .. } | Phase::Release { time, .. } if own <= small => {
                let is_confirmed = time > FIRST_LIMIT;
                free(if is_confirmed { Duration::ZERO } else { FREE })
            }
            Phase::Limited { begun, time, .. } => match now.since(begun) < time {
                true => self.phase,
                false => Phase::Release {
                    begun: now,
                    time,
                    own,
                },
            },
            Phase::Release {
                begun,
                time,
                own: before,
            } => {
                if own <= percent(before, 100 - EFFECT_PERCENT) {
                    return Phase::Limited {
                        begun: now,
                        time: (time * 3).min(LONGEST_LIMIT),
                        own: before,
                    };
                }
                match now.since(begun) < TRIAL {
                    true => self.phase,
                    false => free(FREE_AGAIN),
                }
            }
        }
    }

    /// The largest total that counts, with this one. What a limit holds back shows only that the
    /// link carries more than that, unless own traffic has what is left.
    fn most(&mut self, now: Timestamp, rates: Rates) -> Option<BitRate> {
        self.totals.retain(|(at, _)| now.since(*at) <= MOST_WITHIN);
        let total = rates.least_total;
        let counts = match self.totals.front() {
            Some((_, most)) if rates.limited => {
                total >= *most || rates.own >= percent(*most, NEARLY_ALL_PERCENT)
            }
            _ => !rates.limited,
        };
        if counts {
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

/// Rates of own traffic and of relays between two readings.
fn between(before: &Reading, now: &Reading) -> (BitRate, BitRate) {
    let time = now.at.since(before.at);
    let (now, before) = (now.passed, before.passed);
    let all = now.all_bytes.saturating_sub(before.all_bytes);
    let lent = now.lent_bytes.saturating_sub(before.lent_bytes);
    let own = all.saturating_sub(lent);
    (BitRate::over(own, time), BitRate::over(lent, time))
}

/// What relays have beside own traffic of a link that carries this much.
fn beside(own: BitRate, most: BitRate) -> BitRate {
    let shared = percent(most, SHARED_PERCENT).bps();
    let left = shared.saturating_sub(percent(own, OWN_PERCENT).bps());
    BitRate::from_bps(left).max(percent(most, FLOOR_PERCENT))
}

fn sum(a: BitRate, b: BitRate) -> BitRate {
    BitRate::from_bps(a.bps().saturating_add(b.bps()))
}

fn twice(rate: BitRate) -> BitRate {
    sum(rate, rate)
}

fn percent(rate: BitRate, percent: u64) -> BitRate {
    let bps = u128::from(rate.bps()) * u128::from(percent) / 100;
    BitRate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
