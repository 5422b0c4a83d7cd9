//! Express subflows: what the reader waits for passes by what a helper holds (ADR 0011).
//!
//! A helper that runs ahead of its pipe holds a second and more of bytes. Copies of what a silent or
//! lost path owes would lie behind all of them. An express is a second subflow through the same
//! helper that carries nothing else, so that nothing lies before its bytes but the queues of links.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::transmit::Share;
use super::{Session, SubflowError};
use crate::subflow::{Owed, Phase, Subflow};
use crate::{CloseCode, StreamClass, SubflowId};

/// An express is used where it delivers sooner than every regular subflow by this much: below that
/// the application notices nothing, and a helper's pipe is left to its store.
const EXPRESS_GAIN: Duration = Duration::from_millis(100);

/// What an express may have at its helper, in time: its bytes shall not wait for each other.
const EXPRESS_AHEAD: Duration = Duration::from_millis(200);

/// Streams that are looked at for something urgent, of each class.
const GLANCE: usize = 64;

impl Session {
    /// The express that takes what is to be sent again now, if any of it should not wait for a
    /// regular subflow; and the regular one through the same helper.
    fn urgent_subflow(&self, now: Timestamp) -> Option<(usize, SubflowId)> {
        if self.again == 0 || !self.scheduler.minds_delay() {
            return None;
        }
        let takes = |s: &Subflow| {
            let (sent, acked) = (s.tx_octets, s.acked_octets);
            s.room > 0
                && !s.estimator.near_is_full(now, sent)
                && !s
                    .estimator
                    .far_is_full(now, sent, acked, Some(EXPRESS_AHEAD))
        };
        let mut subflows = self.subflows.iter().enumerate();
        subflows.find_map(|(i, s)| Some((i, self.passed_by(now, s).filter(|_| takes(s))?)))
    }

    /// The subflow that an express passes by, if it would deliver well before every regular one
    /// that works.
    fn passed_by(&self, now: Timestamp, express: &Subflow) -> Option<SubflowId> {
        if !express.express || express.phase != Phase::Up || express.suspect.is_some() {
            return None;
        }
        let way = self.config.buffer_delay;
        let pad = |s: &Subflow| s.estimator.pad(now, s.tx_octets, s.acked_octets, way);
        let works = |s: &&Subflow| {
            s.carries() && !s.backup && !s.express && s.suspect.is_none() && s.doubts == 0
        };
        let regular = || self.subflows.iter().filter(works);
        // Without the other one, or where that has gone silent, its helper or their pipe has.
        let other = regular().find(|s| s.helper == express.helper)?;
        let least = regular().map(pad).min()?;
        (least > pad(express) + EXPRESS_GAIN).then_some(other.id)
    }

    /// How many subflows there may be where one more joins, or opens the session: expresses leave
    /// half of the places to paths.
    pub(super) fn places_for(&self, express: bool, opens: bool) -> Result<usize, SubflowError> {
        match express {
            true if opens => Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "an express opens no session",
            )),
            true => Ok(self.config.max_subflows / 2),
            false => Ok(self.config.max_subflows),
        }
    }

    /// Whether feedback and the like rather wait for a regular subflow than to go over an express,
    /// whose radio may be at rest.
    pub(super) fn spares_expresses(&self) -> bool {
        let works = |s: &Subflow| s.carries() && !s.express && s.suspect.is_none();
        self.subflows.iter().any(works)
    }

    /// Whether an express carries what is urgent past this subflow.
    pub(super) fn is_passed_by(&self, now: Timestamp, i: usize) -> bool {
        let id = self.subflows[i].id;
        self.again > 0
            && self.scheduler.minds_delay()
            && self
                .subflows
                .iter()
                .any(|s| self.passed_by(now, s) == Some(id))
    }

    /// Fills a record with what the reader waits for, if an express is to take it; tells which.
    pub(super) fn put_urgent(
        &mut self,
        now: Timestamp,
        out: &mut Vec<u8>,
        owed: &mut Vec<Owed>,
    ) -> Option<usize> {
        let (i, other) = self.urgent_subflow(now)?;
        let on: SubflowId = self.subflows[i].id;
        let limit = self.record_limit(now, i);
        for class in [StreamClass::Interactive, StreamClass::Bulk] {
            let queue = &self.ready[super::queue_of(class)];
            let ids: Vec<_> = queue.iter().take(GLANCE).copied().collect();
            for id in ids {
                self.put_stream(now, i, (on, Share::Urgent(other)), id, out, limit, owed);
            }
        }
        (!out.is_empty()).then_some(i)
    }
}
