//! The idle subflow with the least round-trip time, as in Multipath TCP.

use mpbond_units::Timestamp;

use super::decision::{Backlog, Decision, Scheduler, SubflowView, idle, wait};

/// The idle subflow with the least round-trip time of its near hop: Multipath TCP's default, and
/// MPBond-Naive in the MPBond paper. It regards neither pipes nor helpers' buffers.
#[derive(Debug)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], _: Backlog) -> Decision {
        match idle(subflows).min_by_key(|s| s.rtt) {
            Some(s) => Decision::Send(s.id),
            None => wait(now),
        }
    }
}
