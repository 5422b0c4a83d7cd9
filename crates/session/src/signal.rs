//! RESET and STOP frames on their way to the peer.

use crate::ResetCode;

/// A RESET or STOP on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    pub(crate) code: ResetCode,
    pub(crate) state: SignalState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalState {
    /// The frame is to be written.
    Wanted,
    /// It is written, and not acknowledged.
    Sent,
    /// The peer has it.
    Acked,
}

impl Signal {
    pub(crate) fn wanted(code: ResetCode) -> Self {
        Self {
            code,
            state: SignalState::Wanted,
        }
    }
}
