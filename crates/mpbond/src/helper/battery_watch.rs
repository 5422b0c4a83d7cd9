//! Looks at the battery of a helper, and the end of its relays when it is low.

use std::rc::Rc;

use mpbond_policy::{Charge, Supply};
use tracing::info;

use super::state::Helper;

impl Helper {
    /// Reads the level, unless the newest reading is valid, and applies it.
    pub(super) async fn read_battery(&self) {
        let supply = self.battery.power.read().await.supply();
        self.apply_supply(supply);
    }

    /// Applies the level, which is read aside if the newest reading is out of date. Called while
    /// relays carry bytes and at messages of primaries: an idle device is not woken for it.
    pub(super) fn look_at_battery(self: &Rc<Self>) {
        if self.battery.power.is_empty() {
            return;
        }
        match self.battery.power.newest() {
            Some(reading) => self.apply_supply(reading.supply()),
            None => {
                let helper = Rc::clone(self);
                crate::task::spawn_local(async move { helper.read_battery().await });
            }
        }
    }

    /// Relays end once the battery has been below the floor for 30 s.
    fn apply_supply(&self, supply: Supply) {
        let now = self.clock.now();
        let before = self.battery.charge();
        let relays = self.relays.borrow().len();
        let mut state = self.battery.state.borrow_mut();
        // Where it could not be read, the last one stays.
        match supply.percent {
            Some(level) => {
                state.handle_level(now, level, relays);
                self.battery.supply.send_if_modified(|last| {
                    let is_new = *last != supply;
                    *last = supply;
                    is_new
                });
            }
            None => state.handle_flows(now, relays),
        }
        drop(state);
        let after = self.battery.charge();
        if after != before {
            info!(percent = ?supply.percent, charge = ?after, "battery");
        }
        self.end_relays_of_low_battery();
    }

    fn end_relays_of_low_battery(&self) {
        if self.battery.charge() == Charge::Low {
            for relay in self.relays.borrow().values() {
                relay.handle.stop();
            }
        }
    }
}
