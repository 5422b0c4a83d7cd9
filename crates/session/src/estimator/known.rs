//! What is known of a path when a connection over it ends: the next one begins with it.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::average::Average;
use super::{Estimator, FORGET_AFTER};

/// A round trip of a new connection that is less than one half or more than ten times the one
/// before is that of another network (draft-ietf-tsvwg-careful-resume, section 3.2).
const LESS: u32 = 2;
const MORE: u32 = 10;

/// Rates of the hops of a path, and the least round-trip time of the near one. They are as old as
/// their instants say, and not used for longer than those of a connection that lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knowledge {
    near: Average,
    near_measured: bool,
    near_rtt: Duration,
    far: Option<Average>,
    pace: Option<Average>,
}

impl Knowledge {
    /// When it was measured last.
    pub(crate) fn at(&self) -> Timestamp {
        let all = [Some(self.near), self.far, self.pace];
        let instants = all.into_iter().flatten().map(|average| average.at);
        instants.max().unwrap_or_default()
    }
}

impl Estimator {
    /// What is known of the path, if it has shown a rate. Where helpers are known by their reports
    /// alone, as published, nothing is known of paths through them.
    pub(crate) fn knowledge(&self) -> Option<Knowledge> {
        let near = self.near.filter(|_| self.path.min_rtt > Duration::ZERO)?;
        let shown = self.near_measured || self.far.is_some() || self.pace.is_some();
        (shown && !self.by_reports).then_some(Knowledge {
            near,
            near_measured: self.near_measured,
            near_rtt: self.path.min_rtt,
            far: self.far,
            pace: self.pace,
        })
    }

    /// Begins with what a connection over the same path has shown, once its first round trip is
    /// known.
    pub(crate) fn remember(&mut self, known: Knowledge) {
        if !self.by_reports {
            self.remembered = Some(known);
        }
    }

    /// The kernel has measured the first round trip: that of the path as it was, or of another
    /// network.
    pub(super) fn recall(&mut self, now: Timestamp, rtt: Duration) {
        let Some(known) = self.remembered.take() else {
            return;
        };
        if rtt < known.near_rtt / LESS || rtt > known.near_rtt * MORE {
            return;
        }
        let is_new = |average: &Average| now.since(average.at) < FORGET_AFTER;
        if is_new(&known.near) {
            self.near = Some(known.near);
            self.near_measured = known.near_measured;
        }
        self.far = self.far.or(known.far.filter(is_new));
        self.pace = self.pace.or(known.pace.filter(is_new));
    }
}
