//! Activity of the connections: a note that bytes have moved on any of them.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes that have moved, as the threads of all connections note it. Copies are of the same thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<(Mutex<bool>, Condvar)>);

impl Activity {
    /// Something has moved.
    pub fn note(&self) {
        let (moved, waits) = &*self.0;
        let mut moved = moved.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *moved, true) {
            waits.notify_all();
        }
    }

    /// Waits until something has moved since the last call.
    pub fn wait(&self) {
        let (moved, waits) = &*self.0;
        let moved = moved.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved =
            (waits.wait_while(moved, |moved| !*moved)).unwrap_or_else(PoisonError::into_inner);
        *moved = false;
    }
}
