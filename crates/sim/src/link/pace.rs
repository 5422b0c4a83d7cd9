//! Departure times of packets under a varying rate.
//!
//! Work is counted in nanobits (10^-9 bit): a rate in bit/s times a span in
//! nanoseconds is a whole number of them, so that no rounding occurs. A
//! departure is rounded up to the nanosecond, and the work that the link has done
//! beyond it is credited to the packet behind; a busy link so keeps its rate
//! exactly.

use std::sync::Arc;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use super::Rate;
use crate::trace::{MahimahiTrace, OPPORTUNITY_BYTES, RateProfile};

const NANOBITS_PER_BYTE: u64 = 8_000_000_000;
const NANOBITS_PER_OPPORTUNITY: u64 = OPPORTUNITY_BYTES as u64 * NANOBITS_PER_BYTE;

/// Work of sending `bytes`.
pub(super) fn work_of(bytes: u32) -> u64 {
    u64::from(bytes).saturating_mul(NANOBITS_PER_BYTE)
}

/// A point in a link's capacity: all capacity before it is used or expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) at: Timestamp,
    /// Number of trace opportunities up to here; several may share an instant.
    opportunities: u64,
}

/// The end of a packet's sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Finish {
    pub(super) at: Position,
    /// Unused capacity of the last nanosecond or opportunity.
    pub(super) credit: u64,
}

/// The capacity of a link as a function of time.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    start: Timestamp,
    offset: Duration,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Unlimited,
    /// Never empty.
    Steps(Vec<(Duration, BitRate)>),
    Profile(Arc<RateProfile>),
    Trace(Arc<MahimahiTrace>),
}

/// Steps of a rate, and the period after which they repeat.
#[derive(Clone, Copy)]
struct Steps<'a> {
    steps: &'a [(Duration, BitRate)],
    period_ns: Option<u64>,
}

impl Pace {
    /// `rate`, beginning at `start`.
    pub(super) fn new(rate: Rate, start: Timestamp) -> Self {
        let mut from = Duration::ZERO;
        let kind = match rate {
            Rate::Unlimited => Kind::Unlimited,
            Rate::Constant(rate) => Kind::Steps(vec![(Duration::ZERO, rate)]),
            Rate::Schedule(mut steps) => {
                if steps.is_empty() {
                    steps.push((Duration::ZERO, BitRate::ZERO));
                }
                steps.sort_by_key(|step| step.0);
                Kind::Steps(steps)
            }
            Rate::Mahimahi { trace, offset } => {
                from = offset;
                Kind::Trace(trace)
            }
            Rate::Profile { profile, offset } => {
                from = offset;
                Kind::Profile(profile)
            }
        };
        Self {
            start,
            offset: from,
            kind,
        }
    }

    /// An idle link at `at`: earlier capacity has expired.
    pub(super) fn position(&self, at: Timestamp) -> Position {
        let opportunities = match &self.kind {
            Kind::Trace(trace) => trace.count_until(self.elapsed_ns(at)),
            _ => 0,
        };
        Position { at, opportunities }
    }

    /// End of `work` that begins at `from`; `None`: never.
    pub(super) fn finish(&self, from: Position, work: u64) -> Option<Finish> {
        match &self.kind {
            Kind::Unlimited => Some(Finish {
                at: from,
                credit: 0,
            }),
            Kind::Steps(_) | Kind::Profile(_) => self.finish_in_steps(self.steps()?, from, work),
            Kind::Trace(trace) => {
                let needed = work.div_ceil(NANOBITS_PER_OPPORTUNITY);
                if needed == 0 {
                    return Some(Finish {
                        at: from,
                        credit: 0,
                    });
                }
                let opportunities = from.opportunities.checked_add(needed)?;
                let ns = trace.opportunity_ns(opportunities - 1);
                let at = self.start + Duration::from_nanos(ns).saturating_sub(self.offset);
                Some(Finish {
                    at: Position { at, opportunities },
                    credit: needed * NANOBITS_PER_OPPORTUNITY - work,
                })
            }
        }
    }

    /// Work done between `from` and `to`.
    pub(super) fn work_between(&self, from: Position, to: Timestamp) -> u64 {
        match &self.kind {
            Kind::Unlimited => u64::MAX,
            Kind::Trace(_) => self
                .position(to)
                .opportunities
                .saturating_sub(from.opportunities)
                .saturating_mul(NANOBITS_PER_OPPORTUNITY),
            Kind::Steps(_) | Kind::Profile(_) => {
                let mut at = from.at;
                let mut done = 0_u64;
                let Some(steps) = self.steps() else {
                    return 0;
                };
                while at < to {
                    let (rate, until) = self.step_at(steps, at);
                    let end = until.min(to);
                    done = done.saturating_add(sent(rate, end.since(at)));
                    at = end;
                }
                done
            }
        }
    }

