//! All bytes over all subflows.

use mpbond_units::Timestamp;

use super::decision::{Backlog, Decision, Scheduler, SubflowView, idle, wait};

/// Every idle subflow carries every byte that has not been acknowledged by then, in order, the
/// subflow with the least PAD first. Least delay and no gaps, at the pace of the fastest subflow
/// and for up to as many times the bytes as there are subflows.
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
