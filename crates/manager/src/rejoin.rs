//! Joins of a session that takes no new streams, and of which the manager is told nothing any more.
//!
//! One path is enough for what is open there. When none works, all links are dialled at once, so
//! that those which do not work delay no other.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpbond_session::{SubflowId, SubflowState};
use mpbond_units::Timestamp;

use crate::backoff::Backoff;
use crate::ids::LinkId;
use crate::replacement::REPLACED;

/// Longest pause from the beginning of an attempt over a link to the next one. The device may be
/// without any network for as long as the session lasts.
pub const REJOIN_EVERY: Duration = Duration::from_secs(1);

/// Decides when a session that retires is joined again.
///
/// # Contract
/// * The state of the session goes in by [`handle_state`](Self::handle_state): at the start, after
///   each event of a subflow, after each result of an attempt, and at
///   [`poll_timeout`](Self::poll_timeout).
/// * Actions are then fetched by [`poll_action`](Self::poll_action) until there are none.
/// * Each [`RejoinAction::Dial`] is answered once, by [`handle_joined`](Self::handle_joined) or
///   [`handle_not_joined`](Self::handle_not_joined).
#[derive(Debug, Default)]
pub struct Rejoin {
    links: BTreeMap<LinkId, Link>,
    /// Subflows made here that have a connection.
    made: Vec<SubflowId>,
    /// When a link is dialled next.
    due: Option<Timestamp>,
    actions: VecDeque<RejoinAction>,
}

/// An action of a [`Rejoin`], to be carried out by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejoinAction {
    /// Connect to the proxy over this own path, or through a relay of this pipe.
    Dial {
        /// The own path or pipe.
        link: LinkId,
    },
    /// Close a subflow's connection, though both ends may take it for intact.
    Drop {
        /// The subflow.
        subflow: SubflowId,
        /// Reason, for people.
        reason: &'static str,
    },
}

#[derive(Debug)]
struct Link {
    attempt: Attempt,
    /// Earliest beginning of the next attempt.
    not_before: Timestamp,
    backoff: Backoff,
}

/// The last attempt over a link.
#[derive(Debug)]
enum Attempt {
    Open,
    Joined(SubflowId),
    Failed,
}

impl Rejoin {
    /// Links of the configuration, and subflows of the session, as they stand.
    pub fn handle_state(
        &mut self,
        now: Timestamp,
        links: impl IntoIterator<Item = LinkId>,
        subflows: impl IntoIterator<Item = (SubflowId, SubflowState)>,
    ) {
        let subflows: BTreeMap<_, _> = subflows.into_iter().collect();
        self.made.retain(|id| subflows.contains_key(id));
        self.due = None;
        let works = |state| matches!(state, &SubflowState::Up | &SubflowState::Backup);
        if subflows.values().any(works) {
            self.drop_silent(&subflows);
            return;
        }
        for link in links {
            let known = self.links.entry(link).or_insert(Link {
                attempt: Attempt::Failed,
                not_before: now,
                backoff: Backoff::new(),
            });
            let waits = match known.attempt {
                Attempt::Open => true,
                // The hello is limited by the session.
                Attempt::Joined(id) => subflows.get(&id) == Some(&SubflowState::Joining),
                Attempt::Failed => false,
            };
            if waits {
                continue;
            }
            if known.not_before <= now {
                known.attempt = Attempt::Open;
                known.backoff.lasted(known.not_before, now);
                known.not_before = known.backoff.pause(now).min(now + REJOIN_EVERY);
                self.actions.push_back(RejoinAction::Dial { link });
            } else {
                let due = known.not_before;
                self.due = Some(self.due.map_or(due, |earliest| earliest.min(due)));
            }
        }
    }

    /// Drops the silent ones of those made here: their number would grow where paths come and go.
    fn drop_silent(&mut self, subflows: &BTreeMap<SubflowId, SubflowState>) {
        let is_silent =
            |id: &mut SubflowId| subflows.get(id) == Some(&SubflowState::PotentiallyFailed);
        for subflow in self.made.extract_if(.., is_silent) {
            self.actions.push_back(RejoinAction::Drop {
                subflow,
                reason: REPLACED,
            });
        }
    }

    /// An attempt has succeeded, and the session has the connection as this subflow.
    pub fn handle_joined(&mut self, link: LinkId, subflow: SubflowId) {
        self.made.push(subflow);
        self.ended(link, Attempt::Joined(subflow));
    }

    /// An attempt has failed.
    pub fn handle_not_joined(&mut self, link: LinkId) {
        self.ended(link, Attempt::Failed);
    }

    fn ended(&mut self, link: LinkId, result: Attempt) {
        if let Some(known) = self.links.get_mut(&link) {
            known.attempt = result;
        }
    }

    /// The next action, oldest first.
    pub fn poll_action(&mut self) -> Option<RejoinAction> {
        self.actions.pop_front()
    }

    /// When [`handle_state`](Self::handle_state) is due, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.due
    }
}
