//! Sessions that take no new streams: kept for those that are open, beside the session in use. And
//! sessions that have ended: kept until applications have read what had arrived completely.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use mpbond_manager::{LinkId, Target};
use mpbond_net::control::{self, Message};
use mpbond_net::tcp::Tuning;
use mpbond_net::tls::TlsStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info};

use super::links::LinkConfig;
use super::state::Primary;
use super::{confirmed, dial};
use crate::driver::{Driver, Notice};

/// Maximum number of such sessions, and of ended ones that applications still read from. Each may
/// hold a whole receive window; a proxy that is upgraded more often within the life of a connection
/// is not served further.
const MAX_RETIRING: usize = 4;

/// Longest time for which one is kept: the proxy's own limit is shorter, and one that forgets it
/// does not cost memory for ever.
const RETIRE_WITHIN: Duration = Duration::from_secs(3600);

/// Time for the acknowledgements of the last bytes, after which the subflows are closed.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Reason of the end, for people.
const OVER: &str = "no stream is left";

/// Pause before all links are tried again.
const DIAL_AGAIN: Duration = Duration::from_secs(1);

/// Time within which a helper answers a request.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Keeps a session for as long as it has streams.
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
    add(primary, &driver);
    tokio::task::spawn_local(keep(Rc::clone(primary), driver, notices));
}

/// Keeps a session that was lost until applications have read what had arrived completely.
pub(super) fn outlive(
    primary: &Rc<Primary>,
    driver: Driver,
    notices: mpsc::UnboundedReceiver<Notice>,
) {
    add(primary, &driver);
    tokio::task::spawn_local(finish(Rc::clone(primary), driver, notices));
}

/// Adds a session to those that are kept. The oldest one ends where there are too many.
fn add(primary: &Primary, driver: &Driver) {
    let oldest = {
        let mut retiring = primary.retiring.borrow_mut();
        retiring.push(driver.clone());
        (retiring.len() > MAX_RETIRING).then(|| retiring.remove(0))
    };
    if let Some(oldest) = oldest {
        info!("too many sessions retire: the oldest one is given up, with its open connections");
        oldest.give_up("too many sessions retire");
    }
}

/// Delivers the rest of a session that has ended.
async fn finish(
    primary: Rc<Primary>,
    driver: Driver,
    mut notices: mpsc::UnboundedReceiver<Notice>,
) {
    driver.deliver_rest(&mut notices).await;
    driver.shut_down();
    let same = |other: &Driver| other.is(&driver);
    primary.retiring.borrow_mut().retain(|other| !same(other));
}

async fn keep(primary: Rc<Primary>, driver: Driver, mut notices: mpsc::UnboundedReceiver<Notice>) {
    info!("open connections stay with the session that retires; the next one takes new ones");
    let mut end = Instant::now() + RETIRE_WITHIN;
    loop {
        tokio::select! {
            notice = notices.recv() => match notice {
                Some(Notice::Drained) => end = Instant::now() + LINGER,
                Some(Notice::Lost(_)) | None => break,
                Some(Notice::Refused { destination, code }) => {
                    confirmed::not_reached(&primary, &destination, code);
                }
                Some(_) => {}
            },
            () = sleep_until(end) => break,
            (target, tls) = joined_again(&primary, &driver) => {
                // A reload may have removed its link meanwhile.
                if primary.link(target.link()).is_some() {
                    let setup = primary.manager.borrow().setup(&target);
                    driver.add_subflow(tls, setup);
                }
            }
        }
    }
    info!("the session that retired is over");
    driver.stop(OVER);
    finish(primary, driver, notices).await;
}

/// Waits until the session has no subflow left, and then for a connection over one of the own paths
/// or through one of the helpers: the manager dials for the session in use alone.
async fn joined_again(primary: &Rc<Primary>, driver: &Driver) -> (Target, TlsStream) {
    if !driver.has_no_subflow() {
        return std::future::pending().await;
    }
    loop {
        let links = primary.links.borrow().all();
        for (link, config) in links {
            match join(primary, driver, link, &config).await {
                Ok(joined) => return joined,
                Err(e) => debug!(
                    link = config.name(),
                    error = format!("{e:#}"),
                    "not joined again"
                ),
            }
        }
        sleep(DIAL_AGAIN).await;
    }
}

async fn join(
    primary: &Rc<Primary>,
    driver: &Driver,
    link: LinkId,
    config: &LinkConfig,
) -> anyhow::Result<(Target, TlsStream)> {
    let helper = match config {
        LinkConfig::Path(path) => {
            let tls = dial::to_proxy(primary, link, path, || driver.label()).await?;
            return Ok((Target::Proxy { link }, tls));
        }
        LinkConfig::Pipe(helper) => helper,
    };
    let mut others = primary.proxy_addresses(link).await;
    anyhow::ensure!(!others.is_empty(), "no address of the proxy is known");
    let proxy = others.remove(0);
    let limit = primary.manager.borrow().max_segment_bytes(link);
    let (request, address, answered) = {
        let mut controls = primary.controls.borrow_mut();
        let control = controls.get_mut(&link).context("no control connection")?;
        let (request, address, answered) = control.ask_aside();
        control.send(Message::InitMpJoin {
            request: control::RequestId(request.0),
            proxy,
            others,
            express: false,
            max_segment_bytes: limit.and_then(|bytes| u16::try_from(bytes).ok()),
        });
        (request, address, answered)
    };
    let answer = timeout(ANSWER_WITHIN, answered).await;
    let answer = answer.context("the helper does not answer")?;
    let ticket = answer.context("the control connection is lost")?;
    let ticket = ticket.map_err(anyhow::Error::msg)?;
    let tuning = Tuning {
        max_segment_bytes: limit,
        ..primary.tuning()
    };
    let opening = (address, &ticket);
    let tls = dial::through_helper(primary, helper, opening, tuning, driver.label()).await?;
    let express = false;
    let target = Target::Relay {
        link,
        request,
        express,
    };
    Ok((target, tls))
}
