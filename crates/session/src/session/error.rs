//! Errors of a session, and the record that closes a subflow.

use thiserror::Error;

use crate::CloseCode;
use crate::wire::Frame;

/// No stream can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The peer's limit of open streams is reached.
    #[error("as many streams are open as the proxy allows")]
    Limit,
    /// The session is lost, or the peer is shutting down.
    #[error("the session takes no new streams")]
    Closed,
    /// The session cannot give the stream this treatment.
    #[error(transparent)]
    Treatment(TreatmentError),
}

/// A treatment that the session cannot give a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TreatmentError {
    /// The peer does not announce that it obeys sets of paths.
    #[error("the proxy does not restrict streams to the paths that they may use; update it")]
    NoPathSets,
    /// Streams have too many different sets of paths.
    #[error("the streams of the session have too many different sets of paths")]
    TooManySets,
}

/// A subflow misbehaved and was closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{code}: {reason}")]
pub struct SubflowError {
    /// Reason code: the one to send to the peer (see [`close_record`]), or the one that the peer
    /// sent.
    pub code: CloseCode,
    /// Details, for logs.
    pub reason: String,
    /// The peer closed it.
    pub by_peer: bool,
}

impl SubflowError {
    pub(crate) fn ours(code: CloseCode, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            by_peer: false,
        }
    }
}

/// The last record on a subflow: CLOSE with a reason code.
pub fn close_record(code: CloseCode, reason: &str) -> Vec<u8> {
    let mut out = Vec::new();
    Frame::Close {
        code,
        reason: reason.to_owned(),
    }
    .encode(&mut out);
    out
}
