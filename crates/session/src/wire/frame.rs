//! Frames and the values that they carry.

use std::time::Duration;

use bytes::Bytes;
use mpbond_units::BitRate;

use super::capabilities::Capabilities;
use super::destination::Destination;
use super::frame_type::FrameType;
use super::role::Role;
use super::secret::Secret;
use crate::code::{CloseCode, ResetCode};
use crate::ids::{DeviceLabel, HelperId, SessionId, StreamId, SubflowId};
use crate::least_burst::LeastBurst;
use crate::path_set::PathNumber;
use crate::treatment::Treatment;

/// Flag of DATA: the stream ends after these bytes.
pub(super) const FIN: u8 = 1;
/// Flag of DATA: a data chunk of the application ends after these bytes.
pub(super) const CHUNK_END: u8 = 2;

/// Flow control limits that an end grants; absolute, and only ever raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Unique stream bytes over all streams.
    pub max_data: u64,
    /// Bytes of a stream that has no limit of its own yet.
    pub max_stream_data: u64,
    /// Stream ids below this one may be used.
    pub max_streams: u64,
}

/// Path of a new subflow, as the primary describes it to the proxy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathLabel {
    /// Helper that the subflow runs through; `None` for a direct one. Decides how PAD is computed.
    pub helper: Option<HelperId>,
    /// Role of the subflow.
    pub role: Role,
    /// Name for people, at most [`MAX_NAME_BYTES`](super::bounds::MAX_NAME_BYTES) octets.
    pub name: String,
    /// The device that lends its link to the subflow, if the primary says so.
    pub lender: Option<DeviceLabel>,
    /// Number by which sets of paths name it, if it has one. An express has that of its pipe.
    pub number: Option<PathNumber>,
}

/// Receive state of one subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckCount {
    /// The subflow.
    pub subflow: SubflowId,
    /// Ciphertext octets from the start of its TLS stream to the end of the last accepted record.
    pub count: u64,
    /// Time from the arrival of that record to the writing of the ACK.
    pub age: Duration,
    /// Rate at which its octets arrive while they come without a pause; zero if not known.
    pub pace: BitRate,
}

/// State of a helper subflow's far hop, which the frame's receiver cannot observe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathReport {
    /// Rises with every report of the session: an older one is ignored.
    pub number: u64,
    /// Subflow that the report is about.
    pub subflow: SubflowId,
    /// Throughput of the far hop, zero if unknown.
    pub throughput: BitRate,
    /// Round-trip time of the far hop, zero if unknown.
    pub rtt: Duration,
    /// Bytes in the helper's buffer, in the direction towards the frame's sender.
    pub level_bytes: u64,
    /// Age of the readings when the frame was written.
    pub age: Duration,
    /// Time that the last byte that left the helper had spent there; sent only by an end that is
    /// configured to measure it.
    pub sojourn: Option<Duration>,
    /// Own traffic of the helper holds bytes towards the frame's sender back: they come at the rate
    /// of its limit, and not of a link.
    pub held_back: bool,
}

