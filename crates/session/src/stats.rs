//! Counters for status pages and metrics.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Copies, Destination, HelperId, PathSet, ResetCode, StreamClass, StreamId, SubflowId};

/// Bytes of a session since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStats {
    /// Stream bytes that arrived, copies included.
    pub bytes_in: u64,
    /// Stream bytes given to subflows, copies included.
    pub bytes_out: u64,
    /// Stream bytes that arrived when they had arrived before.
    pub redundant_bytes_in: u64,
    /// Stream bytes given to a subflow when another one had carried them already.
    pub copies_out: Copies,
    /// Stream bytes recalled from a slow, silent or lost subflow.
    pub reinjected_bytes_out: u64,
    /// Streams that are open.
    pub streams_open: u64,
    /// Streams ever opened.
    pub streams_total: u64,
    /// Subflows cut because they carried only copies.
    pub cuts: u64,
}

impl SessionStats {
    /// Stream bytes given to subflows, without copies.
    pub(crate) fn first_bytes_out(&self) -> u64 {
        self.bytes_out - self.copies_out.total()
    }
}

/// A subflow as it stands.
#[derive(Clone, Debug)]
pub struct SubflowStats {
    /// Number.
    pub id: SubflowId,
    /// Name, as configured on the primary.
    pub name: String,
    /// The helper it runs through.
    pub helper: Option<HelperId>,
    /// State.
    pub state: SubflowState,
    /// Stream bytes that arrived on it.
    pub bytes_in: u64,
    /// Stream bytes given to it.
    pub bytes_out: u64,
    /// Copies among `bytes_out`.
    pub redundant_bytes_out: u64,
    /// When the last stream bytes arrived.
    pub last_in: Option<Timestamp>,
    /// When the last stream bytes were given to it.
    pub last_out: Option<Timestamp>,
    /// Pipe-aware delay.
    pub pad: Duration,
    /// Bytes that have not left the near hop (B_s in MPBond section 4.3.2).
    pub b_near_bytes: u64,
    /// Bytes that wait at the helper (B_p on the downlink; B_h on the uplink).
    pub b_far_bytes: u64,
    /// End-to-end throughput, as schedulers use it: without load a bound or a guess.
    pub throughput: BitRate,
    /// End-to-end throughput that was measured under load in the last seconds.
    pub throughput_under_load: Option<BitRate>,
    /// Throughput of the far hop, where known.
    pub far_throughput: Option<BitRate>,
    /// Round-trip time over all hops.
    pub rtt: Duration,
    /// Octets of ciphertext that have arrived at their end, in both directions.
    pub octets: u64,
    /// When the last record arrived.
    pub heard: Timestamp,
    /// When an acknowledgement last came, or this end began to owe something after a pause.
    pub progress: Timestamp,
    /// How long nothing had come or gone on it when this end last began to owe something; zero once
    /// some of that is acknowledged.
    pub idle_before: Duration,
    /// Longest such time after which an acknowledgement came.
    pub idle_survived: Duration,
}

/// State of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubflowState {
    /// The hello is not answered yet.
    Joining,
    /// Carries data.
    Up,
    /// Used only when no regular subflow is left.
    Backup,
    /// Carries urgent copies past what its helper holds for another subflow, and nothing else.
    Express,
    /// Its acknowledgements have stopped for longer than any repair takes (RFC 7829).
    PotentiallyFailed,
}

/// One stream's traffic, subflow by subflow.
#[derive(Clone, Debug)]
pub struct StreamStats {
    /// Number.
    pub id: StreamId,
    /// Destination; `None` while only data that overtook its OPEN has arrived.
    pub destination: Option<Destination>,
    /// Traffic class.
    pub class: StreamClass,
    /// Order among streams that would be served in turn: higher ones first.
    pub priority: u8,
    /// Paths that may carry it.
    pub paths: PathSet,
    /// When it was opened here.
    pub opened: Timestamp,
    /// When its first byte arrived.
    pub first_in: Option<Timestamp>,
    /// When both halves were over.
    pub closed: Option<Timestamp>,
    /// Reason for which it ended early, or will.
    pub reset: Option<ResetCode>,
    /// Unique bytes that arrived.
    pub bytes_in: u64,
    /// Unique bytes given to subflows.
    pub bytes_out: u64,
    /// Bytes that arrived twice.
    pub redundant_bytes_in: u64,
    /// Bytes sent twice.
    pub copies_out: Copies,
    /// Shares of subflows.
    pub subflows: Vec<StreamShare>,
}

/// One subflow's share of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamShare {
    /// The subflow.
    pub subflow: SubflowId,
    /// Bytes it brought, copies included.
    pub bytes_in: u64,
    /// Bytes it took, copies included.
    pub bytes_out: u64,
    /// When it brought the last byte that no other had brought.
    pub last_in: Option<Timestamp>,
    /// When it took the last byte.
    pub last_out: Option<Timestamp>,
}
