//! Task that calls the session when a timeout is due.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Weak;
use std::task::Poll;

use tokio::time::sleep_until;

use super::inner::{Inner, with};

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
                with(&shared, |inner| {
                    inner.timer.armed = None;
                    // Whether copies wait depends on what the kernel knows now.
                    inner.refresh_paths();
                    let now = inner.clock.now();
                    inner.session.handle_timeout(now);
                });
            }
        }
    }
}
