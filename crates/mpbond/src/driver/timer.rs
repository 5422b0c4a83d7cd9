use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Weak;
use std::task::{Poll, Waker};

use mpbond_units::Timestamp;
use tokio::time::sleep_until;

use super::{Driver, Inner};

/// When the session wants to be called, and the task that will do it.
#[derive(Default)]
pub(super) struct Timer {
    due: Option<Timestamp>,
    /// What the task sleeps towards. It may wake too early, never too late.
    armed: Option<Timestamp>,
    waker: Option<Waker>,
}

impl Timer {
    /// Notes when the session wants to be called; returns a waker if the task would sleep past
    /// it.
    pub(super) fn arm(&mut self, due: Option<Timestamp>) -> Option<Waker> {
        self.due = due;
        let due = due?;
        if self.armed.is_some_and(|a| a <= due) {
            return None;
        }
        self.waker.take()
    }
}

/// Calls the session when time has passed; ends with the driver.
pub(super) async fn run(shared: Weak<RefCell<Inner>>) {
    let mut sleep = None;
    loop {
        // Wait until there is something to wait for.
        let armed = poll_fn(|cx| {
            let Some(shared) = shared.upgrade() else {
                return Poll::Ready(None);
            };
            let mut inner = shared.borrow_mut();
            match inner.timer.due {
                Some(due) => {
                    inner.timer.armed = Some(due);
                    Poll::Ready(Some(inner.clock.instant(due)))
                }
                None => {
                    inner.timer.armed = None;
                    inner.timer.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        let Some(at) = armed else {
            return;
        };
        let sleep = sleep.insert(Box::pin(sleep_until(at)));
        // Sleep until then, or until something earlier comes up.
        let earlier = poll_fn(|cx| {
            let Some(shared) = shared.upgrade() else {
                return Poll::Ready(None);
            };
            let mut inner = shared.borrow_mut();
            if inner.timer.due < inner.timer.armed && inner.timer.due.is_some() {
                return Poll::Ready(Some(true));
            }
            inner.timer.waker = Some(cx.waker().clone());
            drop(inner);
            sleep.as_mut().poll(cx).map(|()| Some(false))
        })
        .await;
        match earlier {
            None => return,
            Some(true) => {}
            Some(false) => {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                Driver { shared }.with(|inner| {
                    inner.timer.armed = None;
                    let now = inner.clock.now();
                    inner.session.handle_timeout(now);
                });
            }
        }
    }
}
