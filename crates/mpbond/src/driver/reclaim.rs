//! Taking an application's connection back from the session.

use mpbond_session::{ResetCode, StreamId};

use super::Driver;
use super::app_socket::AppSocket;

/// An application's connection that the session no longer carries.
pub struct Reclaimed {
    /// The connection itself.
    pub socket: Box<dyn AppSocket>,
    /// Bytes that the application has written so far.
    pub said: Vec<u8>,
}

impl Driver {
    /// Primary: whether the proxy has neither acknowledged nor answered anything of a stream that
    /// is open.
    pub fn is_unheard(&self, id: StreamId) -> bool {
        let inner = self.shared.borrow();
        let known = inner.streams.contains_key(&id) || inner.asked.contains_key(&id);
        known && !inner.session.is_lost() && inner.session.is_unheard(id)
    }

    /// Primary: takes an application's connection back from a stream of which the proxy has
    /// acknowledged nothing, and resets the stream. The proxy may have received the bytes written
    /// so far nevertheless: `None` unless `harmless` holds for them.
    pub fn reclaim(&self, id: StreamId, harmless: impl Fn(&[u8]) -> bool) -> Option<Reclaimed> {
        self.with(|inner| {
            if inner.session.is_lost() {
                return None;
            }
            let said = inner.session.unheard(id).filter(|said| harmless(said))?;
            let mut io = inner.forget_stream(id)?;
            // Its task finds that there is nothing left to do.
            inner.wake.extend(io.waker.take());
            let now = inner.clock.now();
            inner.session.reset(now, id, ResetCode::Cancelled);
            inner.session.stop(now, id, ResetCode::Cancelled);
            let socket = io.socket.take()?;
            Some(Reclaimed { socket, said })
        })
    }
}
