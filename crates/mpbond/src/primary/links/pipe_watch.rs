//! Looks at the pipes of helpers of which the best one is used, while bytes move. An idle primary
//! does nothing for it.

use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::{LinkId, PIPES_EVERY, PipeFacts, Signal};
use mpbond_net::pipe::PipeAddress;
use mpbond_session::IDLE_LONG;
use mpbond_units::Timestamp;
use tokio::time::timeout;

use super::LinkConfig;
use crate::config::HelperAddress;
use crate::driver::Driver;
use crate::network_changes::NetworkChanges;
use crate::primary::state::Primary;

/// Interval while no bytes move, until the session reports that they move again.
const QUIET: Duration = Duration::from_secs(1);

/// Looks at the pipes of a session until it has long been quiet.
async fn watch(primary: Rc<Primary>, driver: Driver) {
    let mut changes = NetworkChanges::of_links().ok();
    loop {
        let quiet = driver.inspect(|session, clock, _| session.quiet_for(clock.now()));
        let is_over = quiet >= IDLE_LONG || driver.has_ended();
        if is_over || !primary.manager.borrow().chooses_pipes() {
            break;
        }
        let facts = primary.pipe_facts(&driver);
        primary.manage(|m, now| m.handle_pipes(now, &facts));
        let wait = if quiet < QUIET { PIPES_EVERY } else { QUIET };
        // A carrier that is lost is noticed at once.
        let _ = timeout(wait, changed(&mut changes)).await;
    }
    let mut watched = primary.pipes_watched.borrow_mut();
    watched.take_if(|handle| handle.is_of(&driver));
}

/// Waits for a change of links, as far as the kernel tells.
async fn changed(changes: &mut Option<NetworkChanges>) {
    if let Some(socket) = changes
        && socket.next().await.is_ok()
    {
        return;
    }
    *changes = None;
    std::future::pending().await
}

impl Primary {
    /// Bytes move, after a pause or with another configuration.
    pub(in crate::primary) fn watch_pipes(self: &Rc<Self>, driver: &Driver) {
        let mut watched = self.pipes_watched.borrow_mut();
        let is_watched = watched.as_ref().is_some_and(|handle| handle.is_of(driver));
        if self.manager.borrow().chooses_pipes() && !is_watched {
            *watched = Some(driver.handle());
            crate::task::spawn_local(watch(Rc::clone(self), driver.clone()));
        }
    }

    /// State of the pipes that have a subflow.
    fn pipe_facts(&self, driver: &Driver) -> Vec<PipeFacts> {
        let (subflows, unscheduled) = driver.inspect(|session, clock, _| {
            (session.subflows(clock.now()), session.unscheduled_bytes())
        });
        let manager = self.manager.borrow();
        let mut facts = Vec::new();
        self.links.borrow().each(|id, link| {
            if let LinkConfig::Pipe(pipe) = link
                && pipe.place.is_some()
                && let Some(subflow) = manager.pipe_subflow(id)
                && let Some(stats) = subflows.iter().find(|s| s.id == subflow)
            {
                let is_unix = matches!(pipe.address, HelperAddress::At(PipeAddress::Unix(_)));
                facts.push(PipeFacts {
                    carrier: link.problem().is_none(),
                    signal: self.signal_of(id, link, is_unix),
                    ..PipeFacts::of(id, stats, unscheduled)
                });
            }
        });
        facts
    }

    /// Strength of the signal of a pipe's radio, and when it was heard. A Unix socket leads to
    /// Bluetooth.
    fn signal_of(
        &self,
        id: LinkId,
        pipe: &LinkConfig,
        is_unix: bool,
    ) -> Option<(Timestamp, Signal)> {
        let (at, dbm) = self.signal_dbm(id, pipe)?;
        let signal = match is_unix {
            true => Signal::Bluetooth(dbm),
            false => Signal::Wifi(dbm),
        };
        Some((at, signal))
    }
}
