//! Configuration of a session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SchedulerKind;
use crate::mechanism::{Mechanism, Mechanisms};
use crate::wire::Families;

/// Configuration of a session. The defaults suit a phone and a small server.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// Scheduler: chooses the subflow of the next frame.
    pub scheduler: SchedulerKind,
    /// Parameters of reinjection.
    pub reinjection: ReinjectionConfig,
    /// Routing of pipe information. Both ends are to be configured alike.
    pub feedback: FeedbackRule,
    /// Maximum bytes kept for sending: unscheduled and unacknowledged.
    pub send_memory_bytes: u64,
    /// Unique bytes that the peer may have on the way or unread here. It has to cover total rate
    /// times the largest PAD: at 8/10/5 Mbit/s and 10 MiB the helper runs 2 MB ahead, and the
    /// direct path 3 MB beyond that.
    pub receive_window_bytes: u64,
    /// A stream's window when it opens; it doubles up to `receive_window_bytes` while the
    /// application keeps reading.
    pub initial_stream_window_bytes: u64,
    /// Unread bytes of streams whose application does not read, over and above the window, before
    /// they count against it.
    pub stalled_memory_bytes: u64,
    /// Maximum number of streams that the peer may have open at a time.
    pub max_streams: u64,
    /// Maximum number of subflows at a time.
    pub max_subflows: usize,
    /// An ACK is written after this many octets ...
    pub ack_bytes: u64,
    /// ... or this long after the first octet that asks for one.
    pub ack_delay: Duration,
    /// Time that a session is kept when no subflow is left.
    pub resume_for: Duration,
    /// Source of the queueing delay at a helper.
    pub buffer_delay: BufferDelay,
    /// Address families in which a proxy reaches destinations, which its hello announces; `None`
    /// where they are not known, and at a primary.
    pub families: Option<Families>,
    /// Whether a proxy answers look-ups itself, which its hello announces.
    pub answers_look_ups: bool,
    /// Whether a proxy obeys sets of paths of streams, which its answer announces. If not, it
    /// ignores the sets that a primary sends.
    pub obeys_paths: bool,
    /// Order of the streams of a class. The daemons have no key for it.
    pub stream_order: StreamOrder,
    /// Mechanisms that are left out, of those without a parameter ([`SessionConfig::leave_out`]).
    pub without: Mechanisms,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: SchedulerKind::Mpbond,
            reinjection: ReinjectionConfig::default(),
            feedback: FeedbackRule::default(),
            send_memory_bytes: 8 << 20,
            receive_window_bytes: 8 << 20,
            initial_stream_window_bytes: 4 << 20,
            stalled_memory_bytes: 24 << 20,
            max_streams: 16_384,
            max_subflows: 16,
            ack_bytes: 64 << 10,
            ack_delay: Duration::from_millis(25),
            resume_for: Duration::from_secs(60),
            buffer_delay: BufferDelay::Estimated,
            families: None,
            answers_look_ups: false,
            obeys_paths: false,
            stream_order: StreamOrder::default(),
            without: Mechanisms::default(),
        }
    }
}

impl SessionConfig {
    /// Leaves a mechanism out: by the parameter that turns it off, where there is one.
    pub fn leave_out(&mut self, mechanism: Mechanism) {
        let reinjection = &mut self.reinjection;
        match mechanism {
            Mechanism::Deferral if self.scheduler == SchedulerKind::Mpbond => {
                self.scheduler = SchedulerKind::MinPad;
            }
            Mechanism::Deferral => {}
            Mechanism::Probing => reinjection.probes = false,
            Mechanism::PotentialFailure => reinjection.potential_failure = false,
            Mechanism::Express => reinjection.express = false,
            Mechanism::Rebalancing => reinjection.rebalance = false,
            Mechanism::OpportunisticTrigger => {
                reinjection.trigger = RebalanceTrigger::NothingUnscheduled;
            }
            Mechanism::LeastGain => reinjection.least_gain = Duration::ZERO,
            Mechanism::SureGain => reinjection.sure_gain = Duration::MAX,
            Mechanism::CopiesAllowance => reinjection.copies_share = f64::INFINITY,
            Mechanism::HedgedEnds => reinjection.hedge = false,
            Mechanism::Cutting => reinjection.cut_after = Duration::MAX,
            _ => self.without.insert(mechanism),
        }
    }

    /// Whether a mechanism that has no parameter is in use.
    pub(crate) const fn uses(&self, mechanism: Mechanism) -> bool {
        !self.without.contains(mechanism)
    }
}

/// Parameters of reinjection: when bytes that one subflow carries are given to another as well.
#[derive(Clone, Debug, PartialEq)]
pub struct ReinjectionConfig {
    /// Whether subflows are rebalanced (MPBond section 4.3.4). Data of a lost subflow is sent again
    /// in any case.
    pub rebalance: bool,
    /// State of the send buffer that allows rebalancing.
    pub trigger: RebalanceTrigger,
    /// Bytes that rebalancing recalls.
    pub recall: Recall,
    /// Relative difference of PADs that triggers rebalancing (eta in MPBond section 4.3.4).
    pub eta: f64,
    /// Least absolute difference of PADs. Near the end of a transfer PADs are so small that eta
    /// alone would take noise for imbalance, and every such error is paid in redundant bytes.
    pub least_gain: Duration,
    /// A difference beyond this is no error of estimates: the amount is recalled in full.
    pub sure_gain: Duration,
    /// Below that, maximum share of copies among the bytes sent since the session was last idle.
    pub copies_share: f64,
    /// Whether ends of transfers are hedged.
    pub hedge: bool,
    /// Whether silent subflows are probed: others are given a few bytes that they owe.
    pub probes: bool,
    /// Whether subflows potentially fail: others are given all that they owe.
    pub potential_failure: bool,
    /// Least silence beyond the expected after which a subflow has potentially failed.
    pub least_silence: Duration,
    /// Whether an express carries urgent copies past the queue of a helper (ADR 0011).
    pub express: bool,
    /// A subflow that would carry nothing but copies for longer than this is cut.
    pub cut_after: Duration,
}

