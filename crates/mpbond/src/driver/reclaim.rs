use mpbond_session::{ResetCode, StreamId};

use super::{AppSocket, Driver};

/// An application's connection that was taken back from the session.
pub struct Reclaimed {
    /// The connection itself.
    pub socket: Box<dyn AppSocket>,
    /// What the application has said so far.
    pub said: Vec<u8>,
}

impl Driver {
    /// Primary: whether the proxy has neither acknowledged nor answered anything of a stream.
    pub fn is_unheard(&self, id: StreamId) -> bool {
        let inner = self.shared.borrow();
        inner.streams.contains_key(&id)
            && !inner.session.is_lost()
            && inner.session.unheard(id).is_some()
    }

    /// Primary: takes an application's connection back from a stream of which the proxy has
    /// acknowledged nothing, if what was said on it is such that it may be said twice: the proxy may
    /// have heard it nevertheless. The stream is given up.
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
