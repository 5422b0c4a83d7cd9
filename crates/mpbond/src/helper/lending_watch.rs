//! Readings of the link that is lent while relays carry bytes (ADR 0041). An idle helper is not
//! woken for them.

use std::rc::Rc;

use mpbond_policy::lending::READ_EVERY;
use tokio::time::sleep;

use super::lending::LentLink;
use super::state::Helper;

/// Readings without a byte of relays before they pause.
const QUIET_READINGS: u32 = 5;

impl Helper {
    /// Keeps the rates of the link. Without a stated capacity it does nothing.
    pub(super) async fn lend(self: Rc<Self>) {
        let Some(link) = &self.link else { return };
        loop {
            link.woken().await;
            let mut quiet = 0;
            while quiet < QUIET_READINGS {
                quiet = if self.read(link) { 0 } else { quiet + 1 };
                sleep(READ_EVERY).await;
            }
            link.free();
        }
    }

    /// Whether relays have moved bytes since the last reading.
    fn read(&self, link: &LentLink) -> bool {
        let relays = self.relays.borrow();
        let over = relays.values();
        let over = over.filter_map(|r| r.over.as_ref().map(|over| (over, &r.handle)));
        link.read(self.clock.now(), over)
    }
}
