use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SchedulerKind;

/// How a session behaves. The defaults suit a phone and a small server.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// Which subflow takes the next frame.
    pub scheduler: SchedulerKind,
    /// What is sent again, and when.
    pub reinjection: ReinjectionConfig,
    /// Over which subflows feedback travels.
    pub feedback: FeedbackRule,
    /// Most bytes a session keeps to send: unscheduled and unacknowledged.
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
    /// Streams that may be open at a time.
    pub max_streams: u64,
    /// Subflows that may exist at a time.
    pub max_subflows: usize,
    /// An ACK is written after so many octets ...
    pub ack_bytes: u64,
    /// ... or so long after the first octet that wants one.
    pub ack_delay: Duration,
    /// How long the session is kept when no subflow is left.
    pub resume_for: Duration,
    /// Interactive data may wait so long at a helper; bulk data as long as the buffer lasts.
    pub interactive_far_bound: Duration,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: SchedulerKind::Pams,
            reinjection: ReinjectionConfig::default(),
            feedback: FeedbackRule::Flexible,
            send_memory_bytes: 8 << 20,
            receive_window_bytes: 8 << 20,
            initial_stream_window_bytes: 4 << 20,
            stalled_memory_bytes: 24 << 20,
            max_streams: 1_024,
            max_subflows: 16,
            ack_bytes: 64 << 10,
            ack_delay: Duration::from_millis(25),
            resume_for: Duration::from_secs(60),
            interactive_far_bound: Duration::from_millis(200),
        }
    }
}

/// When bytes that a subflow has already are given to another one as well.
#[derive(Clone, Debug, PartialEq)]
pub struct ReinjectionConfig {
    /// The published rebalancing (MPBond paper, section 4.3.4). What a lost subflow owed is always
    /// sent again.
    pub rebalance: bool,
    /// The paper's eta: relative difference of PADs that triggers it.
    pub eta: f64,
    /// Least absolute difference of PADs. Near the end of a transfer PADs are so small that eta
    /// alone would take noise for imbalance, and every such error is paid in redundant bytes.
    pub least_gain: Duration,
    /// A difference beyond this is no error of estimates: all that it asks for is recalled.
    pub sure_gain: Duration,
    /// Below that, at most this share of what was sent since the session was last idle.
    pub copies_share: f64,
    /// Reinject what a silent subflow owes.
    pub suspicion: bool,
    /// Silence beyond the expected that makes a subflow suspect, at the least.
    pub least_silence: Duration,
    /// Cut a subflow that would carry nothing but copies for so long.
    pub cut_after: Duration,
}

impl Default for ReinjectionConfig {
    fn default() -> Self {
        Self {
            rebalance: true,
            eta: 0.2,
            least_gain: Duration::from_millis(80),
            sure_gain: Duration::from_millis(400),
            copies_share: 0.005,
            suspicion: true,
            least_silence: Duration::from_millis(200),
            cut_after: Duration::from_secs(1),
        }
    }
}

/// Over which subflows ACKs, window updates and reports travel (MPBond paper, section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeedbackRule {
    /// Over the subflow whose radio was last busy with data: none is woken to report.
    #[default]
    Flexible,
    /// Over the helper's subflow, whenever there is something to report.
    FixedAlways,
    /// Over the helper's subflow, while data flows there; else not at all until it does.
    FixedOnDemand,
}
