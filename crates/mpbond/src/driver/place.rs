//! Places for streams, taken before a client is told that it is connected.

use bytes::Bytes;
use mpbond_session::{Destination, OpenError, StreamId, Treatment};

use super::Driver;
use super::app_socket::AppSocket;

/// A place for one stream of a session; dropping it gives it back.
pub struct Place {
    driver: Driver,
}

impl Driver {
    /// Primary: takes a place for a stream; `None` where the session takes no more now.
    pub fn reserve(&self) -> Option<Place> {
        let mut inner = self.shared.borrow_mut();
        if inner.session.streams_left() <= inner.reserved {
            return None;
        }
        inner.reserved += 1;
        drop(inner);
        Some(Place {
            driver: self.clone(),
        })
    }

    /// Primary: whether the proxy keeps streams to the paths that they may use.
    pub fn obeys_paths(&self) -> bool {
        self.shared.borrow().session.obeys_paths()
    }

    /// Primary: number of streams that may be opened now, beside those that have a place.
    pub fn streams_left(&self) -> u64 {
        let inner = self.shared.borrow();
        inner.session.streams_left().saturating_sub(inner.reserved)
    }
}

impl Place {
    /// The session's driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Opens the stream, as [`Driver::open`].
    ///
    /// # Errors
    /// The session is over, takes no new streams any more, or cannot treat the stream like this.
    pub fn open(
        self,
        destination: Destination,
        treatment: impl Into<Treatment>,
        early: Bytes,
        socket: impl AppSocket + 'static,
    ) -> Result<StreamId, OpenError> {
        let driver = self.driver.clone();
        drop(self);
        driver.open(destination, treatment, early, socket)
    }

    /// Whether the session has ended, or takes no new streams any more.
    pub fn is_void(&self) -> bool {
        self.driver.shared.borrow().session.streams_left() == 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.driver.shared.borrow_mut();
        inner.reserved = inner.reserved.saturating_sub(1);
    }
}
