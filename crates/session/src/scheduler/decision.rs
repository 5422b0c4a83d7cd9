//! Trait of schedulers, its inputs and its decision.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use crate::{HelperId, SubflowId};

/// A subflow as a scheduler sees it. Only subflows that may carry data are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubflowView {
    /// Number of the subflow.
    pub id: SubflowId,
    /// The helper it runs through; `None` for a direct subflow. Two subflows of one helper share
    /// its link.
    pub helper: Option<HelperId>,
    /// Takes a frame now, by the condition of the [`crate::SchedulerKind`] (GetIdleSubflow in
    /// Algorithm 1 of MPBond).
    pub idle: bool,
    /// Pipe-aware delay ([`crate::pad`]).
    pub pad: Duration,
    /// Time from the arrival of the first byte of the next frame to that of its last; zero where
    /// PAD stands for both, as published.
    pub frame: Duration,
    /// Round-trip time of the hop that leaves the sender, by which min-rtt chooses.
    pub rtt: Duration,
    /// End-to-end throughput: the minimum over its hops (Th\[i\] in Algorithm 1 of MPBond).
    pub throughput: BitRate,
}

impl SubflowView {
    /// Time until the next frame has arrived as a whole.
    pub fn delivered(&self) -> Duration {
        self.pad.saturating_add(self.frame)
    }
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

/// Subflows that take a frame now.
pub(super) fn idle(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> {
    subflows.iter().filter(|s| s.idle)
}

/// No frame now.
pub(super) fn wait(now: Timestamp) -> Decision {
    Decision::Defer { until: now + DEFER }
}
