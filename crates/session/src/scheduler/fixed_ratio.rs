//! Fixed shares of the bytes for the direct subflows and for helpers.

use mpbond_units::Timestamp;

use super::decision::{Backlog, Decision, Scheduler, SubflowView, idle, wait};
use crate::SubflowId;

/// A fixed share of the bytes over direct subflows, the rest through helpers, whatever the links
/// do: the instrument of MPBond section 6.2, not a scheduler for use.
///
/// Where no subflow runs through a helper's relay, the first one that joined counts as direct, and
/// the others as if they ran through helpers: so do those of helpers that only forward packets.
#[derive(Debug)]
pub struct FixedRatio {
    direct_share: f64,
    direct_bytes: f64,
    helper_bytes: f64,
    chosen_is_direct: bool,
}

impl FixedRatio {
    /// `direct` is the share over direct subflows, clamped to 0 to 1.
    pub fn new(direct: f64) -> Self {
        Self {
            direct_share: direct.clamp(0.0, 1.0),
            direct_bytes: 0.0,
            helper_bytes: 0.0,
            chosen_is_direct: true,
        }
    }
}

impl Scheduler for FixedRatio {
    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], backlog: Backlog) -> Decision {
        let relayed = subflows.iter().any(|s| s.helper.is_some());
        let first = subflows.iter().map(|s| s.id).min();
        let is_direct = |s: &SubflowView| match relayed {
            true => s.helper.is_none(),
            false => Some(s.id) == first,
        };
        let both = subflows.iter().any(is_direct) && !subflows.iter().all(is_direct);
        // Of all that there is so far each side takes its share as fast as it can: a helper that is
        // ahead of its pipe is what the section is about. One side is always due.
        let all = self.direct_bytes + self.helper_bytes + backlog.unscheduled_bytes as f64;
        let direct_due = self.direct_bytes < self.direct_share * all;
        let helper_due = self.helper_bytes < (1.0 - self.direct_share) * all || !direct_due;
        let due = |s: &SubflowView| if is_direct(s) { direct_due } else { helper_due };
        let side = |s: &&SubflowView| !both || due(s);
        match idle(subflows).filter(side).min_by_key(|s| s.pad) {
            Some(s) => {
                self.chosen_is_direct = is_direct(s);
                Decision::Send(s.id)
            }
            None => wait(now),
        }
    }

    /// A share is a share, also of a link that pauses.
    fn heeds_silence(&self) -> bool {
        false
    }

    fn sent(&mut self, _subflow: SubflowId, bytes: u64) {
        if self.chosen_is_direct {
            self.direct_bytes += bytes as f64;
        } else {
            self.helper_bytes += bytes as f64;
        }
    }
}
