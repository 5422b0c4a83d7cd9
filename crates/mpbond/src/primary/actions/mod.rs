//! Execution of the manager's actions with real connections: dialling, relays and control
//! connections of helpers, addresses of the proxy.

mod control;
mod dial;
pub(super) mod frames;
pub(super) mod handles;
mod least_segments;
mod offers;
mod proxy_addresses;
pub(super) mod rejoining;

use std::net::SocketAddr;
use std::rc::Rc;

use mpbond_manager::{Action, LinkId, Manager, Notice, Purpose, RequestId};
use mpbond_net::control::{self as wire, Message};
use mpbond_units::Timestamp;
use tokio::time::sleep_until;
use tracing::{debug, info, warn};

use super::state::Primary;
use crate::api::EventKind;
use crate::primary::connections::rescue;

impl Primary {
    /// Gives the manager an input, and carries out what follows from it.
    pub(super) fn manage<T>(
        self: &Rc<Self>,
        input: impl FnOnce(&mut Manager, Timestamp) -> T,
    ) -> T {
        let result = input(&mut self.manager.borrow_mut(), self.clock.now());
        self.carry_out();
        if self.note_links() {
            self.links_came_or_went();
        }
        self.learn_families();
        self.changed.send_replace(());
        result
    }

    /// The same after the state of all subflows.
    pub(super) fn manage_with_facts<T>(
        self: &Rc<Self>,
        input: impl FnOnce(&mut Manager, Timestamp) -> T,
    ) -> T {
        let facts = self.subflow_facts();
        self.manage(|m, now| {
            m.handle_subflows(now, facts);
            input(m, now)
        })
    }

    /// Carries out all actions that wait.
    pub(super) fn carry_out(self: &Rc<Self>) {
        loop {
            let action = self.manager.borrow_mut().poll_action();
            match action {
                Some(action) => self.act(action),
                None => return,
            }
        }
    }

    fn act(self: &Rc<Self>, action: Action) {
        match action {
            Action::OpenSession => self.open_session.notify_one(),
            Action::Dial { dial, target } => dial::start(self, dial, target),
            Action::Abandon { dial } => {
                if let Some(task) = self.dials.borrow_mut().remove(&dial) {
                    task.abort();
                }
            }
            Action::AskRelay {
                link,
                request,
                purpose,
            } => self.ask_relay(link, request, purpose),
            Action::HangUp { link } => {
                if let Some(control) = self.controls.borrow_mut().remove(&link) {
                    control.hang_up();
                }
            }
            Action::Drop { subflow, reason } => {
                let driver = self.driver.borrow().clone();
                if let Some(driver) = driver {
                    driver.drop_subflow(subflow, reason);
                }
            }
            Action::Roles => self.apply_ranks(),
            Action::Ask { subflow } => {
                let driver = self.driver.borrow().clone();
                if let Some(driver) = driver {
                    driver.ask(subflow);
                }
            }
            Action::CheckStream { stream } => rescue::check(self, stream),
            Action::GoDirect { stream } => rescue::go_direct(self, stream),
            Action::Tell(notice) => self.tell(&notice),
        }
    }

    fn ask_relay(self: &Rc<Self>, link: LinkId, request: RequestId, purpose: Purpose) {
        if !self.has_names(link) {
            let addresses = self.known_addresses(link);
            return self.ask_relay_to(addresses, link, request, purpose);
        }
        let primary = Rc::clone(self);
        crate::task::spawn_local(async move {
            let addresses = primary.proxy_addresses(link).await;
            primary.ask_relay_to(addresses, link, request, purpose);
        });
    }

    fn ask_relay_to(
        self: &Rc<Self>,
        mut others: Vec<SocketAddr>,
        link: LinkId,
        id: RequestId,
        purpose: Purpose,
    ) {
        let request = wire::RequestId(id.0);
        if others.is_empty() {
            let reason = "no address of the proxy is known";
            return self.manage(|m, now| m.handle_refusal(now, link, id, reason));
        }
        let proxy = others.remove(0);
        let limit = self.manager.borrow().max_segment_bytes(link);
        let max_segment_bytes = limit.and_then(|bytes| u16::try_from(bytes).ok());
        let message = match purpose {
            Purpose::Open => Message::InitMp {
                request,
                proxy,
                others,
                max_segment_bytes,
            },
            Purpose::Join | Purpose::Express => Message::InitMpJoin {
                request,
                proxy,
                others,
                express: purpose == Purpose::Express,
                max_segment_bytes,
            },
        };
        if let Some(control) = self.controls.borrow().get(&link) {
            control.send(message);
        }
    }

    fn tell(&self, notice: &Notice) {
        match notice {
            Notice::PathNotJoined { link, reason } => {
                info!(
                    path = self.link_name(*link),
                    error = reason,
                    "path not joined"
                );
            }
            Notice::SmallerSegments { link, bytes } => {
                let link = self.link_name(*link);
                warn!(
                    link,
                    octets = bytes,
                    "large packets do not seem to pass: the link is joined with smaller segments; \
                     the MTU on its way should be corrected"
                );
            }
            Notice::HelperLost { link, reason } => {
                info!(
                    helper = self.link_name(*link),
                    error = reason,
                    "helper lost"
                );
            }
            Notice::NoRelay { link, reason } => {
                info!(helper = self.link_name(*link), error = reason, "no relay");
            }
            Notice::ControlLost { link, reason } => {
                let helper = self.link_name(*link);
                info!(helper, error = reason, "control connection lost");
            }
            Notice::NoExpress { link, reason } => {
                debug!(helper = self.link_name(*link), error = reason, "no express");
            }
            Notice::PipeChosen { link, why } => {
                let pipe = self.link_name(*link);
                let reason = self.reason_of(*why);
                info!(pipe, reason, "another pipe to a helper is used");
                self.happened_to(EventKind::PipeChosen, Some(&pipe), Some(reason));
            }
            Notice::PipeTried { link } => {
                debug!(
                    pipe = self.link_name(*link),
                    "bytes wait: this pipe is tried, too"
                );
            }
            Notice::ProxyLost => {
                self.happened(EventKind::OutageBegin);
                warn!("no path to the proxy works: {}", self.without_proxy());
            }
            Notice::ProxyReached => {
                self.happened(EventKind::OutageEnd);
                info!("the proxy is reached again: new connections go over it");
            }
            Notice::Slept(span) => info!(seconds = span.as_secs(), "this device has slept"),
            Notice::NotTrusted => warn!("{}", self.not_trusted_note()),
        }
    }
}

/// Calls the manager when time has passed.
pub(super) async fn keep_time(primary: Rc<Primary>) {
    let mut changed = primary.changed.subscribe();
    loop {
        let due = primary.manager.borrow().poll_timeout();
        let passed = async {
            match due {
                Some(due) => sleep_until(primary.clock.instant(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = passed => primary.manage_with_facts(Manager::handle_timeout),
            changed = changed.changed() => if changed.is_err() {
                return;
            },
        }
    }
}
