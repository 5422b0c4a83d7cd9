//! How every sniffer's clock goes by the main one's, directly or over others.

use super::clock::{ClockFit, ClockRelation};
use super::reference::compare;
use super::sniffer::Seen;

/// Clocks of all, against the first.
pub(super) struct Clocks(pub(super) Vec<Option<Clock>>);

/// One against the first.
pub(super) struct Clock {
    /// None of the main one's.
    pub(super) fit: Option<ClockFit>,
    /// The way to the main clock: a relation each step.
    pub(super) steps: Vec<ClockRelation>,
    /// Over all steps.
    pub(super) residual_p95_ns: f64,
}

impl Clock {
    pub(super) fn to_main(&self, ns: f64) -> f64 {
        self.steps.iter().fold(ns, |ns, step| step.to_a(ns))
    }
}

impl Clocks {
    pub(super) fn of(seen: &[Vec<Seen>]) -> Self {
        let mut clocks: Vec<Option<Clock>> = seen.iter().map(|_| None).collect();
        if let Some(main) = clocks.first_mut() {
            *main = Some(Clock {
                fit: None,
                steps: Vec::new(),
                residual_p95_ns: 0.0,
            });
        }
        // Directly where there are common frames, else through a sniffer that is known already.
        let mut known = vec![0];
        let mut next = 0;
        while let Some(over) = known.get(next).copied() {
            next += 1;
            for i in 1..seen.len() {
                if clocks.get(i).is_none_or(Option::is_some) {
                    continue;
                }
                let (Some(a), Some(b)) = (seen.get(over), seen.get(i)) else {
                    continue;
                };
                let Some(fit) = compare(a, b) else { continue };
                let mut steps = vec![fit.relation.clone()];
                let mut residual = fit.residual_p95_ns;
                if let Some(Some(via)) = clocks.get(over) {
                    steps.extend(via.steps.iter().cloned());
                    residual = residual.hypot(via.residual_p95_ns);
                }
                if let Some(slot) = clocks.get_mut(i) {
                    *slot = Some(Clock {
                        fit: Some(fit),
                        steps,
                        residual_p95_ns: residual,
                    });
                    known.push(i);
                }
            }
        }
        Self(clocks)
    }
}
