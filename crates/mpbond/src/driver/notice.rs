//! Notices of a driver to its daemon.

use mpbond_session::{Destination, ResetCode, SessionId, StreamId, SubflowId};

/// An event of a session that the daemon acts on.
#[derive(Debug)]
pub enum Notice {
    /// Primary: the proxy has answered.
    Established(SessionId),
    /// Proxy: a new stream. Answer by [`Driver::attach`](super::Driver::attach) or
    /// [`Driver::refuse`](super::Driver::refuse).
    Opened {
        /// The stream.
        stream: StreamId,
        /// Its destination.
        destination: Destination,
    },
    /// Proxy: a stream that waits for its destination is reset both ways.
    GivenUp(StreamId),
    /// Primary: a stream has ended before a byte came, since its destination was not reached.
    Refused {
        /// The destination.
        destination: Destination,
        /// The reason.
        code: ResetCode,
    },
    /// A subflow was given up by either end, after this many octets of ciphertext had arrived in
    /// both directions. [`Notice::SubflowGone`] follows.
    SubflowCut(SubflowId, u64),
    /// A subflow is closed.
    SubflowGone(SubflowId),
    /// Stream bytes move after a pause.
    Moving,
    /// Primary: the proxy has answered on a subflow.
    SubflowUp(SubflowId),
    /// A subflow is silent; it may work again.
    Silent(SubflowId),
    /// Primary: the proxy allows more streams than before.
    StreamsAllowed,
    /// The peer takes no new streams.
    GoAway,
    /// No stream is open any more, in a session that takes no new ones or has ended.
    Drained,
    /// Primary: the proxy does not trust this device.
    Distrusted,
    /// The session is over, for this reason.
    Lost(String),
}
