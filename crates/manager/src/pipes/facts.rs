//! State of a pipe, as it is observed while bytes move.

use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::ids::LinkId;

/// Interval of observations while bytes move: that of helpers' reports.
pub const PIPES_EVERY: Duration = Duration::from_millis(100);

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
    /// Longest time for which such a link says nothing though it works, such as Bluetooth that
    /// leaves Sniff mode.
    pub pause: Duration,
}
