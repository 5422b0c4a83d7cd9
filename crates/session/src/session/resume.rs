//! Lost subflows: their final counts, and their frames until a peer that comes back has
//! acknowledged or lost them.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::Timestamp;

use crate::SubflowId;
use crate::subflow::{SentFrame, SentQueue};

/// Maximum number of lost subflows whose counts are kept for a peer that comes back.
const DEAD_COUNTS: usize = 32;

/// A subflow that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) subflow: SubflowId,
    /// Final count of octets received on it.
    pub(super) octets: u64,
    /// When it was reached.
    pub(super) at: Timestamp,
}

/// Memory of lost subflows.
#[derive(Debug)]
pub(super) struct Resume {
    /// How long a session without any path is kept.
    keep_for: Duration,
    /// Subflows that are gone.
    dead: VecDeque<Dead>,
    /// The next ACK carries them: a peer has come back.
    pub(super) tell_dead: bool,
    /// Frames of the subflows that were lost when no other worked. Only the peer knows which
    /// of them have arrived.
    unresolved: Vec<(SubflowId, SentQueue)>,
    /// Without any path since.
    without_path_since: Option<Timestamp>,
}

impl Resume {
    pub(super) fn new(keep_for: Duration) -> Self {
        Self {
            keep_for,
            dead: VecDeque::new(),
            tell_dead: false,
            unresolved: Vec::new(),
            without_path_since: None,
        }
    }

    /// A subflow is gone.
    pub(super) fn note_dead(&mut self, dead: Dead) {
        if self.dead.len() == DEAD_COUNTS {
            self.dead.pop_front();
        }
        self.dead.push_back(dead);
    }

    /// A hello is written: the peer may know of a loss that we have not noticed, and waits for our
    /// counts before it sends again.
    pub(super) fn peer_is_back(&mut self) {
        self.tell_dead |= !self.dead.is_empty();
    }

    /// Subflows that are gone.
    pub(super) fn dead(&self) -> impl Iterator<Item = Dead> {
        self.dead.iter().copied()
    }

    /// A subflow is gone, and no other works: its frames wait for an ACK that counts those which
    /// have arrived.
    pub(super) fn keep_unresolved(&mut self, id: SubflowId, frames: SentQueue) {
        self.unresolved.push((id, frames));
    }

    /// The peer has accepted `count` octets of a subflow that is gone: the frames in these.
    pub(super) fn resolve(&mut self, id: SubflowId, count: u64) -> Vec<SentFrame> {
        let mut arrived = Vec::new();
        if let Some((_, queue)) = self.unresolved.iter_mut().find(|(of, _)| *of == id) {
            queue.pop_acked(count, |frame| arrived.push(frame));
        }
        arrived
    }

    /// The peer has sent all its counts: the frames that have not arrived.
    pub(super) fn take_lost(&mut self) -> Vec<SentFrame> {
        let unresolved = std::mem::take(&mut self.unresolved);
        unresolved
            .into_iter()
            .flat_map(|(_, mut queue)| queue.drain().collect::<Vec<_>>())
            .collect()
    }

    /// No path is left.
    pub(super) fn lost_paths(&mut self, now: Timestamp) {
        self.without_path_since.get_or_insert(now);
    }

    pub(super) fn has_path(&mut self) {
        self.without_path_since = None;
    }

    /// When the session is given up.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.without_path_since.map(|t| t + self.keep_for)
    }

    /// The session is over.
    pub(super) fn clear(&mut self) {
        self.unresolved.clear();
        self.without_path_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_count_is_forgotten() {
        let mut resume = Resume::new(Duration::from_secs(60));
        resume.peer_is_back();
        assert!(!resume.tell_dead);
        for n in 0..40 {
            resume.note_dead(Dead {
                subflow: SubflowId(n),
                octets: u64::from(n) * 100,
                at: Timestamp::ZERO,
            });
        }
        let dead: Vec<_> = resume.dead().collect();
        assert_eq!(dead.len(), DEAD_COUNTS);
        assert_eq!((dead[0].subflow, dead[0].octets), (SubflowId(8), 800));
        resume.peer_is_back();
        assert!(resume.tell_dead);
    }

    #[test]
    fn what_the_peer_has_is_not_sent_again() {
        let mut resume = Resume::new(Duration::from_secs(60));
        let mut queue = SentQueue::default();
        queue.push(
            100,
            Timestamp::ZERO,
            Timestamp::ZERO,
            &mut vec![SentFrame::MaxData],
        );
        queue.push(
            200,
            Timestamp::ZERO,
            Timestamp::ZERO,
            &mut vec![SentFrame::MaxStreams],
        );
        resume.keep_unresolved(SubflowId(1), queue);
        assert_eq!(resume.resolve(SubflowId(2), 500), []);
        assert_eq!(resume.resolve(SubflowId(1), 150), [SentFrame::MaxData]);
        assert_eq!(resume.take_lost(), [SentFrame::MaxStreams]);
        assert_eq!(resume.take_lost(), []);
    }

    #[test]
    fn a_session_is_kept_from_the_moment_it_has_no_path() {
        let mut resume = Resume::new(Duration::from_secs(60));
        assert_eq!(resume.deadline(), None);
        resume.lost_paths(Timestamp::from_millis(1_000));
        resume.lost_paths(Timestamp::from_millis(9_000));
        assert_eq!(resume.deadline(), Some(Timestamp::from_millis(61_000)));
        resume.has_path();
        assert_eq!(resume.deadline(), None);
    }
}
