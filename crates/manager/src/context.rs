//! The state that all parts of a manager share while an input is handled.

use std::collections::VecDeque;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::action::{Action, Notice, Target};
use crate::ids::DialId;
use crate::subflows::Subflows;

/// The present instant, the session's state, and the actions decided so far.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) now: Timestamp,
    /// There is a session to which subflows can be added.
    pub(crate) session: bool,
    /// The proxy has answered in this session.
    pub(crate) established: bool,
    pub(crate) subflows: Subflows,
    actions: VecDeque<Action>,
    dials: u64,
}

impl Context {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    /// Whether a subflow of an established session works.
    pub(crate) fn works(&self) -> bool {
        self.established && self.subflows.any_works()
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.act(Action::Tell(notice));
    }

    pub(crate) fn dial(&mut self, target: Target) -> DialId {
        self.dials += 1;
        let dial = DialId(self.dials);
        self.act(Action::Dial { dial, target });
        dial
    }

    pub(crate) fn abandon(&mut self, dial: DialId) {
        self.act(Action::Abandon { dial });
    }

    /// Has a subflow closed and forgets it.
    pub(crate) fn drop_subflow(&mut self, subflow: SubflowId, reason: &'static str) {
        self.subflows.remove(subflow);
        self.act(Action::Drop { subflow, reason });
    }
}
