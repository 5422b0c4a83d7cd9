//! What is known of a path when a connection over it ends: the next one begins with it.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::average::Average;

/// A round trip of a new connection that is less than one half or more than ten times the one
/// before is that of another network (draft-ietf-tsvwg-careful-resume, section 3.2).
const LESS: u32 = 2;
const MORE: u32 = 10;

/// Time after a report that a helper holds bytes back, for which rates are those of its limit:
/// helpers report each 100 ms, and reports wait in the pipe with what it carries.
pub(super) const HELD_BACK_LASTS: Duration = Duration::from_secs(1);

/// Rates of the hops of a path, and the least round-trip time of the near one. They are as old as
/// their instants say, and not used for longer than those of a connection that lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knowledge {
    pub(super) near: Average,
    pub(super) near_measured: bool,
    pub(super) near_rtt: Duration,
    pub(super) far: Option<Average>,
    pub(super) pace: Option<Average>,
}

impl Knowledge {
    /// When it was measured last.
    pub(crate) fn at(&self) -> Timestamp {
        let all = [Some(self.near), self.far, self.pace];
        let instants = all.into_iter().flatten().map(|average| average.at);
        instants.max().unwrap_or_default()
    }

    /// Whether a connection with this first round trip may be in the network that it is of.
    pub(super) fn fits(&self, rtt: Duration) -> bool {
        (self.near_rtt / LESS..=self.near_rtt * MORE).contains(&rtt)
    }
}
