//! The session's subflows, as far as the manager has to know them.

use std::net::IpAddr;
use std::time::Duration;

use mpbond_session::{IDLE_LONG, SubflowId, SubflowState, SubflowStats};
use mpbond_units::Timestamp;

/// State of a subflow, read from the session.
#[derive(Clone, Copy, Debug)]
pub struct SubflowFacts {
    /// The subflow.
    pub id: SubflowId,
    /// It is silent, and other subflows take over.
    pub silent: bool,
    /// When stream bytes were last sent or received on it.
    pub last_moved: Option<Timestamp>,
    /// Octets of ciphertext that have arrived, in both directions.
    pub octets: u64,
    /// When the last record arrived on it.
    pub heard: Timestamp,
    /// When an acknowledgement last came, or this end began to owe something after a pause.
    pub progress: Timestamp,
    /// How long nothing had come or gone on it when this end last began to owe something; zero once
    /// some of that is acknowledged.
    pub idle_before: Duration,
    /// Longest idle time after which an acknowledgement came.
    pub idle_survived: Duration,
}

impl From<&SubflowStats> for SubflowFacts {
    fn from(s: &SubflowStats) -> Self {
        Self {
            id: s.id,
            silent: s.state == SubflowState::PotentiallyFailed,
            last_moved: s.last_in.max(s.last_out),
            octets: s.octets,
            heard: s.heard,
            progress: s.progress,
            idle_before: s.idle_before,
            idle_survived: s.idle_survived,
        }
    }
}

/// A silence after a longer idle time is the work of a NAT. A primary that only receives asks after
/// 5 s, which is none.
const REST: Duration = Duration::from_secs(10);

/// A connection over which records still come is not replaced: acknowledgements of what goes the
/// other way may lie behind all that a helper holds. Longer than the pauses within a transfer.
const QUIET: Duration = Duration::from_millis(250);

#[derive(Debug)]
struct Subflow {
    id: SubflowId,
    local: Option<IpAddr>,
    /// The proxy has answered on it.
    answered: bool,
    silent: bool,
    last_moved: Option<Timestamp>,
    octets: u64,
    heard: Timestamp,
    progress: Timestamp,
    idle_before: Duration,
    idle_survived: Duration,
}

/// All subflows that have a connection.
#[derive(Debug, Default)]
pub(crate) struct Subflows {
    list: Vec<Subflow>,
}

impl Subflows {
    pub(crate) fn add(&mut self, id: SubflowId, local: Option<IpAddr>) {
        self.list.push(Subflow {
            id,
            local,
            answered: false,
            silent: false,
            last_moved: None,
            octets: 0,
            heard: Timestamp::ZERO,
            progress: Timestamp::ZERO,
            idle_before: Duration::ZERO,
            idle_survived: Duration::ZERO,
        });
    }

    pub(crate) fn remove(&mut self, id: SubflowId) {
        self.list.retain(|s| s.id != id);
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    pub(crate) fn answered(&mut self, id: SubflowId) {
        if let Some(s) = self.list.iter_mut().find(|s| s.id == id) {
            s.answered = true;
        }
    }

    pub(crate) fn update(&mut self, facts: &[SubflowFacts]) {
        for s in &mut self.list {
            if let Some(f) = facts.iter().find(|f| f.id == s.id) {
                s.silent = f.silent;
                s.last_moved = f.last_moved;
                s.octets = f.octets;
                s.heard = f.heard;
                s.progress = f.progress;
                s.idle_before = f.idle_before;
                s.idle_survived = f.idle_survived;
            }
        }
    }

    fn get(&self, id: SubflowId) -> Option<&Subflow> {
        self.list.iter().find(|s| s.id == id)
    }

    /// Whether one that was silent at `since` goes on: a record has arrived on it. Counts of an ACK
    /// that another one brought may be late news.
    pub(crate) fn goes_on(&self, id: SubflowId, since: Timestamp) -> bool {
        self.get(id).is_some_and(|s| !s.silent && s.heard > since)
    }

    pub(crate) fn has_answered(&self, id: SubflowId) -> bool {
        self.get(id).is_some_and(|s| s.answered)
    }

    /// Idle time before its silence, and the longest that it survived.
    pub(crate) fn idle_times(&self, id: SubflowId) -> (Duration, Duration) {
        let s = self.get(id);
        s.map_or_else(Default::default, |s| (s.idle_before, s.idle_survived))
    }

    /// Whether its silence has nothing to do with an idle time, and the octets that had arrived.
    pub(crate) fn stuck_after(&self, id: SubflowId) -> Option<u64> {
        let s = self.get(id).filter(|s| s.idle_before < REST)?;
        Some(s.octets)
    }

    /// When another connection is to be made beside one that has answered, if it fell silent after
    /// an idle time, or nothing else works. For as long as `pause` its link may say nothing though
    /// it works.
    pub(crate) fn another_at(&self, id: SubflowId, pause: Duration) -> Option<Timestamp> {
        let s = self.get(id).filter(|s| s.answered && s.silent)?;
        let needed = s.idle_before >= IDLE_LONG || !self.any_works();
        needed.then(|| (s.heard + QUIET).max(s.progress + pause))
    }

    /// Whether there is a connection at all, silent ones included.
    pub(crate) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// Whether the proxy has answered on one that is not silent.
    pub(crate) fn any_works(&self) -> bool {
        self.list.iter().any(|s| s.answered && !s.silent)
    }

    /// Whether the proxy has answered on one over which records come now, silent or not.
    pub(crate) fn any_hears(&self, now: Timestamp) -> bool {
        let hears = |s: &Subflow| s.answered && now.since(s.heard) <= QUIET;
        self.list.iter().any(hears)
    }

    pub(crate) fn any_silent(&self) -> bool {
        self.list.iter().any(|s| s.silent)
    }

    /// Time since stream bytes moved on a subflow, if they ever did.
    pub(crate) fn idle(&self, id: SubflowId, now: Timestamp) -> Option<Duration> {
        let s = self.get(id)?;
        Some(now.since(s.last_moved?))
    }

    /// Time since anything came or went on a subflow, as far as is known.
    pub(crate) fn rested(&self, id: SubflowId, now: Timestamp) -> Duration {
        let s = self.get(id).filter(|s| s.heard > Timestamp::ZERO);
        let last = |s: &Subflow| s.heard.max(s.last_moved.unwrap_or_default());
        s.map_or(Duration::ZERO, |s| now.since(last(s)))
    }

    /// The own address from which a subflow's connection runs.
    pub(crate) fn local(&self, id: SubflowId) -> Option<IpAddr> {
        self.get(id)?.local
    }
}
