//! The primary's sessions: one in use, and the next one when it is lost or retires.

use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::Manager;
use mpbond_session::{KnownPaths, Session};
use tokio::sync::mpsc;
use tracing::warn;

use super::retiring;
use super::state::Primary;
use crate::driver::{Driver, FairQueue, Notice, Seat};
use crate::memory::Memory;
use crate::primary::connections::confirmed;
use crate::random;
use crate::rate_limited_log::PeerLog;

/// Opens a session whenever the manager wants one, and hands its notices to the manager.
pub(super) async fn run(primary: Rc<Primary>) {
    let (queue, lines) = (FairQueue::start(), Rc::new(PeerLog::of_connections()));
    let mut known = KnownPaths::default();
    loop {
        primary.open_session.notified().await;
        // The session's own windows bound the memory of a primary.
        let (random, seat) = loop {
            let seat = Seat::take(&queue, &Memory::unbounded());
            if let (Ok(random), Ok(seat)) = (random::bytes(), seat) {
                break (random, seat);
            }
            warn!("cannot read random bytes");
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let mut session = Session::client(primary.session_config(), random);
        session.remember(std::mem::take(&mut known));
        let (driver, mut notices) = Driver::start(
            session,
            primary.config.proxy.id,
            primary.clock.clone(),
            primary.log.clone(),
            seat.logging(&lines),
        );
        primary.driver.replace(Some(driver.clone()));
        primary.prices.forget_subflows();
        // The first bytes of a process are no end of a pause.
        primary.watch_prices(&driver);
        primary.manage(Manager::handle_session_opened);
        let retires = attend(&primary, &driver, &mut notices).await;
        known = driver.inspect(|session, _, _| session.known_paths());
        primary.driver.replace(None);
        primary.rescuable.borrow_mut().clear();
        if retires {
            retiring::start(&primary, driver, notices);
            primary.manage(Manager::handle_session_retired);
        } else {
            primary.manage(Manager::handle_session_lost);
            retiring::outlive(&primary, driver, notices);
        }
    }
}

/// Hands a session's notices to the manager until the session is lost or takes no new streams;
/// whether the latter.
async fn attend(
    primary: &Rc<Primary>,
    driver: &Driver,
    notices: &mut mpsc::UnboundedReceiver<Notice>,
) -> bool {
    while let Some(notice) = notices.recv().await {
        match notice {
            Notice::Established(_) => {
                primary.manage(Manager::handle_established);
                primary.tell_waiting(driver);
            }
            Notice::StreamsAllowed => primary.tell_waiting(driver),
            Notice::SubflowUp(id) => {
                primary.manage_with_facts(|m, now| m.handle_subflow_up(now, id));
                primary.apply_prices();
                // Bytes may move soon after the start, which is no pause.
                primary.watch_pipes(driver);
                primary.links_came_or_went();
            }
            Notice::SubflowCut(id, octets) => {
                primary.manage(|m, now| m.handle_subflow_cut(now, id, octets));
            }
            Notice::SubflowGone(id) => {
                let quiet = driver.inspect(|session, clock, _| session.quiet_for(clock.now()));
                primary.manage(|m, now| m.handle_subflow_closed(now, id, quiet));
            }
            Notice::Moving => {
                primary.manage(Manager::handle_moving);
                primary.watch_prices(driver);
                primary.watch_pipes(driver);
                primary.watch_limits();
            }
            Notice::Silent(id) => {
                primary.note_silent(id);
                primary.manage_with_facts(|_, _| ());
                primary.links_came_or_went();
            }
            Notice::Distrusted => primary.manage(Manager::handle_not_trusted),
            Notice::Lost(reason) => {
                warn!(reason, "opening a new session");
                return false;
            }
            Notice::GoAway => return true,
            Notice::Refused { destination, code } => {
                confirmed::not_reached(primary, &destination, code);
            }
            Notice::Opened { .. } | Notice::GivenUp(_) | Notice::Drained => {}
        }
    }
    false
}