/// Rules of reinjection by name, as configuration has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReinjectionRule {
    /// [`ReinjectionConfig::default`]: rebalancing within an allowance for copies, and copies of
    /// data that silent subflows owe.
    #[default]
    Ours,
    /// [`ReinjectionConfig::published`]: rebalancing as in MPBond section 4.3.4, nothing else.
    Published,
    /// No rebalancing, no hedged ends; copies of data that silent subflows owe.
    None,
}

/// State of the send buffer that allows rebalancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RebalanceTrigger {
    /// No new byte may be sent: none is left, or the peer's windows hold all of them back. The
    /// latter is "opportunistic retransmission" (Raiciu et al., NSDI 2012, section 4.2).
    #[default]
    NothingSendable,
    /// No unscheduled bytes, those recalled before included (MPBond section 4.3.4).
    NothingUnscheduled,
}

/// Bytes that rebalancing recalls from the subflow that would end last. B_s is its throughput, B_f
/// that of the one that would end first, and gain the difference of their PADs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Recall {
    /// As many as let both end at once: gain * B_s * B_f / (B_s + B_f).
    #[default]
    Balanced,
    /// As many as the slow one brings within the gain: gain * B_s (MPBond section 4.3.4). It leaves
    /// out that the fast one ends later by what it takes over.
    Published,
}

impl Default for ReinjectionConfig {
    fn default() -> Self {
        Self {
            rebalance: true,
            eta: 0.2,
            least_gain: Duration::from_millis(80),
            sure_gain: Duration::from_millis(400),
            copies_share: 0.005,
            trigger: RebalanceTrigger::NothingSendable,
            recall: Recall::Balanced,
            hedge: true,
            probes: true,
            potential_failure: true,
            least_silence: Duration::from_millis(200),
            express: true,
            cut_after: Duration::from_secs(1),
        }
    }
}

impl ReinjectionConfig {
    /// Reinjection as published (MPBond section 4.3.4), with eta = 20 %: rebalancing whenever no
    /// unscheduled bytes are left, without a least gain or an allowance; data of a silent subflow
    /// waits until its connection is closed.
    ///
    /// Bytes that were recalled from a subflow do not count into its PAD from then on, although a
    /// kernel or helper may still hold them: the published move takes them out of its buffers.
    pub fn published() -> Self {
        Self {
            rebalance: true,
            trigger: RebalanceTrigger::NothingUnscheduled,
            recall: Recall::Published,
            eta: 0.2,
            least_gain: Duration::ZERO,
            sure_gain: Duration::ZERO,
            copies_share: 0.0,
            hedge: false,
            probes: false,
            potential_failure: false,
            least_silence: Duration::ZERO,
            express: false,
            cut_after: Duration::MAX,
        }
    }
}

impl From<ReinjectionRule> for ReinjectionConfig {
    fn from(rule: ReinjectionRule) -> Self {
        match rule {
            ReinjectionRule::Ours => Self::default(),
            ReinjectionRule::Published => Self::published(),
            ReinjectionRule::None => Self {
                rebalance: false,
                hedge: false,
                ..Self::default()
            },
        }
    }
}

/// Routing of pipe information: the reports on a helper's pipe that its primary relays to the
/// proxy (MPBond section 6.2, "Benefit of Flexible Feedback").
///
/// Three rules are the published ones. Under these, reports travel apart from acknowledgements,
/// and a sender knows of a pipe by reports alone. "While data moves" on a path means that data
/// moved there within the last 250 ms. Acknowledgements and window updates, without which nothing
/// progresses, follow the same rule in all four cases: that of [`FeedbackRule::HelperRadio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeedbackRule {
    /// Reports travel with acknowledgements, over a subflow whose radio was last busy with data,
    /// as far as its helper knows: no radio is woken for feedback (ADR 0010). Acknowledgements are
    /// pipe information too.
    #[default]
    HelperRadio,
    /// Published: over the HS-Path and over the PS-Path, on each while data moves there.
    Flexible,
    /// Published: over the HS-Path, while data moves there or on the pipe.
    FixedAlways,
    /// Published: over the HS-Path, while data moves there.
    FixedOnDemand,
}

impl FeedbackRule {
    /// Whether a sender knows of pipes by reports alone.
    pub(crate) const fn is_published(self) -> bool {
        !matches!(self, Self::HelperRadio)
    }
}

/// Source of the queueing delay at a helper in the PAD (MPBond section 6.2, "Estimating Pipe
/// Buffering").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferDelay {
    /// Estimated from the bytes that are there and the throughput behind them, as published.
    #[default]
    Estimated,
    /// Measured by the helper on the last byte that left, with which the paper compares. It is out
    /// of date when it arrives. Reports carry it only from an end that is set to this.
    Measured,
}

/// Order of the streams of a class that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamOrder {
    /// Those that were given least since their last request go first (ADR 0024).
    #[default]
    AttainedService,
    /// All in turn, for comparison. Nothing tells short exchanges from transfers then, and queues
    /// are not kept short beside them.
    RoundRobin,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mechanism_left_out_is_another_configuration() {
        let mut seen = vec![SessionConfig::default()];
        for mechanism in Mechanism::ALL {
            let mut config = SessionConfig::default();
            config.leave_out(mechanism);
            assert!(!seen.contains(&config), "{mechanism}");
            seen.push(config);
        }
    }
}
