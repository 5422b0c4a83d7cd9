//! Paths that the policy lets a connection use.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::LinkState as ManagerState;
use mpbond_policy::{Admission, Device, LinkState, Multipath, Phase, Refusal};
use mpbond_session::{PathSet, SubflowState};
use tracing::warn;

use super::ruling::Ruling;
use crate::policy::{InForce, Reading, device};
use crate::primary::links::facts::LinkFacts;
use crate::primary::state::Primary;

/// Difference of delays, beyond a quarter, for which a connection that is to have the least one
/// changes its path: less is not noticed, and each change costs a round trip.
const NOTICEABLE: Duration = Duration::from_millis(5);

/// Whether a new connection may use a path that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::primary) enum Permitted {
    /// It may.
    Now,
    /// Not now; it is worth waiting for such a path this long.
    After(Duration),
    /// It may not, for this reason.
    Never(&'static str),
}

impl Primary {
    /// What programs have told of a link.
    pub(in crate::primary) fn facts_of(&self, name: &str) -> LinkFacts {
        self.link_facts.of(self.clock.now(), name)
    }

    /// Facts of this device, with this state of its batteries.
    pub(in crate::primary) fn device(&self, batteries: Reading) -> Device {
        Device {
            spent_budgets: self.spent_budgets(),
            ..device(batteries, self.link_states())
        }
    }

    /// State of the links that are configured, and are not off.
    pub(in crate::primary) fn link_states(&self) -> Vec<LinkState> {
        let manager = self.manager.borrow();
        let links = self.links.borrow().all();
        let state = links.iter().map(|(id, link)| {
            let facts = self.facts_of(link.name());
            LinkState {
                name: link.name().to_owned(),
                works: matches!(manager.link(*id), Some(ManagerState::Up)),
                metered: facts.metered(self.limits.told(*id).metered),
                roaming: facts.roaming(),
                charge: self.limits.charge(link.name()),
                cap_reached: self.limits.is_reached(link.name()),
                is_weak: self.weak_links.is_weak(link.name()),
            }
        });
        state.collect()
    }

    /// Whether a new connection with this ruling may use a path that works.
    pub(in crate::primary) fn permitted(&self, ruling: &Ruling) -> Permitted {
        let has_reason = ruling.is_restricted() || ruling.may_wait() || ruling.budget().is_some();
        if !has_reason && !self.limits.excludes_any() {
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
                if !ruling.is_restricted() && !self.limits.excludes_any() =>
            {
                Permitted::Now
            }
            Admission::Refused(Refusal::Rule | Refusal::NoLink) => {
                Permitted::Never("no path that it may use works")
            }
        }
    }

    /// The paths that a connection is to use, also those that do not work now. `before` are those
    /// that it uses, if it is open.
    pub(in crate::primary) fn paths_for(
        &self,
        ruling: &Ruling,
        multipath: Multipath,
        before: Option<PathSet>,
    ) -> PathSet {
        let is_free = !ruling.is_restricted() && !self.limits.excludes_any();
        if is_free && multipath == Multipath::Aggregate {
            return PathSet::ALL;
        }
        let phase = match before {
            Some(_) => Phase::Open,
            None => Phase::New,
        };
        let current = self.policy.borrow().as_ref().map(Rc::clone);
        let current: Option<&InForce> = current.as_deref();
        let links = self.link_states();
        let usable = links.iter().filter(|l| ruling.may_use(current, l, phase));
        let usable: Vec<&str> = usable.map(|link| &*link.name).collect();
        let one = match multipath {
            Multipath::Aggregate => None,
            Multipath::Handover => self.one_path(&usable, &links, before, false),
            Multipath::Interactive => self.one_path(&usable, &links, before, true),
        };
        match one {
            Some(link) => self.links.borrow().paths([link]),
            None => self.links.borrow().paths(usable),
        }
    }

    /// The link of a connection that uses one path at a time: the one that it uses, while that
    /// works as well as any other; else, or if `follows_delay`, the one with the least delay.
    /// `None` while none works.
    fn one_path<'a>(
        &self,
        usable: &[&'a str],
        states: &[LinkState],
        before: Option<PathSet>,
        follows_delay: bool,
    ) -> Option<&'a str> {
        let policy = self.policy.borrow().clone();
        let behind = policy.map_or_else(Vec::new, |policy| {
            let behind = policy.behind(states);
            behind.into_iter().map(str::to_owned).collect()
        });
        let subflows = self.subflows();
        // Tier and delay of those that work.
        let standing = |name: &&'a str| {
            let of_link = subflows.iter().filter(|s| s.name == *name);
            let working = of_link.filter_map(|s| match s.state {
                SubflowState::Up | SubflowState::Backup => Some((false, s)),
                SubflowState::PotentiallyFailed => Some((true, s)),
                SubflowState::Joining | SubflowState::Express => None,
            });
            let (is_silent, subflow) = working.min_by_key(|(silent, s)| (*silent, s.pad))?;
            let is_backup =
                subflow.state == SubflowState::Backup || behind.iter().any(|other| other == name);
            Some(((is_silent, is_backup), subflow.pad, *name))
        };
        let standings: Vec<_> = usable.iter().filter_map(standing).collect();
        let (tier, delay, best) = standings.iter().min().copied()?;
        let is_used = |name: &str| before == Some(self.links.borrow().paths([name]));
        let stays = standings.iter().find(|(.., name)| is_used(name));
        let stays = stays.filter(|(own_tier, own_delay, _)| {
            let is_slower = *own_delay > delay + delay / 4 + NOTICEABLE;
            *own_tier == tier && !(follows_delay && is_slower)
        });
        Some(stays.map_or(best, |(.., name)| *name))
    }

    /// Tells sessions the paths that open connections are to use, where these have changed.
    pub(in crate::primary) fn apply_paths(&self) {
        let mut known: HashMap<_, PathSet> = HashMap::new();
        for flow in self.flows.carried_now() {
            let Some(before) = flow.paths() else { continue };
            let (ruling, multipath) = (flow.ruling(), flow.multipath());
            let paths = match multipath {
                Multipath::Aggregate => {
                    let new = || self.paths_for(ruling, multipath, Some(before));
                    *known.entry(ruling.key()).or_insert_with(new)
                }
                _ => self.paths_for(ruling, multipath, Some(before)),
            };
            if paths != before
                && let Err(error) = flow.set_paths(paths)
            {
                warn!(%error, "the paths of a connection stay as they were");
            }
        }
    }
}
