use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use mpbond_net::DeviceId;
use mpbond_session::SessionId;

/// Which worker holds which session, and whose it is.
#[derive(Default)]
pub(super) struct Registry {
    // Touched when subflows come and sessions go, never while bytes move.
    sessions: Mutex<HashMap<SessionId, (usize, DeviceId)>>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, (usize, DeviceId)>> {
        self.sessions
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn insert(&self, session: SessionId, worker: usize, device: DeviceId) {
        self.lock().insert(session, (worker, device));
    }

    pub(super) fn remove(&self, session: SessionId) {
        self.lock().remove(&session);
    }

    /// The worker that holds a session of this device. Another device's session does not exist
    /// for it.
    pub(super) fn find(&self, session: SessionId, device: &DeviceId) -> Option<usize> {
        let sessions = self.lock();
        let (worker, owner) = sessions.get(&session)?;
        (owner == device).then_some(*worker)
    }

    /// How many sessions a device has.
    pub(super) fn of_device(&self, device: &DeviceId) -> usize {
        self.lock().values().filter(|(_, d)| d == device).count()
    }
}
