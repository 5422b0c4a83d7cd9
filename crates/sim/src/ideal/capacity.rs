//! Capacity of a link over time.

use std::sync::Arc;
use std::time::Duration;

use mpbond_units::BitRate;

use crate::link::{LinkConfig, Rate};
use crate::trace::{MahimahiTrace, OPPORTUNITY_BYTES, RateProfile};

const NS_PER_MS: u64 = 1_000_000;

/// Time after which a transfer counts as endless.
pub(super) const HORIZON_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// Rate that stands for "no limit": no transfer takes a nanosecond at it.
const UNLIMITED_BPS: u64 = 1_000_000_000_000_000_000;

/// Rate of a link as a piecewise constant function of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// In the order of their begin, the first at 0. Not empty.
    Pieces(Vec<Piece>),
    /// At each time the largest of them.
    Largest(Vec<Capacity>),
}

/// Rates from an instant on, until the next piece.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    from_ns: u64,
    /// Start of each step in nanoseconds of the piece's own time, the first at
    /// 0, rising; bit/s. Not empty.
    steps: Arc<[(u64, u64)]>,
    /// After this long the steps begin again.
    period_ns: Option<u64>,
    /// The piece's own time, less the time. Never makes it negative.
    ahead_ns: i128,
}

impl Piece {
    /// The rate in bit/s at `at_ns`, and until when it holds (`u64::MAX`: for ever).
    fn at(&self, at_ns: u64) -> (u64, u64) {
        let own = u64::try_from(i128::from(at_ns) + self.ahead_ns).unwrap_or(0);
        let (round, within) = match self.period_ns {
            Some(period) => (own - own % period, own % period),
            None => (0, own),
        };
        let next = self.steps.partition_point(|step| step.0 <= within);
        let bps = self
            .steps
            .get(next.saturating_sub(1))
            .map_or(0, |step| step.1);
        let border = self.steps.get(next).map(|step| step.0).or(self.period_ns);
        let until = border.map_or(u64::MAX, |border| {
            let until = i128::from(round.saturating_add(border)) - self.ahead_ns;
            u64::try_from(until).unwrap_or(u64::MAX)
        });
        (bps, until)
    }
}

impl Capacity {
    /// A constant rate.
    pub fn constant(rate: BitRate) -> Self {
        Self::of_steps(vec![(0, rate.bps())], None)
    }

    /// No limit.
    pub fn unlimited() -> Self {
        Self::constant(BitRate::from_bps(UNLIMITED_BPS))
    }

    /// From each instant on a rate, until the next; the first holds before its
    /// own instant and the last one for ever, as in [`Rate::Schedule`].
    pub fn schedule(steps: &[(Duration, BitRate)]) -> Self {
        Self::of_steps(rising(steps), None)
    }

    /// The rates of a recorded link, repeated for ever.
    pub fn profile(profile: &RateProfile) -> Self {
        Self::of_steps(rising(profile.steps()), Some(nanos(profile.length())))
    }

    /// A recorded link: an opportunity at a millisecond is spread over the millisecond before it,
    /// so that no packet over the trace is faster.
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
        Self::of_steps(steps, Some(period_ns))
    }

    /// At each time the largest of `all`; zero when there is none. A medium
    /// that is taken by its packets for their time on the air carries no more,
    /// all links together, than the fastest of them would.
    pub fn largest(all: Vec<Self>) -> Self {
        Self(Form::Largest(all))
    }

    /// The capacity with each rate replaced by that which `of` returns for it.
    #[must_use]
    pub fn mapped(self, of: &impl Fn(BitRate) -> BitRate) -> Self {
        match self.0 {
            Form::Largest(all) => Self::largest(all.into_iter().map(|c| c.mapped(of)).collect()),
            Form::Pieces(mut pieces) => {
                for piece in &mut pieces {
                    let steps = piece.steps.iter();
                    piece.steps = steps
                        .map(|(from, bps)| (*from, of(BitRate::from_bps(*bps)).bps()))
                        .collect();
                }
                Self(Form::Pieces(pieces))
            }
        }
    }

    /// The capacity from `offset` on.
    #[must_use]
    pub fn from_offset(self, offset: Duration) -> Self {
        let offset = nanos(offset);
        match self.0 {
            Form::Largest(all) => Self::largest(
                all.into_iter()
                    .map(|c| c.from_offset(Duration::from_nanos(offset)))
                    .collect(),
            ),
            Form::Pieces(mut pieces) => {
                let past = pieces.iter().rposition(|piece| piece.from_ns <= offset);
                pieces.drain(..past.unwrap_or(0));
                for piece in &mut pieces {
                    piece.from_ns = piece.from_ns.saturating_sub(offset);
                    piece.ahead_ns += i128::from(offset);
                }
                Self(Form::Pieces(pieces))
            }
        }
    }

    /// This capacity up to `at`, and from then on `other`, whose time 0 is at `origin`, not after
    /// `at`. A [`Capacity::largest`] stays unchanged.
    #[must_use]
    pub fn changed(self, at: Duration, other: &Self, origin: Duration) -> Self {
        let (at, origin) = (nanos(at), nanos(origin.min(at)));
        let (Form::Pieces(mut pieces), Form::Pieces(new)) = (self.0.clone(), &other.0) else {
            return self;
        };
        pieces.retain(|piece| piece.from_ns < at);
        let ends = new.iter().skip(1).map(|p| p.from_ns.saturating_add(origin));
        for (piece, end) in new.iter().zip(ends.chain([u64::MAX])) {
            if end > at {
                pieces.push(Piece {
                    from_ns: piece.from_ns.saturating_add(origin).max(at),
                    ahead_ns: piece.ahead_ns - i128::from(origin),
                    ..piece.clone()
                });
            }
        }
        Self(Form::Pieces(pieces))
    }

    /// Bits sent from `from` to `to` by a link that is never idle.
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

    /// When `bits` have been sent by a link that begins at `from_ns`; `None` if that takes longer
    /// than a day.
    pub(super) fn time_to_send(&self, from_ns: u64, bits: u64) -> Option<u64> {
        let mut at = from_ns;
        let mut left = bits as f64;
        while at - from_ns <= HORIZON_NS {
            let (bps, until) = self.at(at);
            let needed = left * 1e9 / bps as f64;
            if needed <= (until - at) as f64 {
                return Some(at.saturating_add(needed as u64));
            }
            left -= bps as f64 * (until - at) as f64 / 1e9;
            at = until;
        }
        None
    }

    /// The rate in bit/s at `at_ns`, and until when it holds (`u64::MAX`: for ever).
    pub(super) fn at(&self, at_ns: u64) -> (u64, u64) {
        match &self.0 {
            Form::Largest(all) => all
                .iter()
                .map(|capacity| capacity.at(at_ns))
                .reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
                .unwrap_or((0, u64::MAX)),
            Form::Pieces(pieces) => {
                let next = pieces.partition_point(|piece| piece.from_ns <= at_ns);
                let end = pieces.get(next).map_or(u64::MAX, |piece| piece.from_ns);
                let piece = pieces.get(next.saturating_sub(1));
                let (bps, until) = piece.map_or((0, u64::MAX), |piece| piece.at(at_ns));
                (bps, until.min(end))
            }
        }
    }

    fn of_steps(steps: Vec<(u64, u64)>, period_ns: Option<u64>) -> Self {
        Self(Form::Pieces(vec![Piece {
            from_ns: 0,
            steps: steps.into(),
            period_ns,
            ahead_ns: 0,
        }]))
    }
}

