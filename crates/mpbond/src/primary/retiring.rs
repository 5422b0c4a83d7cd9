//! Sessions that take no new streams: kept for those that are open, beside the session in use.

use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::{LinkId, Target};
use mpbond_net::tls::TlsStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info};

use super::dial;
use super::state::Primary;
use crate::driver::{Driver, Notice};

/// Maximum number of such sessions. Each may hold a whole receive window; a proxy that is upgraded
/// more often within the life of a connection is not served further.
const MAX_RETIRING: usize = 4;

/// Longest time for which one is kept: the proxy's own limit is shorter, and one that forgets it
/// does not cost memory for ever.
const RETIRE_WITHIN: Duration = Duration::from_secs(3600);

/// Time for the acknowledgements of the last bytes, after which the subflows are closed.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Reason of the end, for people.
const OVER: &str = "no stream is left";

/// Pause before own paths are dialled again.
const DIAL_AGAIN: Duration = Duration::from_secs(1);

/// Keeps a session for as long as it has streams. The oldest one ends where there are too many.
pub(super) fn start(
    primary: &Rc<Primary>,
    driver: Driver,
    notices: mpsc::UnboundedReceiver<Notice>,
) {
    if driver.is_drained() {
        driver.stop(OVER);
        driver.shut_down();
        return;
    }
    let oldest = {
        let mut retiring = primary.retiring.borrow_mut();
        retiring.push(driver.clone());
        (retiring.len() > MAX_RETIRING).then(|| retiring.remove(0))
    };
    if let Some(oldest) = oldest {
        oldest.give_up("too many sessions retire");
    }
    tokio::task::spawn_local(keep(Rc::clone(primary), driver, notices));
}

async fn keep(primary: Rc<Primary>, driver: Driver, mut notices: mpsc::UnboundedReceiver<Notice>) {
    info!("open connections stay with the session that retires; the next one takes new ones");
    let mut end = Instant::now() + RETIRE_WITHIN;
    loop {
        tokio::select! {
            notice = notices.recv() => match notice {
                Some(Notice::Drained) => end = Instant::now() + LINGER,
                Some(Notice::Lost(_)) | None => break,
                Some(_) => {}
            },
            () = sleep_until(end) => break,
            (link, tls) = joined_again(&primary, &driver) => {
                let setup = primary.manager.borrow().setup(&Target::Proxy { link });
                driver.add_subflow(tls, setup);
            }
        }
    }
    info!("the session that retired is over");
    driver.stop(OVER);
    driver.shut_down();
    let same = |other: &Driver| other.is(&driver);
    primary.retiring.borrow_mut().retain(|other| !same(other));
}

/// Waits until the session has no subflow left, and then for a connection over one of the own
/// paths: the manager dials for the session in use alone.
async fn joined_again(primary: &Rc<Primary>, driver: &Driver) -> (LinkId, TlsStream) {
    if !driver.has_no_subflow() {
        return std::future::pending().await;
    }
    loop {
        for (link, path) in (0..).map(LinkId).zip(&primary.config.paths) {
            match dial::to_proxy(primary, link, path, || driver.label()).await {
                Ok(tls) => return (link, tls),
                Err(e) => debug!(
                    path = path.name,
                    error = format!("{e:#}"),
                    "not joined again"
                ),
            }
        }
        sleep(DIAL_AGAIN).await;
    }
}
