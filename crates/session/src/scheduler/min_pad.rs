//! The subflow with the least PAD.

use mpbond_units::Timestamp;

use super::decision::{Backlog, Decision, Scheduler, SubflowView, idle, wait};

/// The idle subflow with the least PAD; never defers while one is idle (MPBond section
/// 4.3.3, "minPAD").
#[derive(Debug)]
pub struct MinPad;

impl Scheduler for MinPad {
    fn minds_delay(&self) -> bool {
        true
    }

    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], _: Backlog) -> Decision {
        match idle(subflows).min_by_key(|s| s.pad) {
            Some(s) => Decision::Send(s.id),
            None => wait(now),
        }
    }
}
