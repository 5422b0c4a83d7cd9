//! Sessions of a proxy: their workers and their devices.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use mpbond_net::DeviceId;
use mpbond_session::SessionId;

/// Maximum number of sessions of one device at a time: one in use, and abandoned ones, which last a
/// minute.
pub(super) const MAX_SESSIONS_EACH: usize = 16;

/// Maximum number of sessions of all devices: with 48 KiB for an idle one, less than a gigabyte.
pub(super) const MAX_SESSIONS: usize = 16_384;

/// Worker and device of each session. One that has ended counts as long as it delivers bytes.
#[derive(Default)]
pub(super) struct Registry {
    // Locked when subflows join and sessions end, never while bytes move.
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    /// Without a worker: those that have ended.
    sessions: HashMap<SessionId, (Option<usize>, DeviceId)>,
    /// Number of sessions of each device.
    devices: HashMap<DeviceId, usize>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Registers a session.
    ///
    /// # Errors
    /// When the device or all devices have too many.
    pub(super) fn insert(
        &self,
        session: SessionId,
        worker: usize,
        device: DeviceId,
    ) -> Result<(), String> {
        let mut tables = self.lock();
        if tables.sessions.len() >= MAX_SESSIONS {
            return Err(format!("this proxy has {MAX_SESSIONS} sessions, its limit"));
        }
        let own = tables.devices.entry(device).or_default();
        if *own >= MAX_SESSIONS_EACH {
            return Err(format!(
                "{MAX_SESSIONS_EACH} sessions of a device are the limit"
            ));
        }
        *own += 1;
        tables.sessions.insert(session, (Some(worker), device));
        Ok(())
    }

    /// A session has ended: no subflow can join it.
    pub(super) fn close(&self, session: SessionId) {
        if let Some((worker, _)) = self.lock().sessions.get_mut(&session) {
            *worker = None;
        }
    }

    pub(super) fn remove(&self, session: SessionId) {
        let mut tables = self.lock();
        let Some((_, device)) = tables.sessions.remove(&session) else {
            return;
        };
        if let Some(own) = tables.devices.get_mut(&device) {
            *own -= 1;
            if *own == 0 {
                tables.devices.remove(&device);
            }
        }
    }

    /// The worker that holds a session of this device. Another device's session does not exist
    /// for it.
    pub(super) fn find(&self, session: SessionId, device: &DeviceId) -> Option<usize> {
        let tables = self.lock();
        let (worker, owner) = tables.sessions.get(&session)?;
        worker.filter(|_| owner == device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(n: u32) -> DeviceId {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&n.to_be_bytes());
        DeviceId::from_bytes(hash)
    }

    fn session(n: u32) -> SessionId {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_be_bytes());
        SessionId(id)
    }

    #[test]
    fn sessions_are_bounded_by_device_and_in_all() {
        let registry = Registry::default();
        let all = MAX_SESSIONS as u32;
        for n in 0..all {
            let device = device(n / MAX_SESSIONS_EACH as u32);
            registry.insert(session(n), 0, device).unwrap();
            if n == 40 {
                assert!(registry.insert(session(all), 0, self::device(0)).is_err());
            }
        }
        let newcomer = device(all);
        assert!(registry.insert(session(all), 0, newcomer).is_err());
        registry.remove(session(7));
        registry.insert(session(all), 0, newcomer).unwrap();
        assert_eq!(registry.find(session(all), &newcomer), Some(0));
        assert_eq!(registry.find(session(all), &device(3)), None, "not its own");
        registry.close(session(all));
        assert_eq!(registry.find(session(all), &newcomer), None, "it has ended");
        assert!(registry.insert(session(all + 1), 0, newcomer).is_err());
    }
}
