//! State of the limits of links by the policy: caps, budgets of rules, and floors of batteries.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::rc::Rc;

use mpbond_manager::LinkId;
use mpbond_policy::{Battery, Charge};

use crate::driver::Budget;
use crate::usage::{InterfaceBytes, Usage};

/// State of the limits of links. For use on one thread.
pub(super) struct Limits {
    pub(super) usage: RefCell<Usage>,
    pub(super) interfaces: InterfaceBytes,
    /// Bytes that sessions had moved over each link at the last look, by its name.
    pub(super) seen: RefCell<HashMap<String, u64>>,
    /// Links whose caps are used up.
    pub(super) reached: RefCell<BTreeSet<String>>,
    /// Budgets of rules, by their names, with the bytes used at the last look.
    pub(super) budgets: RefCell<HashMap<String, (Rc<Budget>, u64)>>,
    /// Batteries of links that have a floor.
    pub(super) batteries: RefCell<HashMap<String, Battery>>,
    /// Levels that helpers have told.
    pub(super) levels: RefCell<HashMap<LinkId, Option<u8>>>,
    pub(super) is_watched: Cell<bool>,
}

impl Limits {
    /// Loads what the caps of the device with this identity have used.
    pub(super) fn load(identity: &Path) -> io::Result<Self> {
        Ok(Self {
            usage: RefCell::new(Usage::load(identity)?),
            interfaces: InterfaceBytes::of_this_host(),
            seen: RefCell::default(),
            reached: RefCell::default(),
            budgets: RefCell::default(),
            batteries: RefCell::default(),
            levels: RefCell::default(),
            is_watched: Cell::default(),
        })
    }

    /// Whether the cap of a link is used up.
    pub(super) fn is_reached(&self, link: &str) -> bool {
        self.reached.borrow().contains(link)
    }

    /// The battery of the device of a link.
    pub(super) fn charge(&self, link: &str) -> Charge {
        let batteries = self.batteries.borrow();
        batteries
            .get(link)
            .map_or(Charge::Sufficient, Battery::charge)
    }

    /// Whether a link may be excluded for all connections.
    pub(super) fn exclude(&self) -> bool {
        let is_low = |battery: &Battery| battery.charge() != Charge::Sufficient;
        !self.reached.borrow().is_empty() || self.batteries.borrow().values().any(is_low)
    }

    /// Level that the helper of a link has told.
    pub(super) fn level(&self, link: LinkId) -> Option<u8> {
        self.levels.borrow().get(&link).copied().flatten()
    }
}
