//! The radio of a subflow's link that is farther from the primary's user: a helper's own one.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::least_burst::LeastBurst;

/// Maximum age of a report on a helper's radio that is used.
const DOWNLINK_KNOWN: Duration = Duration::from_millis(500);

/// What a session knows of the radio that a helper's subflow wakes.
#[derive(Debug, Default)]
pub(crate) struct Radio {
    /// The helper's last report on its own link, which knows better than the pipe.
    pub(crate) downlink: Option<HelperDownlink>,
    /// Bursts of this end that it is woken for; without it, all are.
    pub(crate) least_burst: Option<LeastBurst>,
    /// Client: the same for the peer's bursts, which ADMIT tells it.
    pub(crate) for_peer: Option<LeastBurst>,
    /// Number of the last change: written by a client, read by a server.
    pub(crate) change: u64,
    /// It is to be left asleep now: the burst is not worth its joules, and others work.
    pub(crate) rests: bool,
}

/// A helper's own link, by its last report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HelperDownlink {
    /// Time since a byte had come down it when the report came.
    pub(crate) quiet: Duration,
    /// When the report came.
    pub(crate) read_at: Timestamp,
}

impl Radio {
    /// Time since a byte came down the helper's own link, if a recent report says.
    pub(crate) fn downlink_quiet(&self, now: Timestamp) -> Option<Duration> {
        let known = |link: &HelperDownlink| now.since(link.read_at) < DOWNLINK_KNOWN;
        let link = self.downlink.filter(known)?;
        Some(link.quiet + now.since(link.read_at))
    }
}
