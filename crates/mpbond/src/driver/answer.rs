//! Answers to clients that wait until their destinations are reached.

use mpbond_session::ResetCode;
use tokio::sync::oneshot;

/// Answer to a client that waits for its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The destination is reached: [`Driver::attach`](super::Driver::attach) joins the client.
    Connected,
    /// The proxy has refused the stream, for this reason; it is forgotten.
    Refused(ResetCode),
    /// The proxy has not heard of the stream, which was taken back
    /// ([`Driver::reclaim_asked`](super::Driver::reclaim_asked)).
    Unheard,
}

/// Sender of an answer.
pub(super) type Asker = oneshot::Sender<Answer>;
