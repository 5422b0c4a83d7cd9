//! State of a pipe, as it is observed while bytes move.

use std::time::Duration;

use mpbond_session::{SubflowId, SubflowStats};
use mpbond_units::Timestamp;

use super::signal::Signal;
use crate::ids::LinkId;

/// Interval of observations while bytes move: that of helpers' reports.
pub const PIPES_EVERY: Duration = Duration::from_millis(100);

/// Longest silence of a link of Bluetooth that works: the exit from Sniff mode takes up to 0.8 s.
pub const SNIFF_PAUSE: Duration = Duration::from_secs(1);

/// State of a pipe with a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeFacts {
    /// The pipe.
    pub link: LinkId,
    /// Its regular subflow.
    pub subflow: SubflowId,
    /// Whether its interface can carry packets, as far as is known.
    pub carrier: bool,
    /// Stream bytes that the subflow has carried: to the primary, and from it.
    pub bytes: [u64; 2],
    /// Octets of ciphertext that have arrived at their end, in both directions.
    pub octets: u64,
    /// Bytes that wait at the primary because the pipe takes no more now.
    pub waiting_bytes: u64,
    /// When the last record arrived on the subflow.
    pub heard: Timestamp,
    /// Round-trip time to the proxy.
    pub rtt: Duration,
    /// Strength of the signal of its radio, and when it was heard, where it has one that tells.
    pub signal: Option<(Timestamp, Signal)>,
}

impl PipeFacts {
    /// State of a pipe by that of its subflow, while so many bytes wait in the session for any
    /// subflow. Its interface is as it should be.
    pub fn of(link: LinkId, subflow: &SubflowStats, unscheduled_bytes: u64) -> Self {
        Self {
            link,
            subflow: subflow.id,
            carrier: true,
            bytes: [subflow.bytes_in, subflow.bytes_out],
            octets: subflow.octets,
            // What no subflow takes now waits for those that are busy.
            waiting_bytes: match subflow.b_near_bytes {
                0 => 0,
                _ => unscheduled_bytes,
            },
            heard: subflow.heard,
            rtt: subflow.rtt,
            signal: None,
        }
    }
}
