use std::time::Duration;

use mpbond_units::BitRate;

use crate::link::{LinkConfig, Rate};
use crate::trace::{MahimahiTrace, OPPORTUNITY_BYTES};

const NS_PER_MS: u64 = 1_000_000;

/// Stands for "no limit": no byte count of ours takes a nanosecond at it.
const UNLIMITED_BPS: u64 = 1_000_000_000_000_000_000;

/// How fast a link sends as a piecewise constant function of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// Start of each step in nanoseconds, the first at 0, rising; bit/s. Not empty.
    steps: Vec<(u64, u64)>,
    /// After this long the steps begin again.
    period_ns: Option<u64>,
    /// Where in the steps time 0 is.
    offset_ns: u64,
}

impl Capacity {
    /// The same at all times.
    pub fn constant(rate: BitRate) -> Self {
        Self::of_steps(vec![(0, rate.bps())])
    }

    /// No limit.
    pub fn unlimited() -> Self {
        Self::constant(BitRate::from_bps(UNLIMITED_BPS))
    }

    /// From each instant on a rate, until the next; the first holds before its
    /// own instant and the last one for ever, as in [`Rate::Schedule`].
    pub fn schedule(steps: &[(Duration, BitRate)]) -> Self {
        let mut steps: Vec<(u64, u64)> = steps
            .iter()
            .map(|(at, rate)| (nanos(*at), rate.bps()))
            .collect();
        steps.sort_by_key(|step| step.0);
        match steps.first_mut() {
            Some(first) => first.0 = 0,
            None => steps.push((0, 0)),
        }
        Self::of_steps(steps)
    }

    /// A recorded link: what a trace lets pass at a millisecond is spread over
    /// the one before it. So no packet that uses the trace is faster.
    pub fn mahimahi(trace: &MahimahiTrace) -> Self {
        let mut steps = vec![(0, 0)];
        let period_ns = nanos(trace.period());
        let opportunity_bps = u64::from(OPPORTUNITY_BYTES) * 8 * 1_000;
        // The opportunities at 0 fall together with the last ones of the
        // round before.
        let at_zero = trace.count_until(0);
        let mut next = at_zero;
        let all = trace.len() as u64;
        while next < all {
            let end = trace.opportunity_ns(next);
            let until = if end == period_ns {
                all
            } else {
                trace.count_until(end)
            };
            let mut count = until - next;
            if end == period_ns {
                count += at_zero;
            }
            push_step(&mut steps, end - NS_PER_MS, count * opportunity_bps);
            push_step(&mut steps, end, 0);
            next = until;
        }
        Self {
            steps,
            period_ns: Some(period_ns),
            offset_ns: 0,
        }
    }

    /// The same, seen from `offset` on.
    #[must_use]
    pub fn from_offset(mut self, offset: Duration) -> Self {
        self.offset_ns = self.offset_ns.saturating_add(nanos(offset));
        self
    }

    /// Bits that it sends from `from` to `to`, when there is always something
    /// to send.
    pub fn bits_between(&self, from: Duration, to: Duration) -> f64 {
        let (mut at, end) = (nanos(from), nanos(to));
        let mut bits = 0.0;
        while at < end {
            let (bps, until) = self.at(at);
            let until = until.min(end);
            bits += bps as f64 * (until - at) as f64 / 1e9;
            at = until;
        }
        bits
    }

    /// The rate in bit/s at `at_ns`, and until when it holds (`u64::MAX`: for ever).
    pub(super) fn at(&self, at_ns: u64) -> (u64, u64) {
        let elapsed = at_ns.saturating_add(self.offset_ns);
        let (round, within) = match self.period_ns {
            Some(period) => (elapsed - elapsed % period, elapsed % period),
            None => (0, elapsed),
        };
        let next = self.steps.partition_point(|step| step.0 <= within);
        let bps = self
            .steps
            .get(next.saturating_sub(1))
            .map_or(0, |step| step.1);
        let border = self.steps.get(next).map(|step| step.0).or(self.period_ns);
        let until = border.map_or(u64::MAX, |border| {
            round.saturating_add(border).saturating_sub(self.offset_ns)
        });
        (bps, until)
    }

    fn of_steps(steps: Vec<(u64, u64)>) -> Self {
        Self {
            steps,
            period_ns: None,
            offset_ns: 0,
        }
    }
}

impl From<&Rate> for Capacity {
    fn from(rate: &Rate) -> Self {
        match rate {
            Rate::Constant(rate) => Self::constant(*rate),
            Rate::Unlimited => Self::unlimited(),
            Rate::Schedule(steps) => Self::schedule(steps),
            Rate::Mahimahi(trace) => Self::mahimahi(trace),
        }
    }
}

/// Rate and offset; the queue, jitter and losses of a link do not concern the bound.
impl From<&LinkConfig> for Capacity {
    fn from(link: &LinkConfig) -> Self {
        Self::from(&link.rate).from_offset(link.offset)
    }
}

/// Appends a step, in place of one that has no length, and only where the rate changes.
fn push_step(steps: &mut Vec<(u64, u64)>, at: u64, bps: u64) {
    steps.pop_if(|last| last.0 == at);
    if steps.last().is_none_or(|last| last.1 != bps) {
        steps.push((at, bps));
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_becomes_the_rate_of_each_millisecond() {
        let trace = MahimahiTrace::parse("t", "0\n1\n2\n2\n5\n").unwrap();
        let c = Capacity::mahimahi(&trace);
        let ms = NS_PER_MS;
        // The line at 0 counts with the last one, at 5.
        for (at, bps, until) in [
            (0, 12, ms),
            (ms, 24, 2 * ms),
            (2 * ms, 0, 4 * ms),
            (4 * ms, 24, 5 * ms),
            (5 * ms, 12, 6 * ms),
            (9 * ms + 1, 24, 10 * ms),
        ] {
            assert_eq!(c.at(at), (bps * 1_000_000, until), "{at}");
        }
        let later = c.from_offset(Duration::from_millis(3));
        assert_eq!(later.at(0), (0, ms));
    }

    #[test]
    fn a_schedule_holds_its_ends() {
        let rate = BitRate::from_bps;
        let c = Capacity::schedule(&[
            (Duration::from_secs(1), rate(5)),
            (Duration::from_secs(2), rate(7)),
        ]);
        assert_eq!(c.at(0), (5, 2_000_000_000));
        assert_eq!(c.at(3_000_000_000), (7, u64::MAX));
    }
}
