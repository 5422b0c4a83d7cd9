//! Which helpers' radios are left asleep (ADR 0035).
//!
//! Size and end of a burst are not known. It begins on what is awake. A subflow whose radio would
//! have to be woken joins in once the bytes that were sent, that wait, or of which an end was told
//! are as many as its [`LeastBurst`] says. A burst that turns out shorter would not have been worth
//! it; with a longer one, no more was spent before than waking costs (ski rental). Nothing waits
//! for joules: where no other subflow works, it carries what there is.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::least_burst::LeastBurst;
use crate::session::Session;
use crate::session::error::SubflowError;
use crate::session::order::RANKS;
use crate::subflow::{Phase, Standing, Subflow};
use crate::{CloseCode, SubflowId};

/// Rank of streams of the class background.
const BACKGROUND: usize = RANKS - 1;

impl Session {
    /// Client: bursts for which a helper's radio is woken, by this end and by the peer. A peer that
    /// does not know ADMIT uses the subflow for all. It ends with the subflow.
    pub fn set_least_bursts(&mut self, id: SubflowId, own: LeastBurst, peer: LeastBurst) {
        if !self.identity.client {
            return;
        }
        let Some(s) = self.subflows.by_id_mut(id) else {
            return;
        };
        let peer = peer.bounded();
        s.radio.least_burst = Some(own.bounded());
        if s.radio.for_peer != Some(peer) {
            s.radio.for_peer = Some(peer);
            s.radio.change += 1;
            // The peer does not know it before it has answered.
            if s.phase == Phase::Up {
                self.control.admit(id);
            }
        }
    }

    /// Server: the client says for which bursts a helper's radio is woken.
    pub(in crate::session) fn take_admit(
        &mut self,
        id: SubflowId,
        change: u64,
        least: LeastBurst,
    ) -> Result<(), SubflowError> {
        if self.identity.client {
            return Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "only a primary says for which bursts a radio is woken",
            ));
        }
        let later = |s: &&mut Subflow| s.radio.change < change;
        if let Some(s) = self.subflows.by_id_mut(id).filter(later) {
            s.radio.change = change;
            s.radio.least_burst = Some(least);
        }
        Ok(())
    }

    /// Finds out which radios are left asleep as things stand.
    pub(super) fn update_rests(&mut self, now: Timestamp) {
        if !self.subflows.iter().any(|s| s.radio.least_burst.is_some()) {
            return;
        }
        let (burst, background) = (self.burst_bytes(), self.only_background());
        let mut others_work = false;
        for i in 0..self.subflows.len() {
            let s = &self.subflows[i];
            let rests = s.radio.least_burst.is_some_and(|least| {
                let quiet = self.radio_quiet(now, s);
                burst < least.size(background, quiet)
            });
            others_work |= !rests && makes_progress(s);
            self.subflows[i].radio.rests = rests;
        }
        if !others_work {
            for s in self.subflows.iter_mut() {
                s.radio.rests = false;
            }
        }
    }

    /// Bytes of the burst as far as it is known, without copies and parked streams: those that were
    /// sent, those that wait, and those that applications have told of by ends of chunks. None
    /// where nothing is under way.
    fn burst_bytes(&self) -> u64 {
        let streams = &self.streams;
        if streams.held_open() == 0 {
            return 0;
        }
        let sent = self.stats.first_bytes_out() - self.reinjection.first_before;
        sent + streams.unscheduled() - streams.retransmit_bytes() + streams.declared()
    }

    /// Whether all that waits is of the class background; where nothing waits, all that is under
    /// way.
    pub(in crate::session) fn only_background(&self) -> bool {
        let ready = &self.streams.ready;
        if self.streams.has_ready() {
            return !ready.waits_before(BACKGROUND);
        }
        let owed = self.subflows.iter().filter_map(|s| s.tx.first_owed_rank());
        owed.min() == Some(BACKGROUND)
    }

    /// Time since a radio last carried stream bytes: those of other subflows through the helper
    /// count.
    fn radio_quiet(&self, now: Timestamp, s: &Subflow) -> Duration {
        let shares = |o: &&Subflow| o.id == s.id || (o.helper.is_some() && o.helper == s.helper);
        let all = self.subflows.iter().filter(shares);
        let least = all.filter_map(|s| s.radio_quiet(now)).min();
        least.unwrap_or(Duration::MAX)
    }
}

/// Whether a subflow gets through what it is given, as far as is known.
fn makes_progress(s: &Subflow) -> bool {
    let standing = s.health.standing();
    s.carries() && s.is_regular() && matches!(standing, Standing::Active | Standing::Probed)
}
