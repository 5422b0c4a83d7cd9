//! Schedulers: choose the subflow of the next frame.
//!
//! A [`Scheduler`] sees a read-only view of all usable subflows and the amount still unscheduled,
//! and answers. It owns only its own memory, allocates nothing and knows no clock but the instant
//! it is given.

mod fixed_ratio;
mod min_pad;
mod min_rtt;
mod pams;
mod redundant;
mod round_robin;
mod single;

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};
use serde::{Deserialize, Serialize};

pub use fixed_ratio::FixedRatio;
pub use min_pad::MinPad;
pub use min_rtt::MinRtt;
pub use pams::Pams;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;
pub use single::Single;

use crate::{HelperId, SubflowId};

/// A subflow as a scheduler sees it. Only subflows that may carry data are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubflowView {
    /// Number of the subflow.
    pub id: SubflowId,
    /// The helper it runs through; `None` for a direct subflow. Two subflows of one helper share
    /// its link.
    pub helper: Option<HelperId>,
    /// Takes a frame now, by the session's [`crate::Idleness`] (GetIdleSubflow in Algorithm 1 of
    /// MPBond).
    pub idle: bool,
    /// Pipe-aware delay ([`crate::pad`]).
    pub pad: Duration,
    /// Round-trip time of the hop that leaves the sender, by which min-rtt chooses.
    pub rtt: Duration,
    /// End-to-end throughput: the minimum over its hops (Th\[i\] in Algorithm 1 of MPBond).
    pub throughput: BitRate,
}

/// Bytes that wait to be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Unscheduled bytes of the meta buffer, or the rest of the application's chunk where it marked
    /// one (GetUntransmittedSize in Algorithm 1 of MPBond).
    pub unscheduled_bytes: u64,
}

/// A scheduler's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The next frame goes to this subflow, which is idle.
    Send(SubflowId),
    /// No frame now. Ask again when something changes, at the latest at `until`: estimates age
    /// without events, so a bare "wait" could wait for ever.
    Defer {
        /// Latest instant at which to ask again.
        until: Timestamp,
    },
}

/// How long a deferral lasts when nothing happens meanwhile. A few frames' time on the slowest
/// links of interest; short enough that the cost of a wrong deferral is not noticed.
pub(crate) const DEFER: Duration = Duration::from_millis(5);

/// Chooses the subflow of the next frame.
pub trait Scheduler {
    /// `subflows` holds at least one entry; entries keep the order in which they joined.
    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], backlog: Backlog) -> Decision;

    /// Called when a frame of `bytes` went to `subflow`.
    fn sent(&mut self, _subflow: SubflowId, _bytes: u64) {}

    /// Every subflow carries every byte.
    fn duplicates(&self) -> bool {
        false
    }

    /// New bytes keep away from a subflow that has been silent for long.
    fn heeds_silence(&self) -> bool {
        true
    }

    /// Chooses by when bytes arrive: a subflow that delivers late is not given short streams.
    fn minds_delay(&self) -> bool {
        false
    }
}

/// The schedulers by name, as configuration has them.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// Algorithm 1 of the MPBond paper.
    #[default]
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
            Self::Pams => Box::new(Pams::default()),
            Self::MinPad => Box::new(MinPad),
            Self::MinRtt => Box::new(MinRtt),
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::Redundant => Box::new(Redundant),
            Self::FixedRatio { direct } => Box::new(FixedRatio::new(direct)),
            Self::Single => Box::new(Single::default()),
        }
    }

    /// The name that configuration and results use.
    pub fn name(self) -> &'static str {
        match self {
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
                            "unknown scheduler \"{other}\": allowed are pams, min-pad, min-rtt, \
                             round-robin, redundant, single, fixed-ratio=SHARE (0 to 1, the share \
                             over direct subflows)"
                        ));
                    }
                }
            }
        })
    }
}

fn idle(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> {
    subflows.iter().filter(|s| s.idle)
}

fn wait(now: Timestamp) -> Decision {
    Decision::Defer { until: now + DEFER }
}

#[cfg(test)]
pub(crate) mod tests;
