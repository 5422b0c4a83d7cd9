//! Links behind which a proxy's sessions are: on one that several have, they send in an order
//! (ADR 0069).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mpbond_manager::{LinkLedger, LinkOf};
use mpbond_session::{DeviceLabel, PathLabel, Session, SubflowId};
use mpbond_units::Timestamp;

/// Link of a device to the proxy: the one with this address, since a device may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    device: DeviceLabel,
    from: IpAddr,
}

/// Links of all sessions of a proxy. Cheap to clone, and shared between threads.
#[derive(Clone, Default)]
pub(crate) struct Links(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    ledger: LinkLedger<u64, Link>,
    /// By session: whether others have links of it. Those of whom that is false take no lock while
    /// bytes move.
    shares: BTreeMap<u64, Arc<AtomicBool>>,
    next: u64,
}

impl All {
    /// These sessions have got others on their links, or have none any more.
    fn tell(&self, sessions: &[u64]) {
        for number in sessions {
            if let Some(shares) = self.shares.get(number) {
                shares.store(self.ledger.has_others(*number), Ordering::Relaxed);
            }
        }
    }
}

impl Links {
    /// The place of a session, whose primary has this label.
    pub(crate) fn enter(&self, own: DeviceLabel) -> OwnLinks {
        let shares = Arc::default();
        let mut all = self.lock();
        let number = all.next;
        all.next += 1;
        all.shares.insert(number, Arc::clone(&shares));
        OwnLinks {
            all: self.clone(),
            number,
            own,
            links: Vec::new(),
            changed: false,
            shares,
            told: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Links of one session.
pub(crate) struct OwnLinks {
    all: Links,
    number: u64,
    own: DeviceLabel,
    links: Vec<LinkOf<Link>>,
    /// They are others than the ledger has.
    changed: bool,
    /// Others have some of them.
    shares: Arc<AtomicBool>,
    /// The session was told of others, and is to be told of their end.
    told: bool,
}

impl OwnLinks {
    /// A subflow has joined, from this address.
    pub(super) fn joined(&mut self, subflow: SubflowId, path: &PathLabel, from: IpAddr) {
        let device = match path.helper {
            None => Some(self.own),
            Some(_) => path.lender,
        };
        if let Some(device) = device {
            let from = from.to_canonical();
            self.links.push(LinkOf {
                subflow,
                link: Link { device, from },
                is_own: path.helper.is_none(),
            });
            self.changed = true;
        }
    }

    /// A subflow is closed.
    pub(super) fn closed(&mut self, subflow: SubflowId) {
        let before = self.links.len();
        self.links.retain(|of| of.subflow != subflow);
        self.changed |= self.links.len() < before;
    }

    /// Tells the others what this session has on its links, and it what they have there. Returns
    /// whether there was anything to tell.
    pub(super) fn exchange(&mut self, now: Timestamp, session: &mut Session) -> bool {
        if !self.changed && !self.told && !self.shares.load(Ordering::Relaxed) {
            return false;
        }
        let mut all = self.all.lock();
        if std::mem::take(&mut self.changed) {
            let met = all.ledger.set_links(self.number, &self.links);
            all.tell(&met);
        }
        all.ledger.exchange(now, self.number, session);
        self.told = all.ledger.has_others(self.number);
        true
    }
}

impl Drop for OwnLinks {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        all.shares.remove(&self.number);
        let met = all.ledger.leave(self.number);
        all.tell(&met);
    }
}

#[cfg(test)]
mod tests {
    use mpbond_session::{HelperId, SessionConfig};

    use super::*;

    fn label(device: u8) -> DeviceLabel {
        DeviceLabel::new(&[9; 32], &[device; 32])
    }

    fn through(lender: Option<u8>) -> PathLabel {
        PathLabel {
            helper: Some(HelperId(0)),
            lender: lender.map(label),
            ..PathLabel::default()
        }
    }

    fn session() -> Session {
        Session::client(SessionConfig::default(), [1; 32])
    }

    #[test]
    fn sessions_meet_on_a_link_of_one_device_with_one_address() {
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|a| a.parse::<IpAddr>().unwrap());
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        let direct = PathLabel::default();
        for (path, from, meets) in [
            (through(Some(1)), one, true),
            (through(Some(1)), mapped, true),
            (through(Some(1)), other, false),
            (through(Some(2)), one, false),
            (through(None), one, false),
            (direct.clone(), one, false),
        ] {
            let links = Links::default();
            let now = Timestamp::from_millis(1);
            let mut session = session();
            let [mut owner, mut borrower] = [1, 3].map(|device| links.enter(label(device)));
            owner.joined(SubflowId(1), &direct, one);
            owner.exchange(now, &mut session);
            borrower.joined(SubflowId(1), &path, from);
            borrower.exchange(now, &mut session);
            let share = |all: [&OwnLinks; 2]| all.map(|own| own.shares.load(Ordering::Relaxed));
            assert_eq!(share([&owner, &borrower]), [meets; 2], "{path:?} {from}");
            borrower.closed(SubflowId(1));
            borrower.exchange(now, &mut session);
            assert_eq!(share([&owner, &borrower]), [false; 2]);
            borrower.joined(SubflowId(2), &path, from);
            borrower.exchange(now, &mut session);
            assert_eq!(share([&owner, &borrower]), [meets; 2]);
            drop(owner);
            assert!(!borrower.shares.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn sessions_without_others_on_their_links_exchange_nothing() {
        let links = Links::default();
        let from = "192.0.2.1".parse().unwrap();
        let now = Timestamp::from_millis(1);
        let mut session = session();
        let all = [1, 2, 3].map(|device| links.enter(label(device)));
        let [mut owner, mut borrower, mut alone] = all;
        for own in [&mut owner, &mut alone] {
            assert!(!own.exchange(now, &mut session));
            own.joined(SubflowId(1), &PathLabel::default(), from);
            assert!(own.exchange(now, &mut session));
            assert!(!own.exchange(now, &mut session));
        }
        borrower.joined(SubflowId(1), &through(Some(1)), from);
        for _ in 0..2 {
            assert!(borrower.exchange(now, &mut session));
            assert!(owner.exchange(now, &mut session));
            assert!(!alone.exchange(now, &mut session));
        }
        drop(borrower);
        // Once, to be told of the end.
        assert!(owner.exchange(now, &mut session));
        assert!(!owner.exchange(now, &mut session));
        drop((owner, alone));
        assert!(links.lock().shares.is_empty());
    }
}
