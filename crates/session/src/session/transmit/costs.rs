//! Roles and costs of subflows: which of those that have room carry data.
//!
//! A path may cost money. The scheduler is shown the subflows of the lowest cost that have room;
//! one of a higher cost carries what they have no room for. Nothing is moved or hedged to one that
//! costs more than the subflow which is late. A silent or lost subflow is helped by all.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::scheduler::SubflowView;
use crate::session::Session;
use crate::session::subflows::Subflows;
use crate::subflow::{Standing, Subflow};
use crate::{Role, SubflowId};

/// Time that bytes may wait for a cheap link, here or at its helper. A burst is larger than what a
/// connection takes at once; a helper takes more than its pipe carries.
const AHEAD: Duration = Duration::from_millis(100);

/// Least number of bytes that may wait: a link that had little to carry has shown a low rate.
const LEAST_AHEAD_BYTES: u64 = 64 << 10;

/// Maximum number of bytes that wait here: of a transfer over fast links, no more may wait.
const MOST_AHEAD_BYTES: u64 = 256 << 10;

impl Session {
    /// Makes a subflow regular or backup, here and at the peer, if it is the other one. An express
    /// stays what it is.
    pub fn set_backup(&mut self, id: SubflowId, backup: bool) {
        let wanted = Role::regular_unless(backup);
        let is_other = |s: &&mut Subflow| !s.is_express() && s.role != wanted;
        if let Some(s) = self.subflows.by_id_mut(id).filter(is_other) {
            s.set_backup(backup);
            self.control.prioritise(id);
        }
    }

    /// Client: sets the step of a subflow's cost, here and at the peer. An express has that of the
    /// regular subflow over its pipe.
    pub fn set_cost(&mut self, id: SubflowId, cost: u8) {
        let is_other = |s: &&mut Subflow| !s.is_express() && s.cost != cost;
        if let Some(s) = self.subflows.by_id_mut(id).filter(is_other) {
            s.cost = cost;
            self.control.prioritise(id);
        }
    }

    /// The peer has changed a subflow. What a client's paths cost is for the client to say.
    pub(in crate::session) fn take_role(&mut self, id: SubflowId, backup: bool, cost: u8) {
        let is_server = !self.identity.client;
        let regular = |s: &&mut Subflow| !s.is_express();
        if let Some(s) = self.subflows.by_id_mut(id).filter(regular) {
            s.set_backup(backup);
            if is_server {
                s.cost = cost;
            }
        }
    }
}

impl Subflows {
    /// Whether one costs more than another.
    pub(super) fn differ_in_cost(&self) -> bool {
        let mut costs = self.iter().map(|s| s.cost);
        let first = costs.next();
        costs.any(|cost| Some(cost) != first)
    }
}

/// Leaves the subflows that cost no more than the cheapest one with room; all, if there is none.
/// It has room for these bytes, which wait, if it is not silent, its helper passes on soon what it
/// holds, and it takes a frame now or will have taken them all soon.
pub(super) fn leave_cheapest(
    now: Timestamp,
    subflows: &Subflows,
    waiting_bytes: Option<u64>,
    views: &mut Vec<SubflowView>,
) {
    let of = |view: &SubflowView| subflows.by_id(view.id);
    let soon = |view: &SubflowView| {
        let bytes = view.throughput.bytes_in(AHEAD);
        let bytes = bytes.clamp(LEAST_AHEAD_BYTES, MOST_AHEAD_BYTES);
        waiting_bytes.is_some_and(|waiting| waiting <= bytes)
    };
    let takes = views.iter().filter(|v| v.idle || soon(v)).filter_map(of);
    let has_room = |s: &&Subflow| {
        let owed_bytes = s.tx.octets.saturating_sub(s.tx.acked);
        let far_is_full = owed_bytes > LEAST_AHEAD_BYTES && s.far_is_full(now, AHEAD);
        s.health.standing() == Standing::Active && !far_is_full
    };
    if let Some(least) = takes.filter(has_room).map(|s| s.cost).min() {
        views.retain(|view| of(view).is_none_or(|s| s.cost <= least));
    }
}
