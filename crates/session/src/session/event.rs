//! Results of a session: events, records to write, bytes read.

use std::time::Duration;

use bytes::Bytes;

use crate::stats::StreamStats;
use crate::wire::Destination;
use crate::{CloseCode, ResetCode, SessionId, StreamClass, StreamId, SubflowId};

/// A change that the driver has to know of or to act on.
#[derive(Debug)]
pub enum Event {
    /// Client: the proxy has answered; the session exists.
    Established {
        /// Number of the session at the proxy.
        session: SessionId,
    },
    /// Server: a new stream.
    StreamOpened {
        /// Number of the stream.
        stream: StreamId,
        /// Destination that the proxy is to connect to.
        destination: Destination,
        /// Traffic class.
        class: StreamClass,
    },
    /// Client: the proxy has reached the destination of a stream that was opened by
    /// [`Session::open_confirmed`](crate::Session::open_confirmed).
    StreamConnected(StreamId),
    /// [`Session::read`](crate::Session::read) has bytes, or the end of the stream.
    StreamReadable(StreamId),
    /// [`Session::send_budget`](crate::Session::send_budget) was zero and no longer is.
    StreamWritable(StreamId),
    /// The peer has stopped this stream; its sending half is over.
    StreamStopped {
        /// Stream that was stopped.
        stream: StreamId,
        /// Reason code.
        code: ResetCode,
    },
    /// A stream is over, both ways, and forgotten.
    StreamClosed(Box<StreamStats>),
    /// Stream bytes are sent or received, after none were for [`IDLE_LONG`](crate::IDLE_LONG) or
    /// more.
    Moving,
    /// The hello of a subflow was answered.
    SubflowUp(SubflowId),
    /// Bytes were recalled from the slowest subflow, to be sent again on others.
    Recalled {
        /// Subflow from which bytes were recalled.
        subflow: SubflowId,
        /// Number of bytes.
        bytes: u64,
        /// Difference of its PAD to that of the fastest subflow.
        gain: Duration,
    },
    /// Acknowledgements of a subflow have stopped for longer than any repair takes; others carry
    /// what it owes (RFC 7829, section 3).
    SubflowPotentiallyFailed(SubflowId),
    /// A subflow that had potentially failed is acknowledged again.
    SubflowRecovered {
        /// The subflow.
        subflow: SubflowId,
        /// Time without an acknowledgement.
        silent: Duration,
    },
    /// A subflow was given up, by this end or by CUT of the peer: close its connection.
    SubflowClosed {
        /// Subflow that was closed.
        subflow: SubflowId,
        /// Octets of ciphertext that had arrived on it, in both directions.
        octets: u64,
        /// Reason code.
        code: CloseCode,
        /// Reason, for logs.
        reason: String,
    },
    /// Client: the peer allows more streams than before.
    StreamsAllowed,
    /// The peer takes no new streams.
    GoAway {
        /// Reason, for logs.
        reason: String,
    },
    /// The session is over, as by [`Session::end`](crate::Session::end).
    Lost {
        /// Reason, for logs.
        reason: String,
    },
}

/// Result of [`Session::read`](crate::Session::read).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The next bytes, in order.
    Data(Bytes),
    /// All bytes have been read: the peer has finished.
    Fin,
    /// The peer gave the stream up.
    Reset(ResetCode),
    /// No bytes now.
    Pending,
}

/// A record to be encrypted and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Subflow that carries it.
    pub subflow: SubflowId,
    /// Length of the subflow's TLS stream, in octets of ciphertext, after this record.
    pub octets_end: u64,
}
