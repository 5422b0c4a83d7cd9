//! Looks at the battery of a helper, and the end of its relays when it is low.

use std::rc::Rc;
use std::time::Duration;

use mpbond_policy::Charge;
use tokio::time::Instant;
use tracing::info;

use super::state::Helper;

/// Interval at which the level is read while relays carry bytes. An idle device is not woken for
/// it.
const LOOK_EVERY: Duration = Duration::from_secs(10);

impl Helper {
    /// Reads the level. Relays end once the battery has been below the floor for 30 s.
    pub(super) async fn read_battery(&self) {
        let now = self.clock.now();
        let supply = self.battery.power.read().await.supply();
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

    /// Reads the level aside, unless it has been read within the interval.
    pub(super) fn look_at_battery(self: &Rc<Self>) {
        if self.battery.power.is_empty() {
            return;
        }
        let looked = self.battery.looked.get();
        if looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            let relays = self.relays.borrow().len();
            let now = self.clock.now();
            self.battery.state.borrow_mut().handle_flows(now, relays);
            return self.end_relays_of_low_battery();
        }
        self.battery.looked.set(Some(Instant::now()));
        let helper = Rc::clone(self);
        crate::task::spawn_local(async move { helper.read_battery().await });
    }

    fn end_relays_of_low_battery(&self) {
        if self.battery.charge() == Charge::Low {
            for relay in self.relays.borrow().values() {
                relay.handle.stop();
            }
        }
    }
}
