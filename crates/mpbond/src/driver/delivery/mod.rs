//! Delivery after the end of a session.
//!
//! A half of a stream of which all bytes and FIN have arrived is delivered although its session is
//! over: the other end has been told that it has arrived, and may have forgotten it. Linux treats
//! the bytes of a connection whose process has ended likewise (an *orphan*).

#[cfg(test)]
mod tests;

use std::time::Duration;

use mpbond_session::ResetCode;
use mpbond_units::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::info;

use super::Driver;
use super::inner::Inner;
use super::notice::Notice;
use super::stream_io::StreamIo;

/// Time after which a connection that takes nothing is reset: as long as an origin is waited for
/// that has vanished.
const STALLS_WITHIN: Duration = Duration::from_secs(240);

/// Interval at which an ended session looks, while memory is short, whether it is to blame.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
        self.ended_at = now;
    }

    /// Whether a stream is cut off by the end of the session: one that is open and has not arrived
    /// completely.
    pub(super) fn cuts_streams(&self) -> bool {
        let left = self.session.streams();
        let whole = left.iter().filter(|s| s.reset.is_none()).count();
        let open = self.streams.values().filter(|io| !io.closed).count();
        left.len().max(open) > whole
    }

    /// Whether a direction that has arrived completely is not read yet, by the application or, of a
    /// stream that is over, by its connection.
    pub(super) fn has_rest(&self) -> bool {
        let open = self.session.streams();
        let mut open = open.iter();
        open.any(|s| self.session.reset_code(s.id).is_none())
            || self.streams.values().any(|io| io.closed && !io.done())
    }

    /// When the next connection has taken nothing for too long; where none is left, what waits for
    /// one to be attached.
    fn stalls_at(&self) -> Timestamp {
        let left = self.streams.values().filter(|io| !io.done());
        let earliest = left.map(|io| io.taken_at).min();
        earliest.unwrap_or_default().max(self.ended_at) + STALLS_WITHIN
    }

    /// Resets the connections that have taken nothing for too long.
    fn reset_stalled(&mut self) {
        let now = self.clock.now();
        if let Some(line) = self.line() {
            let left_out = line.left_out;
            info!(
                left_out,
                "nobody reads what is left of a session: it is reset"
            );
        }
        for (id, io) in &mut self.streams {
            if io.taken_at.max(self.ended_at) + STALLS_WITHIN <= now && !io.done() {
                io.abort(None);
                self.wake.extend(io.waker.take());
                self.session.stop(now, *id, ResetCode::SessionLost);
            }
        }
    }
}

impl Driver {
    /// Hands over what had arrived completely when the session ended. Returns when nothing is left,
    /// when no connection has taken anything for four minutes, or when the session is given up.
    pub async fn deliver_rest(&self, notices: &mut mpsc::UnboundedReceiver<Notice>) {
        let memory = self.shared.borrow().account.memory().clone();
        loop {
            // Made before looking, so that it notices a shortage that begins meanwhile.
            let shortage = memory.shortage();
            let deadline = {
                let inner = self.shared.borrow();
                if inner.given_up || !inner.session.is_lost() || inner.is_drained() {
                    return;
                }
                inner.clock.instant(inner.stalls_at())
            };
            let now = Instant::now();
            if deadline <= now {
                self.with(Inner::reset_stalled);
                if self.shared.borrow().streams.values().all(StreamIo::done) {
                    return;
                }
                continue;
            }
            let look = match memory.is_short() {
                true => deadline.min(now + LOOK_EVERY),
                false => deadline,
            };
            // A notice may be that nothing is left, or that the session is given up.
            tokio::select! {
                notice = notices.recv() => if notice.is_none() {
                    return;
                },
                () = sleep_until(look) => {}
                () = shortage => {}
            }
            // A session that holds too much where memory is short gives itself up.
            self.with(|_| ());
        }
    }
}
