//! Run-ahead of a sender: bytes that a helper holds for a pipe (ADR 0087), or for its link to the
//! Internet (ADR 0088).
//!
//! A helper buffers what its link brings faster than the pipe takes (MPBond section 4.2). What
//! waits there for a slow pipe is in the way of a change to a faster one, and of what a faster one
//! that was lost owes. What waits there for a slow link to the Internet holds back at the peer, as
//! far as its windows go, what other paths bring meanwhile.

use std::time::Duration;

use mpbond_units::BitRate;

/// Time for which bytes may wait for a pipe while a faster one is used: it is kept busy, no more.
const LEAST: Duration = Duration::from_millis(25);

/// The same after a faster one was lost. It has to be well over the 100 ms of bytes that wait by
/// which the primary's path manager sees that a pipe is too slow (ADR 0040).
const BRIEF: Duration = Duration::from_millis(400);

/// Time for which bytes of an upload may wait at a helper.
const UPLOAD: Duration = Duration::from_millis(200);

/// A pipe with more than this multiple of the rate of the helper's link keeps that busy: a pipe's
/// rate varies.
const FASTER: f64 = 2.0;

/// Bound of the run-ahead to the pipe of a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunAhead {
    /// As far as the helper's buffer reaches.
    #[default]
    Buffer,
    /// Briefly: the helper has had a faster pipe, which may come back.
    Brief,
    /// As little as keeps it busy: a faster pipe to the helper is used beside it.
    Least,
}

impl RunAhead {
    /// Time for which bytes may wait for the pipe, if that is bounded.
    pub(super) const fn time(self) -> Option<Duration> {
        match self {
            Self::Buffer => None,
            Self::Brief => Some(BRIEF),
            Self::Least => Some(LEAST),
        }
    }
}

/// Time for which bytes of an upload may wait for the helper's link, where the pipe is fast enough
/// to keep that busy.
pub(super) fn of_upload(pipe: BitRate, link: BitRate) -> Option<Duration> {
    (pipe.bytes_per_sec() > link.bytes_per_sec() * FASTER).then_some(UPLOAD)
}
