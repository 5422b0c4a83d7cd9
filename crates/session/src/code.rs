//! Codes that travel in CLOSE, RESET and STOP frames.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Reason for which a subflow was closed, in CLOSE. Both ends log it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseCode {
    /// The subflow is no longer needed; no error.
    Done,
    /// A malformed frame.
    FrameEncoding,
    /// A frame that is not allowed here, such as a second hello, or data before a hello.
    UnexpectedFrame,
    /// The peer speaks another protocol version.
    Version,
    /// The proof of MP_JOIN is wrong.
    BadProof,
    /// MP_JOIN names a session that this proxy does not hold (it may have restarted).
    UnknownSession,
    /// A stream id at or above the granted maximum.
    StreamLimit,
    /// Data beyond a granted window, or an end that contradicts an earlier one.
    FlowControl,
    /// A subflow id was used before.
    SubflowIdReused,
    /// A limit on what an end keeps for its peer was reached.
    TooMuch,
    /// The subflow carried only copies of what had arrived elsewhere, and is cut to be joined anew.
    Cut,
    /// The peer has ended the session.
    GoingAway,
    /// The device's key is not trusted, or no longer.
    NotTrusted,
    /// An acknowledgement for octets that were never sent.
    BadAck,
    /// A code that this version does not know.
    Other(u16),
}

impl CloseCode {
    /// Number on the wire.
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::Done => 0,
            Self::FrameEncoding => 1,
            Self::UnexpectedFrame => 2,
            Self::Version => 3,
            Self::BadProof => 4,
            Self::UnknownSession => 5,
            Self::StreamLimit => 6,
            Self::FlowControl => 7,
            Self::SubflowIdReused => 8,
            Self::TooMuch => 9,
            Self::Cut => 10,
            Self::GoingAway => 11,
            Self::NotTrusted => 12,
            Self::BadAck => 13,
            Self::Other(n) => n,
        }
    }

    /// Code of a number on the wire.
    pub const fn from_wire(n: u16) -> Self {
        match n {
            0 => Self::Done,
            1 => Self::FrameEncoding,
            2 => Self::UnexpectedFrame,
            3 => Self::Version,
            4 => Self::BadProof,
            5 => Self::UnknownSession,
            6 => Self::StreamLimit,
            7 => Self::FlowControl,
            8 => Self::SubflowIdReused,
            9 => Self::TooMuch,
            10 => Self::Cut,
            11 => Self::GoingAway,
            12 => Self::NotTrusted,
            13 => Self::BadAck,
            n => Self::Other(n),
        }
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Done => "done",
            Self::FrameEncoding => "malformed frame",
            Self::UnexpectedFrame => "frame not allowed here",
            Self::Version => "protocol version not supported",
            Self::BadProof => "proof of MP_JOIN is wrong",
            Self::UnknownSession => "no such session at this proxy",
            Self::StreamLimit => "stream id at or above the granted maximum",
            Self::FlowControl => "window overrun",
            Self::SubflowIdReused => "subflow id used before",
            Self::TooMuch => "a limit of the other end was reached",
            Self::Cut => "cut: it carried only copies",
            Self::GoingAway => "the other end has ended the session",
            Self::NotTrusted => "device not trusted",
            Self::BadAck => "acknowledgement of octets never sent",
            Self::Other(n) => return write!(f, "code {n}"),
        };
        write!(f, "{text} (code {})", self.to_wire())
    }
}

/// Reason for which a stream ended early, in RESET and STOP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResetCode {
    /// The connection at the far end was reset.
    ConnectionReset,
    /// The destination refused the connection.
    ConnectionRefused,
    /// No route to the destination.
    Unreachable,
    /// The destination did not answer in time.
    TimedOut,
    /// The destination's name does not resolve.
    NameNotFound,
    /// The proxy's policy forbids the destination.
    Forbidden,
    /// The application is no longer interested.
    Cancelled,
    /// The session was lost (proxy restarted, or no path for too long).
    SessionLost,
    /// The far end lacks descriptors or memory.
    Overloaded,
    /// A code that this version does not know.
    Other(u16),
}

impl ResetCode {
    /// Whether the destination was not reached at all.
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::ConnectionRefused
                | Self::Unreachable
                | Self::TimedOut
                | Self::NameNotFound
                | Self::Forbidden
                | Self::Overloaded
        )
    }

    /// Number on the wire.
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::ConnectionReset => 1,
            Self::ConnectionRefused => 2,
            Self::Unreachable => 3,
            Self::TimedOut => 4,
            Self::NameNotFound => 5,
            Self::Forbidden => 6,
            Self::Cancelled => 7,
            Self::SessionLost => 8,
            Self::Overloaded => 9,
            Self::Other(n) => n,
        }
    }

    /// Code of a number on the wire.
    pub const fn from_wire(n: u16) -> Self {
        match n {
            1 => Self::ConnectionReset,
            2 => Self::ConnectionRefused,
            3 => Self::Unreachable,
            4 => Self::TimedOut,
            5 => Self::NameNotFound,
            6 => Self::Forbidden,
            7 => Self::Cancelled,
            8 => Self::SessionLost,
            9 => Self::Overloaded,
            n => Self::Other(n),
        }
    }
}

impl fmt::Display for ResetCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::ConnectionReset => "connection reset",
            Self::ConnectionRefused => "connection refused",
            Self::Unreachable => "destination unreachable",
            Self::TimedOut => "timed out",
            Self::NameNotFound => "name not found",
            Self::Forbidden => "destination forbidden by the proxy",
            Self::Cancelled => "cancelled",
            Self::SessionLost => "session lost",
            Self::Overloaded => "far end overloaded",
            Self::Other(n) => return write!(f, "code {n}"),
        };
        f.write_str(text)
    }
}
