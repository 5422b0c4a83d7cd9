//! Sessions of a proxy: their workers and their devices.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use mpbond_net::DeviceId;
use mpbond_session::{KnownPaths, SessionId};
use tokio::sync::oneshot;

/// Maximum number of sessions of one device at a time: one in use, abandoned ones, which last a
/// minute, and ended ones that deliver bytes, of which the oldest gives way to a new one.
pub(super) const MAX_SESSIONS_EACH: usize = 16;

/// Maximum number of sessions of all devices: with 48 KiB for an idle one, less than a gigabyte.
pub(super) const MAX_SESSIONS: usize = 16_384;

/// Workers and devices of sessions. One that has ended counts as long as it delivers bytes.
#[derive(Default)]
pub(super) struct Registry {
    // Locked when subflows join or end and sessions end, never while bytes move.
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    sessions: HashMap<SessionId, Entry>,
    devices: HashMap<DeviceId, Own>,
}

struct Entry {
    worker: usize,
    device: DeviceId,
    ended: bool,
}

/// Sessions of a device.
#[derive(Default)]
struct Own {
    number: usize,
    /// Those that have ended, oldest end first, and what tells each to give way.
    ended: VecDeque<(SessionId, oneshot::Sender<()>)>,
    /// What they have shown of its paths.
    known: KnownPaths,
}

impl Tables {
    fn remove(&mut self, session: SessionId) {
        let Some(entry) = self.sessions.remove(&session) else {
            return;
        };
        if let Some(own) = self.devices.get_mut(&entry.device) {
            own.number -= 1;
            own.ended.retain(|(other, _)| *other != session);
            if own.number == 0 {
                self.devices.remove(&entry.device);
            }
        }
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Registers a session. Where its device has too many, the oldest one that has ended gives way.
    ///
    /// # Errors
    /// When all devices have too many, or the device has and none of them has ended.
    pub(super) fn insert(
        &self,
        session: SessionId,
        worker: usize,
        device: DeviceId,
    ) -> Result<(), String> {
        let mut tables = self.lock();
        if let Some(own) = tables.devices.get_mut(&device)
            && own.number >= MAX_SESSIONS_EACH
        {
            let Some((oldest, gives_way)) = own.ended.pop_front() else {
                return Err(format!(
                    "{MAX_SESSIONS_EACH} sessions of a device are the limit"
                ));
            };
            // Its worker may be about to remove it.
            let _ = gives_way.send(());
            tables.remove(oldest);
        }
        if tables.sessions.len() >= MAX_SESSIONS {
            return Err(format!("this proxy has {MAX_SESSIONS} sessions, its limit"));
        }
        tables.devices.entry(device).or_default().number += 1;
        let entry = Entry {
            worker,
            device,
            ended: false,
        };
        tables.sessions.insert(session, entry);
        Ok(())
    }

    /// A session has ended: no subflow can join it. The result is sent when it has to give way.
    pub(super) fn close(&self, session: SessionId) -> oneshot::Receiver<()> {
        let (sender, gives_way) = oneshot::channel();
        let mut tables = self.lock();
        let device = tables.sessions.get_mut(&session).map(|entry| {
            entry.ended = true;
            entry.device
        });
        if let Some(own) = device.and_then(|device| tables.devices.get_mut(&device)) {
            own.ended.push_back((session, sender));
        }
        gives_way
    }

    pub(super) fn remove(&self, session: SessionId) {
        self.lock().remove(session);
    }

    /// Notes what a session of a device has shown of its paths, for the device's next one. It is
    /// forgotten with the last session: one whose device was switched off lasts a minute.
    pub(super) fn know_paths(&self, device: &DeviceId, known: KnownPaths) {
        if let Some(own) = self.lock().devices.get_mut(device) {
            own.known.add(known);
        }
    }

    pub(super) fn known_paths(&self, device: &DeviceId) -> KnownPaths {
        let tables = self.lock();
        let own = tables.devices.get(device);
        own.map(|own| own.known.clone()).unwrap_or_default()
    }

    /// The worker that holds a session of this device. Another device's session does not exist
    /// for it.
    pub(super) fn find(&self, session: SessionId, device: &DeviceId) -> Option<usize> {
        let tables = self.lock();
        let entry = tables.sessions.get(&session)?;
        (!entry.ended && entry.device == *device).then_some(entry.worker)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_session::{PathInfo, Session, SessionConfig, SubflowSetup};
    use mpbond_units::{BitRate, Timestamp};
    use tokio::sync::oneshot::error::TryRecvError;

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
        let _gives_way = registry.close(session(all));
        assert_eq!(registry.find(session(all), &newcomer), None, "it has ended");
        assert!(registry.insert(session(all + 1), 0, newcomer).is_err());
    }

    /// What a session knows of its only path.
    fn known_of_one_path() -> KnownPaths {
        let now = Timestamp::from_millis(0);
        let mut session = Session::client(SessionConfig::default(), [1; 32]);
        let id = session.add_subflow(now, SubflowSetup::default());
        for arrived in 1..3 {
            let path = PathInfo {
                cwnd_bytes: 14_600,
                srtt: Duration::from_millis(50),
                min_rtt: Duration::from_millis(50),
                bytes_arrived: arrived,
                delivery_rate: BitRate::from_mbps(8.0),
                ..PathInfo::default()
            };
            session.handle_path(now, id, path);
        }
        session.known_paths()
    }

    #[test]
    fn paths_are_known_as_long_as_the_device_has_a_session() {
        let registry = Registry::default();
        registry.insert(session(1), 0, device(0)).unwrap();
        registry.insert(session(2), 0, device(1)).unwrap();
        registry.know_paths(&device(0), known_of_one_path());
        registry.know_paths(&device(7), known_of_one_path());
        let is_known = |n| !registry.known_paths(&device(n)).is_empty();
        assert_eq!([0, 1, 7].map(is_known), [true, false, false]);
        registry.remove(session(1));
        assert!(!is_known(0));
    }

    #[test]
    fn the_oldest_ended_session_of_a_device_gives_way() {
        let registry = Registry::default();
        for n in 0..MAX_SESSIONS_EACH as u32 {
            registry.insert(session(n), 0, device(0)).unwrap();
        }
        registry.insert(session(100), 0, device(1)).unwrap();
        let mut of_another = registry.close(session(100));
        assert!(registry.insert(session(101), 0, device(0)).is_err());
        let mut ended = [5, 3].map(|n| registry.close(session(n)));
        registry.insert(session(101), 0, device(0)).unwrap();
        assert_eq!(ended[0].try_recv(), Ok(()), "it ended first");
        assert_eq!(ended[1].try_recv(), Err(TryRecvError::Empty));
        // Its worker removes it, too.
        registry.remove(session(5));
        registry.insert(session(102), 0, device(0)).unwrap();
        assert_eq!(ended[1].try_recv(), Ok(()));
        assert!(registry.insert(session(103), 0, device(0)).is_err());
        assert_eq!(of_another.try_recv(), Err(TryRecvError::Empty));
    }
}
