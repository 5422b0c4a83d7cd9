//! Paths that the policy lets a connection use.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::LinkState as ManagerState;
use mpbond_policy::{Admission, Device, LinkState, Phase, Refusal};
use mpbond_session::PathSet;
use tracing::warn;

use super::rules::Ruling;
use super::state::Primary;
use crate::policy::{InForce, Reading, device, link_state};

/// Whether a new connection may use a path that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permitted {
    /// It may.
    Now,
    /// Not now; it is worth waiting for such a path this long.
    After(Duration),
    /// It may not, for this reason.
    Never(&'static str),
}

impl Primary {
    /// Facts of this device, with this state of its batteries.
    pub(super) fn device(&self, batteries: Reading) -> Device {
        Device {
            spent_budgets: self.spent_budgets(),
            ..device(batteries, self.link_states())
        }
    }

    /// State of the links that are configured, and are not off.
    pub(super) fn link_states(&self) -> Vec<LinkState> {
        let manager = self.manager.borrow();
        let links = self.links.borrow().all();
        let state = links.iter().map(|(id, link)| {
            let works = matches!(manager.link(*id), Some(ManagerState::Up));
            LinkState {
                charge: self.limits.charge(link.name()),
                cap_reached: self.limits.is_reached(link.name()),
                ..link_state(link.name(), works)
            }
        });
        state.collect()
    }

    /// Whether a new connection with this ruling may use a path that works.
    pub(super) fn permitted(&self, ruling: &Ruling) -> Permitted {
        let has_reason = ruling.is_restricted() || ruling.may_wait() || ruling.budget().is_some();
        if !has_reason && !self.limits.exclude() {
            return Permitted::Now;
        }
        match ruling.admission(&self.device(Reading::default())) {
            Admission::Now => Permitted::Now,
            Admission::Wait(delay) => Permitted::After(delay),
            Admission::Refused(Refusal::BudgetSpent) => {
                Permitted::Never("the budget of its rule is used up")
            }
            // Where no path works at all, it is up to `on_proxy_loss`.
            Admission::Refused(Refusal::Rule | Refusal::NoLink)
                if !ruling.is_restricted() && !self.limits.exclude() =>
            {
                Permitted::Now
            }
            Admission::Refused(Refusal::Rule | Refusal::NoLink) => {
                Permitted::Never("no path that it may use works")
            }
        }
    }

    /// The paths that a connection with this ruling may use, also those that do not work now.
    pub(super) fn paths_for(&self, ruling: &Ruling, phase: Phase) -> PathSet {
        if !ruling.is_restricted() && !self.limits.exclude() {
            return PathSet::ALL;
        }
        let current = self.policy.borrow().as_ref().map(Rc::clone);
        let current: Option<&InForce> = current.as_deref();
        let links = self.link_states();
        let usable = links.iter().filter(|l| ruling.may_use(current, l, phase));
        let usable = usable.map(|link| &*link.name);
        self.links.borrow().paths(usable)
    }

    /// Tells sessions the paths that open connections may use, where these have changed.
    pub(super) fn apply_paths(&self) {
        let mut known: HashMap<_, PathSet> = HashMap::new();
        for (session, stream, ruling) in self.flows.carried_now() {
            let new = || self.paths_for(&ruling, Phase::Open);
            let paths = *known.entry(ruling.key()).or_insert_with(new);
            if let Err(error) = session.set_paths(stream, paths) {
                warn!(%stream, %error, "the paths of a connection stay as they were");
            }
        }
    }
}
