//! Own traffic before lent: the rates of the relays of a link, while they carry bytes
//! (`manager::ledger`, ADR 0041). An idle helper is not woken for it.

use std::net::IpAddr;
use std::rc::Rc;

use mpbond_manager::ledger::READ_EVERY;
use mpbond_net::pipe::PipeStream;
use tokio::time::sleep;

use super::lending::{LentLink, OverLink};
use super::state::Helper;
use crate::addresses::interface_of;

/// Readings without a byte of relays before they pause.
const QUIET_READINGS: u32 = 5;

impl Helper {
    /// The link over which a relay's HS-Path runs, from this address; none for the host itself,
    /// which is no link.
    pub(super) fn link_of(
        self: &Rc<Self>,
        hs: IpAddr,
        pipe: &PipeStream,
        obeys: bool,
    ) -> Option<OverLink> {
        let interface = interface_of(hs).filter(|_| !hs.is_loopback())?;
        let known = {
            let relays = self.relays.borrow();
            let mut links = relays.values().filter_map(|r| Some(&r.over.as_ref()?.link));
            links.find(|l| l.interface == interface).map(Rc::clone)
        };
        let link = known.unwrap_or_else(|| {
            let link = Rc::new(LentLink::new(interface));
            crate::task::spawn_local(Rc::clone(self).lend(Rc::clone(&link)));
            link
        });
        Some(OverLink::new(link, hs, pipe, obeys))
    }

    /// Keeps the rates of a link while its relays carry bytes, until it has none.
    async fn lend(self: Rc<Self>, link: Rc<LentLink>) {
        // Each relay has it, too.
        while Rc::strong_count(&link) > 1 {
            link.rate.woken().await;
            let mut quiet = 0;
            while quiet < QUIET_READINGS {
                quiet = match self.read(&link) {
                    true => 0,
                    false => quiet + 1,
                };
                sleep(READ_EVERY).await;
            }
            // What begins next is not held up by what was before.
            link.rate.down.set_rate(None);
            link.rate.up.set_rate(None);
        }
    }

    /// Whether relays have moved bytes since the last reading.
    fn read(&self, link: &Rc<LentLink>) -> bool {
        let relays = self.relays.borrow();
        let over_link = relays.values().filter_map(|relay| {
            let over = relay.over.as_ref()?;
            Rc::ptr_eq(&over.link, link).then_some((over, &relay.handle))
        });
        let relays: Vec<_> = over_link.collect();
        link.read(self.clock.now(), &relays, &self.interfaces)
    }
}
