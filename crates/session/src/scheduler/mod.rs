//! Schedulers: choose the subflow of the next frame.
//!
//! A [`Scheduler`] sees a read-only view of all usable subflows and the amount still unscheduled,
//! and answers. It owns only its own memory, allocates nothing and knows no clock but the instant
//! it is given.

mod decision;
mod fixed_ratio;
mod min_pad;
mod min_rtt;
mod pams;
mod redundant;
mod round_robin;
mod single;

use serde::{Deserialize, Serialize};

pub(crate) use decision::DEFER;
pub use decision::{Backlog, Decision, Scheduler, SubflowView};
pub use fixed_ratio::FixedRatio;
pub use min_pad::MinPad;
pub use min_rtt::MinRtt;
pub use pams::Pams;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;
pub use single::Single;

/// The schedulers by name, as configuration has them.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// Algorithm 1 of the MPBond paper, with a condition of our own under which a subflow is idle:
    /// the socket takes more, the near hop's queue is short, and the helper does not hold more than
    /// may be risked (ADR 0007).
    #[default]
    Mpbond,
    /// Algorithm 1 as published: a subflow is idle while its socket takes more and the congestion
    /// window of its near hop has room.
    Pams,
    /// The idle subflow with the least PAD, never deferring (MPBond section 4.3.3).
    MinPad,
    /// The idle subflow with the least RTT of its near hop (MPBond-Naive in the MPBond paper).
    MinRtt,
    /// Idle subflows in turn.
    RoundRobin,
    /// Every byte over every subflow.
    Redundant,
    /// A fixed share over direct subflows, the rest through helpers (MPBond section 6.2).
    FixedRatio {
        /// Share of bytes over direct subflows, 0 to 1.
        direct: f64,
    },
    /// One subflow at a time; the next one when it is gone.
    Single,
}

impl SchedulerKind {
    /// Makes the scheduler.
    pub fn build(self) -> Box<dyn Scheduler + Send> {
        match self {
            Self::Mpbond | Self::Pams => Box::new(Pams::default()),
            Self::MinPad => Box::new(MinPad),
            Self::MinRtt => Box::new(MinRtt),
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::Redundant => Box::new(Redundant),
            Self::FixedRatio { direct } => Box::new(FixedRatio::new(direct)),
            Self::Single => Box::new(Single::default()),
        }
    }

    /// Whether a subflow is idle while the congestion window of its near hop has room (MPBond,
    /// Algorithm 1), however long its queues are.
    pub(crate) const fn fills_windows(self) -> bool {
        matches!(self, Self::Pams)
    }

    /// The name that configuration and results use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mpbond => "mpbond",
            Self::Pams => "pams",
            Self::MinPad => "min-pad",
            Self::MinRtt => "min-rtt",
            Self::RoundRobin => "round-robin",
            Self::Redundant => "redundant",
            Self::FixedRatio { .. } => "fixed-ratio",
            Self::Single => "single",
        }
    }
}

impl std::fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FixedRatio { direct } => write!(f, "fixed-ratio={direct}"),
            other => f.write_str(other.name()),
        }
    }
}

impl std::str::FromStr for SchedulerKind {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Ok(match s {
            "mpbond" => Self::Mpbond,
            "pams" => Self::Pams,
            "min-pad" => Self::MinPad,
            "min-rtt" => Self::MinRtt,
            "round-robin" => Self::RoundRobin,
            "redundant" => Self::Redundant,
            "single" => Self::Single,
            other => {
                let ratio = other
                    .strip_prefix("fixed-ratio=")
                    .and_then(|r| r.parse::<f64>().ok())
                    .filter(|r| (0.0..=1.0).contains(r));
                match ratio {
                    Some(direct) => Self::FixedRatio { direct },
                    None => {
                        return Err(format!(
                            "unknown scheduler \"{other}\": allowed are mpbond, pams, min-pad, \
                             min-rtt, round-robin, redundant, single, fixed-ratio=SHARE (0 to 1, the share \
                             over direct subflows)"
                        ));
                    }
                }
            }
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
