//! The primary's session: opened at the start, and anew after each loss.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::action::{Action, Notice};
use crate::context::Context;

/// Pause before a session is opened after one was lost, and least time between the opening of a
/// session and of the next one.
pub const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// When a session is opened next, and whether the proxy trusts this device.
#[derive(Debug)]
pub(crate) struct Sessions {
    open_at: Option<Timestamp>,
    opened_at: Option<Timestamp>,
    not_trusted: bool,
}

impl Sessions {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            open_at: Some(now),
            opened_at: None,
            not_trusted: false,
        }
    }

    pub(crate) fn advance(&mut self, cx: &mut Context) {
        if self.open_at.take_if(|at| *at <= cx.now).is_some() {
            cx.act(Action::OpenSession);
        }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.open_at
    }

    pub(crate) fn lost(&mut self, now: Timestamp) {
        self.open_at = Some(now + REOPEN_AFTER);
    }

    pub(crate) fn opened(&mut self, now: Timestamp) {
        self.opened_at = Some(now);
    }

    /// A proxy that takes no streams in any session must not be asked without pause.
    pub(crate) fn retired(&mut self, now: Timestamp) {
        let earliest = self.opened_at.map(|at| at + REOPEN_AFTER);
        self.open_at = Some(earliest.map_or(now, |at| at.max(now)));
    }

    pub(crate) fn established(&mut self) {
        self.not_trusted = false;
    }

    pub(crate) fn not_trusted(&mut self, cx: &mut Context) {
        if !std::mem::replace(&mut self.not_trusted, true) {
            cx.tell(Notice::NotTrusted);
        }
    }

    pub(crate) fn is_not_trusted(&self) -> bool {
        self.not_trusted
    }
}
