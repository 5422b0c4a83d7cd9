//! Rebalancing where streams have sets of paths.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::takers::Takers;
use super::{Rebalanced, Reinjection, Work};
use crate::PathSet;
use crate::config::RebalanceTrigger;
use crate::copies::Cause;
use crate::session::order::{Group, RANKS};
use crate::subflow::LastFrame;

/// Positions of subflows in the order of their delays. Those that have the same keep theirs.
fn rising(mut delays: Vec<(Duration, usize)>) -> Vec<(Duration, usize)> {
    delays.sort_unstable();
    delays
}

impl Reinjection {
    /// Rebalances the slowest subflow with the fastest one that may carry bytes of it: of streams
    /// whose set has that path, and which have no new bytes that may go.
    pub(super) fn rebalance_sets(
        &self,
        now: Timestamp,
        credit: u64,
        work: &mut Work,
    ) -> Rebalanced {
        let held_off = self.held_off(credit, work);
        let all = || work.subflows.iter().enumerate();
        let slow = all().filter(|(_, s)| s.owes_useful());
        let slow = rising(slow.map(|(i, s)| (s.pad_without_copies(now), i)).collect());
        if slow.is_empty() && held_off.is_empty() {
            return self.carries_only_copies(now, work);
        }
        let fast = all().filter(|(_, s)| s.may_take_over());
        let fast = rising(fast.map(|(i, s)| (s.pad(now), i)).collect());
        for (_, i) in slow.into_iter().rev() {
            for (_, onto) in fast.iter().copied() {
                let (from, to) = (&work.subflows[i], &work.subflows[onto]);
                if !to.may_take_over_from(from) || to.cost > from.cost {
                    continue;
                }
                // The others are slower still.
                let Some((r, gain)) = self.excess(now, from, to, work) else {
                    break;
                };
                let takers = Takers::of(std::iter::once(to));
                let may = |paths| takers.may_carry(paths) && !held_off.contains(&paths);
                let bytes = work.recall(i, r, LastFrame::Whole, Cause::Rebalanced, may);
                if bytes > 0 {
                    return Rebalanced::Recalled {
                        subflow: work.subflows[i].id,
                        bytes,
                        gain,
                    };
                }
            }
        }
        Rebalanced::Nothing
    }

    /// Sets of paths whose streams have new bytes that may go, or any, as [`RebalanceTrigger`]
    /// says.
    fn held_off(&self, credit: u64, work: &Work) -> Vec<PathSet> {
        let streams = &*work.streams;
        let has_new = |group: &Group| {
            let mut ids = (0..RANKS).flat_map(|rank| group.ids_in(rank));
            streams.credit_for(group.paths(), credit) > 0
                && ids.any(|id| streams.get(id).is_some_and(|s| s.send.has_new()))
        };
        let waits = |group: &&Group| {
            group.unscheduled > 0
                && match self.config.trigger {
                    RebalanceTrigger::NothingSendable => has_new(group),
                    RebalanceTrigger::NothingUnscheduled => true,
                }
        };
        streams
            .ready
            .open()
            .filter(waits)
            .map(Group::paths)
            .collect()
    }
}
