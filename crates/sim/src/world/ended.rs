//! A session that has ended, and from which applications still read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpbond_session::Session;
use mpbond_units::Timestamp;

use super::host::Side;

/// Time after which an application that reads nothing is given up, as a connection of a daemon.
const STALLS_WITHIN: Duration = Duration::from_secs(240);

/// A session that has ended, and is still read from.
pub(super) struct Ended {
    pub(super) side: Side,
    /// Proxy: number of its process.
    pub(super) process: u32,
    pub(super) number: u64,
    pub(super) session: Session,
    pub(super) ended: Timestamp,
    /// When exchanges last read.
    pub(super) taken: BTreeMap<usize, Timestamp>,
    /// Exchanges that are given up.
    pub(super) given_up: BTreeSet<usize>,
}

impl Ended {
    /// When an exchange that reads nothing is given up.
    pub(super) fn stalls_at(&self, e: usize) -> Timestamp {
        *self.taken.get(&e).unwrap_or(&self.ended) + STALLS_WITHIN
    }
}
