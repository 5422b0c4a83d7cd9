//! What is known of a path when a connection over it ends: the next one begins with it.

use std::time::Duration;

use super::Estimator;
use super::average::Average;

/// A round trip of a new connection that is less than one half or more than ten times the one before
/// is that of another network (draft-ietf-tsvwg-careful-resume, section 3.2).
const LESS: u32 = 2;
const MORE: u32 = 10;

/// Rates and round-trip times of the hops of a path. They are as old as their instants say, and not
/// used for longer than those of a connection that lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knowledge {
    near: Average,
    near_measured: bool,
    near_rtt: Duration,
    far: Option<Average>,
    pace: Option<Average>,
    far_rtt: Option<Duration>,
}

impl Estimator {
    /// What is known of the path, if it has shown a rate. Where the peer's helpers are known by
    /// reports alone, as published, nothing is.
    pub(crate) fn knowledge(&self) -> Option<Knowledge> {
        let near = self.near.filter(|_| self.path.min_rtt > Duration::ZERO)?;
        let shown = self.near_measured || self.far.is_some() || self.pace.is_some();
        (shown && !self.by_reports).then_some(Knowledge {
            near,
            near_measured: self.near_measured,
            near_rtt: self.path.min_rtt,
            far: self.far,
            pace: self.pace,
            far_rtt: self.far_rtt,
        })
    }

    /// Begins with what a connection over the same path has shown.
    pub(crate) fn remember(&mut self, known: Knowledge) {
        if !self.by_reports {
            self.remembered = Some(known);
        }
    }

    /// The kernel has measured the first round trip: that of the path as it was, or of another
    /// network.
    pub(super) fn recall(&mut self, rtt: Duration) {
        let Some(known) = self.remembered.take() else {
            return;
        };
        if rtt < known.near_rtt / LESS || rtt > known.near_rtt * MORE {
            return;
        }
        self.near = Some(known.near);
        self.near_measured = known.near_measured;
        self.far = self.far.or(known.far);
        self.pace = self.pace.or(known.pace);
        self.far_rtt = self.far_rtt.or(known.far_rtt);
    }
}
