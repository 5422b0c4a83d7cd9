//! Links of which others than this session have a part: where they go first, its bulk data waits
//! while they keep the link busy.

use mpbond_units::{BitRate, Timestamp};

use crate::SubflowId;
use crate::session::Session;
use crate::session::order::{Group, RANKS};
use crate::subflow::{OthersFirst, Subflow};

impl Session {
    /// Sets what others that go first have on the link of a subflow, the one that leaves this end.
    /// While they keep the link busy, the subflow takes new bytes of bulk and background streams at
    /// the least rate only.
    pub fn set_others_first(&mut self, id: SubflowId, first: OthersFirst) {
        if let Some(s) = self.subflows.by_id_mut(id) {
            s.giving_way.set(first);
        }
    }

    /// Rate of the link of a subflow that leaves this end, as estimated.
    pub fn link_rate(&self, now: Timestamp, id: SubflowId) -> BitRate {
        let s = self.subflows.by_id(id);
        s.map_or(BitRate::ZERO, |s| s.estimator.near_throughput(now))
    }

    /// Octets of a subflow on the link that leaves this end, waiting or on their way; none of one
    /// that has potentially failed.
    pub fn octets_on_link(&self, now: Timestamp, id: SubflowId) -> u64 {
        let works = self.subflows.by_id(id).filter(|s| s.works());
        works.map_or(0, |s| s.estimator.b_near(now, s.tx.octets))
    }

    /// Stream bytes that a subflow has been given so far, with copies; none of one that is gone.
    pub fn given_bytes(&self, id: SubflowId) -> u64 {
        let s = self.subflows.by_id(id);
        s.map_or(0, |s| s.counters.bytes_out)
    }

    /// Whether stream bytes wait that a subflow may carry now, as far as paths of streams and the
    /// peer's windows go.
    pub fn waits_for(&self, id: SubflowId) -> bool {
        let ready = &self.streams.ready;
        let credit = self.flow.credit();
        let has_bytes = |group: &Group| {
            group.retransmit > 0
                || group.unscheduled > 0 && self.streams.credit_for(group.paths(), credit) > 0
        };
        self.subflows.by_id(id).is_some_and(|s| {
            s.works()
                && ready.waits_before_on(RANKS, s.path)
                && ready.open_on(s.path).any(has_bytes)
        })
    }

    /// Stream bytes that applications have written here so far, without those that went with a
    /// stream that was reset.
    pub fn demanded_bytes(&self) -> u64 {
        // Bytes to be sent again have been counted.
        let new = |group: &Group| group.unscheduled.saturating_sub(group.retransmit);
        let new: u64 = self.streams.ready.all().map(new).sum();
        self.stats.first_bytes_out() + new
    }

    /// Bytes that no subflow has been given yet, and those to be sent again; without those of
    /// streams whose paths are all down.
    pub fn unparked_bytes(&self) -> u64 {
        self.streams.unscheduled()
    }

    /// Rate of the own paths of the primary together, as estimated.
    pub fn own_rate(&self, now: Timestamp) -> BitRate {
        let own = |s: &&Subflow| s.is_direct() && s.is_regular() && s.works();
        let rates = self
            .subflows
            .iter()
            .filter(own)
            .map(|s| s.throughput(now).bps());
        BitRate::from_bps(rates.fold(0, u64::saturating_add))
    }
}
