use mpbond_units::Timestamp;

use super::{Backlog, Decision, Scheduler, SubflowView, idle, wait};

/// The idle subflow with the least round-trip time of its near hop: Multipath TCP's default, and
/// the paper's MPBond-Naive. It knows nothing of pipes and helper buffers.
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
