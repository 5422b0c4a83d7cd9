//! Delivery after the end of a session.
//!
//! A half of a stream of which all bytes and FIN have arrived is delivered although its session is
//! over: the other end has been told that it has arrived, and may have forgotten it. Linux treats
//! the bytes of a connection whose process has ended likewise (an *orphan*).

use std::time::Duration;

use mpbond_session::ResetCode;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::info;

use super::Driver;
use super::inner::Inner;
use super::notice::Notice;

/// Time after which what is left is reset if nothing was taken: as long as an origin is waited for
/// that has vanished.
const STALLS_WITHIN: Duration = Duration::from_secs(240);

impl Inner {
    /// Resets the connections that take no bytes and whose streams were reset with the session: the
    /// others are reset when they read that.
    pub(super) fn reset_blocked(&mut self) {
        let now = self.clock.now();
        for (id, io) in &mut self.streams {
            if io.blocked && self.session.reset_code(*id).is_some() {
                io.abort(None);
                self.wake.extend(io.waker.take());
                self.session.stop(now, *id, ResetCode::SessionLost);
            }
        }
        self.delivered_at = now;
    }

    /// Whether a stream is cut off by the end of the session: one that is open and has not arrived
    /// completely.
    pub(super) fn cuts_streams(&self) -> bool {
        let left = self.session.streams();
        let whole = left.iter().filter(|s| s.reset.is_none()).count();
        let open = self.streams.values().filter(|io| !io.closed).count();
        left.len().max(open) > whole
    }
}

impl Driver {
    /// Hands over what had arrived completely when the session ended. Returns when nothing is left,
    /// when nothing was taken for four minutes, or when the session is given up.
    pub async fn deliver_rest(&self, notices: &mut mpsc::UnboundedReceiver<Notice>) {
        loop {
            let deadline = {
                let inner = self.shared.borrow();
                if inner.given_up || !inner.session.is_lost() || inner.is_drained() {
                    return;
                }
                inner.clock.instant(inner.delivered_at + STALLS_WITHIN)
            };
            if deadline <= Instant::now() {
                if let Some(line) = self.shared.borrow().line() {
                    let left_out = line.left_out;
                    info!(
                        left_out,
                        "nobody reads what is left of a session: it is reset"
                    );
                }
                return;
            }
            // A notice may be that nothing is left, or that the session is given up.
            tokio::select! {
                notice = notices.recv() => if notice.is_none() {
                    return;
                },
                () = sleep_until(deadline) => {}
            }
        }
    }
}
