//! Level of this device's battery below which it does not lend (`battery_floor`).

use std::cell::RefCell;

use mpbond_policy::{Battery, Charge, Supply};
use tokio::sync::watch;

use crate::power::Power;

/// The battery of a helper.
pub(super) struct OwnBattery {
    pub(super) power: Power,
    pub(super) state: RefCell<Battery>,
    /// The level, and whether it is being charged, for primaries.
    pub(super) supply: watch::Sender<Supply>,
}

impl OwnBattery {
    pub(super) fn new(floor_percent: Option<u8>) -> Self {
        Self {
            power: Power::of_this_device(),
            state: RefCell::new(Battery::new(floor_percent)),
            supply: watch::Sender::new(Supply::default()),
        }
    }

    /// Another floor, which applies from the next look on; without one, from now on.
    pub(super) fn set_floor(&self, floor_percent: Option<u8>) {
        let mut state = self.state.borrow_mut();
        match floor_percent {
            Some(_) => state.set_floor(floor_percent),
            None => *state = Battery::new(None),
        }
    }

    /// Whether new relays are accepted, and open ones continue.
    pub(super) fn charge(&self) -> Charge {
        self.state.borrow().charge()
    }

    /// The reason for which nothing is lent, with the level.
    pub(super) fn refusal(&self) -> Option<String> {
        let percent = self.supply.borrow().percent?;
        (self.charge() != Charge::Sufficient).then(|| format!("the battery is low ({percent}%)"))
    }
}
