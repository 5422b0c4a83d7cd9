//! A resting pipe: its relay was lost while nothing moved, and is joined again when something does.
//!
//! A network that forgets a connection before the kernel's keep-alive comes has it reset every four
//! or eight minutes. Each new one wakes the helper's radio for nothing while another path works.
//! A resting pipe has no deadline: a new stream ends its rest, or bytes of an old one.

use std::time::Duration;

use mpbond_session::IDLE_LONG;

use crate::context::Context;

/// A relay that is lost this long after stream bytes last moved is not needed at once.
const IDLE: Duration = Duration::from_secs(10);

// The session tells when bytes move after `IDLE_LONG`, and so whenever they end a rest.
const _: () = assert!(IDLE_LONG.as_nanos() <= IDLE.as_nanos());

/// Whether a pipe rests.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Its control connection works: the helper would tell that it leaves.
    allowed: bool,
    resting: bool,
}

impl Rest {
    /// The relay works, or its control connection is lost.
    pub(crate) fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
        self.end();
    }

    /// The relay's subflow is lost, when stream bytes had not moved for `quiet`.
    pub(crate) fn begin(&mut self, quiet: Duration) {
        self.resting = self.allowed && quiet >= IDLE;
    }

    pub(crate) fn end(&mut self) {
        self.resting = false;
    }

    /// Whether nothing is to be joined now. The rest ends when no other subflow works.
    pub(crate) fn lasts(&mut self, cx: &Context) -> bool {
        self.resting &= cx.works();
        self.resting
    }
}
