//! Relation of each sniffer's clock to the main one's, directly or through other sniffers.

use super::bridge::Bridge;
use super::clock::{ClockFit, ClockRelation};
use super::reference::compare;
use super::sniffer::Seen;

/// Conversion of times by one sniffer's clock to times by another's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bridging {
    /// By a piecewise linear function of all common frames: least jitter.
    #[default]
    Fit,
    /// By the closest common frame before it, as if both clocks ran at the same rate from there on
    /// ("Toward Accurate Network Delay Measurement on Android Phones", equation 5).
    Nearest,
    /// By the closest common frame before it and the skew of the clocks (there,
    /// equation 4).
    NearestSkew,
}

/// Relations of all clocks to the first.
pub(super) struct Clocks(pub(super) Vec<Option<Clock>>);

/// Relation of one clock to the first.
pub(super) struct Clock {
    /// Direct fit; `None` for the main one.
    pub(super) fit: Option<ClockFit>,
    /// Path to the main clock: one relation for each step.
    pub(super) steps: Vec<Step>,
    /// Residual over all steps, 95th percentile, in ns.
    pub(super) residual_p95_ns: f64,
}

/// Relation of one clock to the next.
#[derive(Clone)]
pub(super) enum Step {
    Fitted(ClockRelation),
    Nearest(Bridge),
}

impl Step {
    fn of(fit: &ClockFit, bridging: Bridging) -> Option<Self> {
        let skew = match bridging {
            Bridging::Fit => return Some(Self::Fitted(fit.relation.clone())),
            Bridging::Nearest => 0.0,
            Bridging::NearestSkew => fit.skew_ppm * 1e-6,
        };
        Bridge::of(&fit.references, skew).map(Self::Nearest)
    }

    fn to_a(&self, ns: f64) -> f64 {
        match self {
            Self::Fitted(relation) => relation.to_a(ns),
            Self::Nearest(bridge) => bridge.to_a(ns),
        }
    }
}

impl Clock {
    pub(super) fn to_main(&self, ns: f64) -> f64 {
        self.steps.iter().fold(ns, |ns, step| step.to_a(ns))
    }
}

impl Clocks {
    pub(super) fn of(seen: &[Vec<Seen>], bridging: Bridging) -> Self {
        let mut clocks: Vec<Option<Clock>> = seen.iter().map(|_| None).collect();
        if let Some(main) = clocks.first_mut() {
            *main = Some(Clock {
                fit: None,
                steps: Vec::new(),
                residual_p95_ns: 0.0,
            });
        }
        // Directly where there are common frames, else through a sniffer whose relation is known.
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
                let Some(step) = Step::of(&fit, bridging) else {
                    continue;
                };
                let mut steps = vec![step];
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
