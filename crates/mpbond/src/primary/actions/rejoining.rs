//! Joins of a session that takes no new streams: the manager dials for the session in use alone.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use mpbond_manager::{LinkId, Rejoin, RejoinAction, Target};
use mpbond_net::control::{self, Message};
use mpbond_net::tcp::Tuning;
use mpbond_net::tls::TlsStream;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use tracing::debug;

use super::dial;
use crate::driver::Driver;
use crate::primary::links::LinkConfig;
use crate::primary::state::Primary;

/// Time within which a helper answers a request.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Joins of one such session. Attempts under way end with it.
pub(in crate::primary) struct Joins {
    primary: Rc<Primary>,
    driver: Driver,
    rejoin: Rejoin,
    attempts: JoinSet<(LinkId, anyhow::Result<(Target, TlsStream)>)>,
}

impl Joins {
    pub(in crate::primary) fn new(primary: &Rc<Primary>, driver: &Driver) -> Self {
        Self {
            primary: Rc::clone(primary),
            driver: driver.clone(),
            rejoin: Rejoin::default(),
            attempts: JoinSet::new(),
        }
    }

    /// Begins the attempts that the state of the session calls for.
    pub(in crate::primary) fn advance(&mut self) {
        let links = self.primary.links.borrow().all();
        let (now, subflows) = self.driver.inspect(|session, clock, _| {
            let now = clock.now();
            (now, session.subflows(now))
        });
        let subflows = subflows.iter().map(|s| (s.id, s.state));
        let numbers = links.iter().map(|(link, _)| *link);
        self.rejoin.handle_state(now, numbers, subflows);
        while let Some(action) = self.rejoin.poll_action() {
            match action {
                RejoinAction::Dial { link } => {
                    let (primary, driver) = (Rc::clone(&self.primary), self.driver.clone());
                    self.attempts.spawn_local(async move {
                        let joined = join(&primary, &driver, link).await;
                        (link, joined)
                    });
                }
                RejoinAction::Drop { subflow, reason } => {
                    self.driver.drop_subflow(subflow, reason);
                }
            }
        }
    }

    /// Waits until [`advance`](Self::advance) is due: for the result of an attempt, which is taken,
    /// or for the time of the next one.
    pub(in crate::primary) async fn next(&mut self) {
        let due = self.rejoin.poll_timeout();
        let due = async {
            match due {
                Some(at) => sleep_until(self.primary.clock.instant(at)).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            Some(ended) = self.attempts.join_next() => ended,
            () = due => return,
        };
        let Ok((link, joined)) = ended else {
            return;
        };
        match joined {
            // A reload may have removed its link meanwhile.
            Ok((target, tls)) if self.primary.link(link).is_some() => {
                let setup = self.primary.manager.borrow().setup(&target);
                let subflow = self.driver.add_subflow(tls, setup);
                self.rejoin.handle_joined(link, subflow);
            }
            Ok(_) => self.rejoin.handle_not_joined(link),
            Err(e) => {
                debug!(
                    link = self.primary.link_name(link),
                    error = format!("{e:#}"),
                    "not joined again"
                );
                self.rejoin.handle_not_joined(link);
            }
        }
    }
}

async fn join(
    primary: &Rc<Primary>,
    driver: &Driver,
    link: LinkId,
) -> anyhow::Result<(Target, TlsStream)> {
    let config = primary.link(link).context("no such link")?;
    let helper = match &*config {
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
    let opening = (&address, &ticket);
    let tls = dial::through_helper(primary, helper, opening, tuning, driver.label()).await?;
    let express = false;
    let target = Target::Relay {
        link,
        request,
        express,
    };
    Ok((target, tls))
}