fn rising(steps: &[(Duration, BitRate)]) -> Vec<(u64, u64)> {
    let mut steps: Vec<(u64, u64)> = steps
        .iter()
        .map(|(at, rate)| (nanos(*at), rate.bps()))
        .collect();
    steps.sort_by_key(|step| step.0);
    match steps.first_mut() {
        Some(first) => first.0 = 0,
        None => steps.push((0, 0)),
    }
    steps
}

impl From<&Rate> for Capacity {
    fn from(rate: &Rate) -> Self {
        match rate {
            Rate::Constant(rate) => Self::constant(*rate),
            Rate::Unlimited => Self::unlimited(),
            Rate::Schedule(steps) => Self::schedule(steps),
            Rate::Mahimahi { trace, offset } => Self::mahimahi(trace).from_offset(*offset),
            Rate::Profile { profile, offset } => Self::profile(profile).from_offset(*offset),
        }
    }
}

/// The rate of a link. Its queue, jitter and losses do not affect the bound.
impl From<&LinkConfig> for Capacity {
    fn from(link: &LinkConfig) -> Self {
        Self::from(&link.rate)
    }
}

/// Appends a step if the rate changes; replaces one without length.
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

    #[test]
    fn capacities_follow_each_other() {
        let rate = BitRate::from_bps;
        let sec = Duration::from_secs;
        let at = |c: &Capacity, s: u64| c.at(s * 1_000_000_000).0;
        let form = crate::trace::ProfileForm::new(crate::trace::RateUnit::BitPerSecond);
        let profile = RateProfile::parse("p", "0 5\n1 7\n", &form).unwrap();
        let recorded = Rate::Profile {
            profile: Arc::new(profile),
            offset: sec(1),
        };
        let recorded = Capacity::from(&recorded);
        let bps: Vec<u64> = (0..4).map(|s| at(&recorded, s)).collect();
        assert_eq!(bps, [7, 5, 7, 5], "from its offset on, again and again");
        // Away for a while, and back as if nothing had been.
        let zero = Capacity::constant(BitRate::ZERO);
        let away = recorded.clone().changed(sec(1), &zero, sec(1));
        let back = away.clone().changed(sec(3), &recorded, Duration::ZERO);
        let bps: Vec<u64> = (0..6).map(|s| at(&back, s)).collect();
        assert_eq!(bps, [7, 0, 0, 5, 7, 5]);
        assert_eq!(back.at(1_500_000_000), (0, 3_000_000_000));
        // A new rate begins at its change.
        let steps = Capacity::schedule(&[(sec(0), rate(1)), (sec(2), rate(2))]);
        let new = recorded.clone().changed(sec(2), &steps, sec(2));
        let bps: Vec<u64> = (0..6).map(|s| at(&new, s)).collect();
        assert_eq!(bps, [7, 5, 1, 1, 2, 2]);
        // Of a whole that has pieces, only those that are left matter.
        let later = zero.changed(sec(1), &new, Duration::ZERO);
        let bps: Vec<u64> = (0..6).map(|s| at(&later, s)).collect();
        assert_eq!(bps, [0, 5, 1, 1, 2, 2]);
        assert_eq!(at(&later.from_offset(sec(4)), 0), 2);
        // Of several, the largest.
        let both = Capacity::largest(vec![recorded, Capacity::constant(rate(6))]);
        let bps: Vec<u64> = (0..4).map(|s| at(&both, s)).collect();
        assert_eq!(bps, [7, 6, 7, 6]);
    }
}
