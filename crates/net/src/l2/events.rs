//! Events of a socket in the event loop.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Arrivals and room of a socket as events, or none at all: while it is registered with the event
/// loop, each frame wakes that, whoever waits.
pub(super) enum Events {
    /// Registered.
    All(AsyncFd<OwnedFd>),
    None(OwnedFd),
    /// For good, after an error.
    Lost,
}

impl Events {
    /// Registers a socket with the event loop.
    // Deprecated because a type may give away its descriptor while it is registered, which this
    // one, the only owner of it, does not. The successor is `unsafe`.
    #[allow(deprecated)]
    pub(super) fn register(socket: OwnedFd) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
        AsyncFd::with_interest(socket, interest).map(Self::All)
    }

    /// Whether there are events.
    pub(super) fn wake(&mut self, wake: bool) -> io::Result<()> {
        *self = match (std::mem::replace(self, Self::Lost), wake) {
            (Self::All(ready), false) => Self::None(ready.into_inner()),
            (Self::None(socket), true) => Self::register(socket)?,
            (same, _) => same,
        };
        Ok(())
    }

    /// Waits for frames, or for an error: an interface that goes is no other event. All frames are
    /// taken afterwards, so that the note of them is cleared before.
    pub(super) async fn readable(&self) {
        self.wait(Interest::READABLE | Interest::ERROR).await;
    }

    pub(super) async fn writable(&self) {
        self.wait(Interest::WRITABLE).await;
    }

    async fn wait(&self, interest: Interest) {
        let Self::All(ready) = self else {
            return pending().await;
        };
        // An error is found again by the next call on the socket.
        if let Ok(mut guard) = ready.ready(interest).await {
            guard.clear_ready();
        }
    }
}
