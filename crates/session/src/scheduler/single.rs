//! One subflow as long as it exists.

use mpbond_units::Timestamp;

use super::decision::{Backlog, Decision, Scheduler, SubflowView, wait};
use crate::SubflowId;

/// One subflow carries everything: the first to join, and when it is gone the first of those left.
#[derive(Default, Debug)]
pub struct Single {
    chosen: Option<SubflowId>,
}

impl Scheduler for Single {
    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], _: Backlog) -> Decision {
        let chosen = subflows
            .iter()
            .find(|s| Some(s.id) == self.chosen)
            .or_else(|| subflows.first());
        self.chosen = chosen.map(|s| s.id);
        match chosen {
            Some(s) if s.idle => Decision::Send(s.id),
            _ => wait(now),
        }
    }
}
