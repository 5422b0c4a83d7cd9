//! The instant of a session's next timeout, and the task that sleeps until then.

use std::task::Waker;

use mpbond_units::Timestamp;

/// The session's next timeout and the sleep of its task.
#[derive(Default)]
pub(super) struct Timer {
    pub(super) due: Option<Timestamp>,
    /// End of the task's sleep: at or before `due`.
    pub(super) armed: Option<Timestamp>,
    pub(super) waker: Option<Waker>,
}

impl Timer {
    /// Sets the next timeout. Returns a waker if the task would sleep past it.
    pub(super) fn arm(&mut self, due: Option<Timestamp>) -> Option<Waker> {
        self.due = due;
        let due = due?;
        if self.armed.is_some_and(|a| a <= due) {
            return None;
        }
        self.waker.take()
    }
}
