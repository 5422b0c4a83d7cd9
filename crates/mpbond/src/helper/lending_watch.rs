//! Own traffic before lent: what relays of a link may carry (`manager::ledger`, ADR 0041).
//!
//! Own traffic is what passes the interface of the HS-Paths less what relays send and receive
//! there. It is measured while relays carry bytes; an idle helper is not woken for it.

use std::net::IpAddr;
use std::rc::Rc;

use mpbond_manager::ledger::READ_EVERY;
use tokio::time::sleep;

use super::lending::{LentLink, OverLink};
use super::state::Helper;

/// Readings without a byte of relays before they pause.
const QUIET_READINGS: u32 = 5;

impl Helper {
    /// The link over which a relay's HS-Path runs, from this address; the pipe's is the other one.
    pub(super) fn link_of(
        self: &Rc<Self>,
        hs: IpAddr,
        pipe: Option<IpAddr>,
        obeys: bool,
    ) -> Option<OverLink> {
        let helper = Rc::clone(self);
        let begin = |link| {
            crate::task::spawn_local(helper.lend(link));
        };
        self.lending.link_of(hs, pipe, obeys, begin)
    }

    /// Keeps the ledger of a link while its relays carry bytes.
    async fn lend(self: Rc<Self>, link: Rc<LentLink>) {
        loop {
            link.rate.woken().await;
            link.begin();
            let mut quiet = 0;
            while quiet < QUIET_READINGS {
                match self.read_link(&link) {
                    0 => quiet += 1,
                    _ => quiet = 0,
                }
                sleep(READ_EVERY).await;
            }
        }
    }

    fn read_link(&self, link: &Rc<LentLink>) -> u64 {
        let relays = self.relays.borrow();
        let over_link = relays.iter().filter_map(|(number, relay)| {
            let over = relay.over.as_ref()?;
            Rc::ptr_eq(&over.link, link).then_some((*number, (over, &relay.handle)))
        });
        link.read(self.clock.now(), &over_link.collect(), &self.interfaces)
    }
}
