//! Counters of a daemon by the names of peers and paths. They outlive sessions and subflows, so
//! that metrics only rise while the daemon runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::status::{PathStatus, PeerStatus, SessionStatus};

/// Maximum number of peers with counters of their own, and of names of one peer's paths; the rest
/// is counted under [`OTHER`].
const MAX_PEERS: usize = 1_024;
pub(super) const MAX_NAMES: usize = 64;
const OTHER: &str = "other";

/// Number of ended sessions whose ids are kept: a status that was being made meanwhile may have
/// them among the living.
const RECENT: usize = 64;

/// Counters of ended sessions, and of joins.
#[derive(Clone, Default)]
pub(crate) struct Totals(Arc<Mutex<Book>>);

#[derive(Clone, Default)]
struct Book {
    peers: BTreeMap<String, Peer>,
    recent: VecDeque<String>,
}

#[derive(Clone, Default)]
struct Peer {
    totals: PeerStatus,
    paths: BTreeMap<String, PathStatus>,
}

impl Totals {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A subflow of a path has joined a session.
    pub(super) fn joined(&self, peer: &str, name: &str) {
        self.lock().peer(peer).path(name).joins_total += 1;
    }

    /// A session has ended.
    pub(super) fn ended(&self, session: &SessionStatus) {
        let mut book = self.lock();
        book.add(session);
        if book.recent.len() == RECENT {
            book.recent.pop_front();
        }
        book.recent.push_back(session.id.clone());
    }

    /// The counters with those of these sessions, which have not ended.
    pub(crate) fn with(&self, sessions: &[SessionStatus]) -> (Vec<PeerStatus>, Vec<PathStatus>) {
        let mut book = self.lock().clone();
        for session in sessions {
            if session.id.is_empty() || !book.recent.contains(&session.id) {
                book.add(session);
            }
        }
        let (mut peers, mut paths) = (Vec::new(), Vec::new());
        for (id, peer) in book.peers {
            peers.push(PeerStatus {
                peer: id.clone(),
                ..peer.totals
            });
            paths.extend(peer.paths.into_iter().map(|(name, path)| PathStatus {
                peer: id.clone(),
                name,
                ..path
            }));
        }
        (peers, paths)
    }
}

impl Book {
    fn peer(&mut self, id: &str) -> &mut Peer {
        let known = self.peers.contains_key(id) || self.peers.len() < MAX_PEERS;
        let id = if known { id } else { OTHER };
        self.peers.entry(id.to_owned()).or_default()
    }

    fn add(&mut self, session: &SessionStatus) {
        let peer = self.peer(&session.peer);
        let totals = &mut peer.totals;
        totals.streams_total += session.streams_total;
        totals.redundant_bytes_in += session.redundant_bytes_in;
        totals.redundant_bytes_out += session.redundant_bytes_out;
        totals.reinjected_bytes_out += session.reinjected_bytes_out;
        for path in &session.paths {
            let total = peer.path(&path.name);
            total.bytes_in += path.bytes_in;
            total.bytes_out += path.bytes_out;
            total.octets += path.octets;
        }
    }
}

impl Peer {
    fn path(&mut self, name: &str) -> &mut PathStatus {
        let known = self.paths.contains_key(name) || self.paths.len() < MAX_NAMES;
        let name = if known { name } else { OTHER };
        self.paths.entry(name.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::PathShare;

    fn session(id: &str, name: &str, bytes_in: u64) -> SessionStatus {
        SessionStatus {
            id: id.to_owned(),
            peer: "P".to_owned(),
            streams_total: 1,
            paths: vec![PathShare {
                name: name.to_owned(),
                bytes_in,
                bytes_out: 1,
                octets: bytes_in + 9,
            }],
            ..SessionStatus::default()
        }
    }

    #[test]
    fn counters_outlive_sessions_and_count_each_once() {
        let totals = Totals::default();
        totals.joined("P", "lte");
        let (old, new) = (session("a", "lte", 100), session("b", "lte", 20));
        let bytes = |sessions: &[SessionStatus]| totals.with(sessions).1[0].bytes_in;
        assert_eq!(bytes(std::slice::from_ref(&old)), 100);
        totals.ended(&old);
        assert_eq!(bytes(&[]), 100);
        // It was asked before it ended.
        assert_eq!(bytes(&[old, new]), 120);
        let (peers, paths) = totals.with(&[]);
        assert_eq!((peers[0].streams_total, paths[0].joins_total), (1, 1));
        assert_eq!(paths[0].octets, 109);
    }

    #[test]
    fn names_of_a_peer_are_bounded() {
        let totals = Totals::default();
        for n in 0..10_000 {
            totals.joined("P", &format!("wifi {n}"));
            totals.joined(&format!("peer {n}"), "wifi");
        }
        let (peers, paths) = totals.with(&[]);
        assert_eq!(peers.len(), MAX_PEERS + 1);
        let of_one: Vec<_> = paths.iter().filter(|p| p.peer == "P").collect();
        assert_eq!(of_one.len(), MAX_NAMES + 1);
        let joins: u64 = of_one.iter().map(|p| p.joins_total).sum();
        assert_eq!(joins, 10_000);
    }
}
