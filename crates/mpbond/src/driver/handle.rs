//! A handle of a driver that does not keep it.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use mpbond_session::{PathSet, StreamClass, StreamId, SubflowId, TreatmentError};

use super::{Driver, Inner};

/// A driver, as long as another handle keeps it.
#[derive(Clone)]
pub struct Handle(Weak<RefCell<Inner>>);

impl Driver {
    /// Name of a subflow, also of one that is closed, as long as it is remembered.
    pub fn name_of(&self, subflow: SubflowId) -> Option<String> {
        self.shared.borrow().names.get(subflow).map(str::to_owned)
    }

    /// A handle that does not keep it.
    pub fn handle(&self) -> Handle {
        Handle(Rc::downgrade(&self.shared))
    }
}

impl Handle {
    /// Primary: changes the class of a stream, which the marks of its application's traffic change
    /// no more.
    pub fn set_class(&self, stream: StreamId, class: StreamClass) {
        if let Some(shared) = self.0.upgrade() {
            Driver { shared }.with(|inner| {
                inner.session.set_class(stream, class);
                let io = inner.streams.get_mut(&stream);
                if let Some(socket) = io.and_then(|io| io.socket.as_mut()) {
                    socket.fix_class();
                }
            });
        }
    }

    /// Primary: a chunk of the application ends here in what a stream has brought, and here in what
    /// it takes, counted in bytes from its beginning.
    pub fn mark_chunk_ends(&self, stream: StreamId, download: Option<u64>, upload: Option<u64>) {
        if let Some(shared) = self.0.upgrade() {
            Driver { shared }.with(|inner| {
                if let Some(end) = download {
                    inner.session.mark_peer_chunk_end(stream, end);
                }
                if let Some(end) = upload {
                    inner.session.mark_chunk_end_at(stream, end);
                }
            });
        }
    }

    /// The paths that may carry a stream, while it is open.
    pub fn paths_of(&self, stream: StreamId) -> Option<PathSet> {
        self.0.upgrade()?.borrow().session.paths_of(stream)
    }

    /// Primary: changes the paths that may carry a stream, if its session still exists.
    ///
    /// # Errors
    /// The proxy does not obey sets of paths, or there are too many; the stream keeps its own.
    pub fn set_paths(&self, stream: StreamId, paths: PathSet) -> Result<(), TreatmentError> {
        match self.0.upgrade() {
            Some(shared) => Driver { shared }.with(|inner| inner.session.set_paths(stream, paths)),
            None => Ok(()),
        }
    }

    /// Whether it is of this driver.
    pub fn is_of(&self, driver: &Driver) -> bool {
        std::ptr::eq(self.0.as_ptr(), Rc::as_ptr(&driver.shared))
    }
}
