//! Which helpers' radios are left asleep (ADR 0035).
//!
//! Size and end of a burst are not known. It begins on what is awake. A subflow whose radio would
//! have to be woken joins in once the bytes that were sent, and those that wait, are as many as its
//! [`LeastBurst`] says. A burst that turns out shorter would not have been worth it; with a longer
//! one, no more was spent before than waking costs (ski rental). Nothing waits for joules: where no
//! other subflow works, it carries what there is.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::Session;
use super::error::SubflowError;
use super::order::RANKS;
use crate::least_burst::LeastBurst;
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
        s.radio.least_burst = Some(own);
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
    pub(super) fn take_admit(
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
        let rests = |s: &Subflow| {
            let quiet = || self.radio_quiet(now, s);
            let least = s.radio.least_burst;
            least.is_some_and(|least| burst < least.size(background, quiet()))
        };
        let mut resting: Vec<bool> = self.subflows.iter().map(rests).collect();
        let awake = self.subflows.iter().zip(&resting);
        let makes_progress = |s: &Subflow| {
            let standing = s.health.standing();
            s.carries() && s.is_regular() && matches!(standing, Standing::Active | Standing::Probed)
        };
        if !awake
            .into_iter()
            .any(|(s, rests)| !rests && makes_progress(s))
        {
            resting.fill(false);
        }
        for (s, rests) in self.subflows.iter_mut().zip(resting) {
            s.radio.rests = rests;
        }
    }

    /// Bytes of the burst as far as it is known; none where nothing is under way.
    fn burst_bytes(&self) -> u64 {
        if self.streams.held_open() == 0 {
            return 0;
        }
        let sent = self.stats.bytes_out - self.reinjection.sent_before;
        sent + self.streams.unscheduled_in_all()
    }

    /// Whether all that waits is of the class background; where nothing waits, what is under way.
    fn only_background(&self) -> bool {
        let ready = &self.streams.ready;
        if self.streams.has_ready() {
            return !ready.waits_before(BACKGROUND);
        }
        let mut owed = self.subflows.iter().filter_map(|s| s.tx.owed_rank());
        owed.any(|rank| rank == BACKGROUND)
    }

    /// Time since a radio's last packet: those of other subflows through the helper count.
    fn radio_quiet(&self, now: Timestamp, s: &Subflow) -> Duration {
        let shares = |o: &&Subflow| o.id == s.id || (o.helper.is_some() && o.helper == s.helper);
        let all = self.subflows.iter().filter(shares).map(|s| s.quiet(now));
        all.min().unwrap_or(Duration::MAX)
    }
}