    /// The rate that a queue bound in time refers to; `None`: no queue builds.
    pub(super) fn drain_rate(&self, now: Timestamp) -> Option<BitRate> {
        match &self.kind {
            Kind::Unlimited => None,
            Kind::Steps(_) => Some(self.step_at(self.steps()?, now).0),
            Kind::Profile(profile) => Some(profile.mean_rate()),
            Kind::Trace(trace) => Some(trace.mean_rate()),
        }
    }

    fn steps(&self) -> Option<Steps<'_>> {
        match &self.kind {
            Kind::Steps(steps) => Some(Steps {
                steps,
                period_ns: None,
            }),
            Kind::Profile(profile) => Some(Steps {
                steps: profile.steps(),
                period_ns: Some(u64::try_from(profile.length().as_nanos()).unwrap_or(u64::MAX)),
            }),
            Kind::Unlimited | Kind::Trace(_) => None,
        }
    }

    /// The first instant from `from` on at which the rate is zero. Traces and unlimited rates have
    /// none.
    pub(super) fn first_zero(&self, from: Timestamp) -> Option<Timestamp> {
        self.first(from, |rate| rate == BitRate::ZERO)
    }

    /// The first instant from `from` on at which packets can be sent.
    pub(super) fn first_nonzero(&self, from: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Kind::Steps(_) | Kind::Profile(_) => self.first(from, |rate| rate > BitRate::ZERO),
            Kind::Unlimited | Kind::Trace(_) => Some(from),
        }
    }

    fn first(&self, from: Timestamp, wanted: impl Fn(BitRate) -> bool) -> Option<Timestamp> {
        let steps = self.steps()?;
        // A rate that does not occur within a period never occurs.
        let end = steps.period_ns.map_or(Timestamp::FAR_FUTURE, |period| {
            from + Duration::from_nanos(period)
        });
        let mut at = from;
        while at < end {
            let (rate, until) = self.step_at(steps, at);
            if wanted(rate) {
                return Some(at);
            }
            at = until;
        }
        None
    }

    fn finish_in_steps(&self, steps: Steps, from: Position, mut work: u64) -> Option<Finish> {
        let mut at = from.at;
        if let Some(period_ns) = steps.period_ns {
            // Whole periods have the same capacity wherever they begin.
            let a_period = steps.work_of_a_period();
            if a_period == 0 {
                return None;
            }
            let rounds = u64::try_from(u128::from(work).saturating_sub(1) / a_period).ok()?;
            at += Duration::from_nanos(period_ns.saturating_mul(rounds));
            work = u64::try_from(u128::from(work) - u128::from(rounds) * a_period).ok()?;
        }
        loop {
            let (rate, until) = self.step_at(steps, at);
            if rate.bps() > 0 {
                let ns = work.div_ceil(rate.bps());
                let end = at + Duration::from_nanos(ns);
                if end <= until && end < Timestamp::FAR_FUTURE {
                    let credit = sent(rate, Duration::from_nanos(ns)).saturating_sub(work);
                    return Some(Finish {
                        at: Position { at: end, ..from },
                        credit,
                    });
                }
            }
            if until == Timestamp::FAR_FUTURE {
                return None;
            }
            work = work.saturating_sub(sent(rate, until.since(at)));
            at = until;
        }
    }

    /// The rate at `at`, and the end of the time for which it holds.
    fn step_at(&self, steps: Steps, at: Timestamp) -> (BitRate, Timestamp) {
        let Steps { steps, period_ns } = steps;
        let elapsed = self.elapsed_ns(at);
        let within = period_ns.map_or(elapsed, |period| elapsed % period);
        let round = Duration::from_nanos(elapsed - within);
        let within = Duration::from_nanos(within);
        let next = steps.partition_point(|step| step.0 <= within);
        let rate = steps
            .get(next.saturating_sub(1))
            .map_or(BitRate::ZERO, |step| step.1);
        // Before the first step its rate holds already, so its start is no change.
        let border = steps.get(if next == 0 { 1 } else { next });
        let border = border
            .map(|step| step.0)
            .or(period_ns.map(Duration::from_nanos));
        let until = border.map_or(Timestamp::FAR_FUTURE, |border| {
            self.start + (round + border).saturating_sub(self.offset)
        });
        (rate, until)
    }

    fn elapsed_ns(&self, at: Timestamp) -> u64 {
        let offset = u64::try_from(self.offset.as_nanos()).unwrap_or(u64::MAX);
        (at.since(self.start).as_nanos() as u64).saturating_add(offset)
    }
}

impl Steps<'_> {
    fn work_of_a_period(self) -> u128 {
        let end = Duration::from_nanos(self.period_ns.unwrap_or(0));
        let ends = self.steps.iter().skip(1).map(|step| step.0).chain([end]);
        self.steps
            .iter()
            .zip(ends)
            .map(|((from, rate), to)| u128::from(rate.bps()) * to.saturating_sub(*from).as_nanos())
            .sum()
    }
}

/// Work done at `rate` in `span`.
fn sent(rate: BitRate, span: Duration) -> u64 {
    let work = u128::from(rate.bps()) * span.as_nanos();
    u64::try_from(work).unwrap_or(u64::MAX)
}
