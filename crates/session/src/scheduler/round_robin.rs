//! Idle subflows in turn.

use mpbond_units::Timestamp;

use super::decision::{Backlog, Decision, Scheduler, SubflowView, idle, wait};
use crate::SubflowId;

/// Idle subflows in turn, by number.
#[derive(Default, Debug)]
pub struct RoundRobin {
    last: Option<SubflowId>,
}

impl Scheduler for RoundRobin {
    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], _: Backlog) -> Decision {
        let after_last = idle(subflows)
            .filter(|s| Some(s.id) > self.last)
            .min_by_key(|s| s.id);
        match after_last.or_else(|| idle(subflows).min_by_key(|s| s.id)) {
            Some(s) => Decision::Send(s.id),
            None => wait(now),
        }
    }

    fn sent(&mut self, subflow: SubflowId, _bytes: u64) {
        self.last = Some(subflow);
    }
}
