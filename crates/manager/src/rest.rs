//! Rest of a pipe whose relay was lost while nothing moved: it is joined again when something does.
//!
//! A network that forgets a connection before the kernel's keep-alive comes has it reset every four
//! or eight minutes. Each new one wakes the helper's radio for nothing while another path works.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::context::Context;

/// A relay that is lost this long after stream bytes last moved is not needed at once.
const IDLE: Duration = Duration::from_secs(10);

/// Time from the loss until the subflows are looked at: less than any pause before an attempt.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// Interval at which a resting pipe looks for stream bytes. A new stream ends its rest at once;
/// here it is an old one that goes on.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Whether a pipe rests.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Its control connection works: the helper would tell that it leaves.
    allowed: bool,
    look_at: Option<Timestamp>,
}

impl Rest {
    /// The relay works, or its control connection is lost.
    pub(crate) fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
        self.end();
    }

    /// The relay's subflow is lost.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        if self.allowed {
            self.look_at = Some(now + FIRST_LOOK);
        }
    }

    pub(crate) fn end(&mut self) {
        self.look_at = None;
    }

    /// Whether nothing is to be joined now.
    pub(crate) fn lasts(&mut self, cx: &Context) -> bool {
        if !cx.works() {
            self.look_at = None;
        } else if self.look_at.is_some_and(|at| at <= cx.now) {
            let idle = cx.subflows.quiet_for(cx.now) >= IDLE;
            self.look_at = idle.then(|| cx.now + LOOK_EVERY);
        }
        self.look_at.is_some()
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.look_at
    }
}