/// A frame of the session protocol (`docs/protocol.md`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// First frame of the session's first subflow.
    MpCapable {
        /// The primary's share of the session key.
        random: Secret,
        /// Number of this subflow.
        subflow: SubflowId,
        /// Limits that the primary grants.
        limits: Limits,
        /// Path of the subflow.
        path: PathLabel,
        /// Capabilities of the primary.
        capabilities: Capabilities,
    },
    /// The proxy's answer to MP_CAPABLE.
    MpOk {
        /// The proxy's share of the session key.
        random: Secret,
        /// Id of the new session.
        session: SessionId,
        /// Limits that the proxy grants.
        limits: Limits,
        /// Capabilities of the proxy.
        capabilities: Capabilities,
    },
    /// First frame of a further subflow.
    MpJoin {
        /// The session to join.
        session: SessionId,
        /// Number of this subflow, never used before in the session.
        subflow: SubflowId,
        /// Proof of the session key, bound to this TLS session.
        proof: Secret,
        /// Path of the subflow.
        path: PathLabel,
    },
    /// The proxy's answer to MP_JOIN.
    MpJoinOk {
        /// The proxy's proof.
        proof: Secret,
    },
    /// The subflow ends here.
    Close {
        /// Reason code.
        code: CloseCode,
        /// Reason for people; may be empty.
        reason: String,
    },
    /// A new stream.
    Open {
        /// Number of the stream.
        stream: StreamId,
        /// How it is treated.
        treatment: Treatment,
        /// Bytes of the stream that the proxy may send.
        max_stream_data: u64,
        /// Destination of the stream.
        destination: Destination,
        /// The primary asks for CONNECTED.
        confirm: bool,
    },
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: StreamId,
        /// Offset of the first byte.
        offset: u64,
        /// The stream ends after these bytes.
        fin: bool,
        /// An application data chunk ends after these bytes.
        chunk_end: bool,
        /// The bytes; empty only together with `fin` or `chunk_end`.
        bytes: Bytes,
    },
    /// The sender of a stream abandons it.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Reason code.
        code: ResetCode,
        /// Number of bytes that the stream has.
        final_offset: u64,
    },
    /// The receiver of a stream asks its sender for a RESET.
    Stop {
        /// The stream.
        stream: StreamId,
        /// Reason code.
        code: ResetCode,
    },
    /// Acknowledgement: receive state of the subflows.
    Ack {
        /// Writer's clock when it wrote the frame, microseconds from an epoch of its own.
        time_us: u64,
        /// One count a subflow.
        counts: Vec<AckCount>,
    },
    /// Raises the session window.
    MaxData(u64),
    /// Raises a stream's window.
    MaxStreamData {
        /// The stream.
        stream: StreamId,
        /// Bytes of the stream that may be sent in all.
        max: u64,
    },
    /// Raises the number of streams.
    MaxStreams(u64),
    /// State of a helper subflow's far hop.
    PathReport(PathReport),
    /// Asks for a PONG with the same token.
    Ping(u64),
    /// Answers PING.
    Pong(u64),
    /// Changes the role and the cost of a subflow.
    SubflowRole {
        /// The subflow.
        subflow: SubflowId,
        /// Its new role: regular or backup.
        role: Role,
        /// Step of its cost, from 0.
        cost: u8,
    },
    /// The receiver is to treat this subflow as lost.
    Cut {
        /// The subflow.
        subflow: SubflowId,
    },
    /// The writer accepts no new streams.
    GoAway {
        /// Reason for people.
        reason: String,
    },
    /// The destination of a stream is reached; sent when OPEN asks for it.
    Connected {
        /// The stream.
        stream: StreamId,
    },
    /// Changes how a stream is treated.
    Class {
        /// The stream.
        stream: StreamId,
        /// Number of the change, ascending from 1; a lower one is out of date.
        change: u64,
        /// How it is treated from now on.
        treatment: Treatment,
    },
    /// Tells where a chunk ends in the half of a stream that the receiver sends.
    Chunk {
        /// The stream.
        stream: StreamId,
        /// Bytes of that half before the end of the chunk.
        end: u64,
    },
    /// Says for which bursts of the receiver a helper's radio is woken.
    Admit {
        /// The helper's subflow.
        subflow: SubflowId,
        /// Number of the change, ascending from 1; a lower one is out of date.
        change: u64,
        /// Sizes of the bursts.
        least: LeastBurst,
    },
    /// A frame of an extension that this version does not know; skipped.
    Extension {
        /// Its type, [`FrameType::EXTENSIONS`] or above.
        kind: FrameType,
        /// Its body.
        body: Bytes,
    },
}

impl Frame {
    /// Type of the frame.
    pub const fn kind(&self) -> FrameType {
        match self {
            Self::MpCapable { .. } => FrameType::MP_CAPABLE,
            Self::MpOk { .. } => FrameType::MP_OK,
            Self::MpJoin { .. } => FrameType::MP_JOIN,
            Self::MpJoinOk { .. } => FrameType::MP_JOIN_OK,
            Self::Close { .. } => FrameType::CLOSE,
            Self::Open { .. } => FrameType::OPEN,
            Self::Data { .. } => FrameType::DATA,
            Self::Reset { .. } => FrameType::RESET,
            Self::Stop { .. } => FrameType::STOP,
            Self::Ack { .. } => FrameType::ACK,
            Self::MaxData(_) => FrameType::MAX_DATA,
            Self::MaxStreamData { .. } => FrameType::MAX_STREAM_DATA,
            Self::MaxStreams(_) => FrameType::MAX_STREAMS,
            Self::PathReport(_) => FrameType::PATH_REPORT,
            Self::Ping(_) => FrameType::PING,
            Self::Pong(_) => FrameType::PONG,
            Self::SubflowRole { .. } => FrameType::SUBFLOW_ROLE,
            Self::Cut { .. } => FrameType::CUT,
            Self::GoAway { .. } => FrameType::GO_AWAY,
            Self::Connected { .. } => FrameType::CONNECTED,
            Self::Class { .. } => FrameType::CLASS,
            Self::Chunk { .. } => FrameType::CHUNK,
            Self::Admit { .. } => FrameType::ADMIT,
            Self::Extension { kind, .. } => *kind,
        }
    }

    /// Whether the receiver has to acknowledge the frame's record: for all but ACK, PATH_REPORT,
    /// PONG, CLOSE and extensions without that bit.
    pub const fn elicits_ack(&self) -> bool {
        self.kind().elicits_ack()
    }
}
