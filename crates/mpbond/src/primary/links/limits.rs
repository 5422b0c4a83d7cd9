//! State of the limits of links by the policy: caps, budgets of rules, and floors of batteries.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;

use mpbond_manager::LinkId;
use mpbond_policy::{Battery, Charge, Supply};
use mpbond_units::{BitRate, Timestamp};
use tokio::sync::Notify;

use super::spaced::Spaced;
use crate::pricing::LIMIT_HOLDS;
use crate::usage::{Budgets, Capped, InterfaceBytes, Usage};

/// What excludes links for all connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Excluded {
    /// Links whose caps are used up.
    pub(super) used_up: BTreeSet<String>,
    /// Links whose devices' batteries are below their floors.
    pub(super) low: BTreeMap<String, Charge>,
}

/// What a helper has told of its device.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::primary) struct Told {
    /// Its battery.
    pub(in crate::primary) battery: Supply,
    /// Whether the link that it lends is metered.
    pub(in crate::primary) metered: Option<bool>,
    /// Bytes left of its monthly budget.
    pub(in crate::primary) bytes_left: Option<u64>,
    /// Limits of its relays, down and up, and when they were reported.
    limits: ([Option<BitRate>; 2], Timestamp),
}

impl Told {
    /// Limits of its relays now, down and up; none once nothing has been reported for a second.
    pub(in crate::primary) fn limits(&self, now: Timestamp) -> [Option<BitRate>; 2] {
        let (limits, at) = self.limits;
        match now.since(at) < LIMIT_HOLDS {
            true => limits,
            false => [None; 2],
        }
    }
}

/// State of the limits of links. For use on one thread.
pub(in crate::primary) struct Limits {
    pub(in crate::primary) usage: RefCell<Usage>,
    pub(super) interfaces: InterfaceBytes,
    /// Bytes that sessions had moved over each link at the last look, by its name.
    pub(super) seen: RefCell<HashMap<String, u64>>,
    /// Links whose caps are used up.
    pub(super) reached: RefCell<BTreeSet<String>>,
    /// Budgets of rules.
    pub(super) budgets: RefCell<Budgets>,
    /// Batteries of links that have a floor.
    pub(super) batteries: RefCell<HashMap<String, Battery>>,
    /// What helpers have told last, over lost connections to them as well.
    pub(in crate::primary) helpers: RefCell<HashMap<LinkId, Told>>,
    /// Another level of a helper's battery, or it is charged now, or no longer.
    pub(super) supply_told: Notify,
    /// Changes of whether their links are metered.
    pub(super) metered_told: Spaced,
    /// What sessions have been told.
    pub(super) applied: RefCell<Excluded>,
    pub(super) is_watched: Cell<bool>,
    /// Bytes move, perhaps while the watch waits for the end of an exclusion.
    pub(super) moving: Notify,
    /// A task waits for the next byte of a budget, to have the limits watched.
    pub(super) is_awaited: Cell<bool>,
    /// Used bytes at the last look of the watch.
    pub(super) looked: RefCell<HashMap<Capped, u64>>,
}

impl Limits {
    /// Loads what the caps of the device with this identity have used.
    pub(in crate::primary) fn load(identity: &Path) -> io::Result<Self> {
        Ok(Self {
            usage: RefCell::new(Usage::load(identity)?),
            interfaces: InterfaceBytes::of_this_host(),
            seen: RefCell::default(),
            reached: RefCell::default(),
            budgets: RefCell::default(),
            batteries: RefCell::default(),
            helpers: RefCell::default(),
            supply_told: Notify::new(),
            metered_told: Spaced::default(),
            applied: RefCell::default(),
            is_watched: Cell::default(),
            moving: Notify::new(),
            is_awaited: Cell::default(),
            looked: RefCell::default(),
        })
    }

    /// Reads what was used again, before anything was counted here.
    ///
    /// # Errors
    /// Those of [`Self::load`].
    pub(in crate::primary) fn reload(&self, identity: &Path) -> io::Result<()> {
        self.usage.replace(Usage::load(identity)?);
        Ok(())
    }

    /// Whether the cap of a link is used up.
    pub(in crate::primary) fn is_reached(&self, link: &str) -> bool {
        self.reached.borrow().contains(link)
    }

    /// The battery of the device of a link.
    pub(in crate::primary) fn charge(&self, link: &str) -> Charge {
        let batteries = self.batteries.borrow();
        batteries
            .get(link)
            .map_or(Charge::Sufficient, Battery::charge)
    }

    /// What excludes links for all connections now.
    pub(super) fn excluded(&self) -> Excluded {
        let batteries = self.batteries.borrow();
        let charges = batteries
            .iter()
            .map(|(link, battery)| (link.clone(), battery.charge()));
        let low = charges.filter(|(_, charge)| *charge != Charge::Sufficient);
        Excluded {
            used_up: self.reached.borrow().clone(),
            low: low.collect(),
        }
    }

    /// Whether a link may be excluded for all connections.
    pub(in crate::primary) fn excludes_any(&self) -> bool {
        self.excluded() != Excluded::default()
    }

    /// Whether something else excludes links than when that was applied.
    pub(super) fn have_changed(&self) -> bool {
        self.excluded() != *self.applied.borrow()
    }

    /// The helper of a link has reported limits of its relays, down and up.
    pub(in crate::primary) fn reported(
        &self,
        now: Timestamp,
        link: LinkId,
        limits: [Option<BitRate>; 2],
    ) {
        let mut all = self.helpers.borrow_mut();
        // A late report of a link that was removed leaves nothing.
        if let Some(told) = all.get_mut(&link) {
            told.limits = (limits, now);
        }
    }

    /// What the helper of a link has told.
    pub(in crate::primary) fn told(&self, link: LinkId) -> Told {
        self.helpers
            .borrow()
            .get(&link)
            .copied()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_relays_hold_for_a_second_after_their_report() {
        let at = Timestamp::from_millis;
        let limits = [Some(BitRate::from_mbps(3.0)), None];
        let told = Told {
            limits: (limits, at(5_000)),
            ..Told::default()
        };
        assert_eq!(told.limits(at(5_999)), limits);
        assert_eq!(told.limits(at(6_000)), [None; 2]);
        assert_eq!(Told::default().limits(at(0)), [None; 2]);
    }
}
