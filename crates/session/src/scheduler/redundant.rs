use mpbond_units::Timestamp;

use super::{Backlog, Decision, Scheduler, SubflowView, idle, wait};

/// New bytes go to the idle subflow with the least PAD; the session then copies every byte to
/// every other subflow as it becomes idle. Least delay and no gaps, for as many times the bytes
/// as there are subflows.
#[derive(Debug)]
pub struct Redundant;

impl Scheduler for Redundant {
    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], _: Backlog) -> Decision {
        match idle(subflows).min_by_key(|s| s.pad) {
            Some(s) => Decision::Send(s.id),
            None => wait(now),
        }
    }

    fn duplicates(&self) -> bool {
        true
    }
}
