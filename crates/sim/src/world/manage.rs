//! The primary's path manager: its actions, carried out over virtual links.
//!
//! Control connections are not simulated: a helper is greeted and gives tickets at once. All else
//! takes its time on the links: TCP's handshake, that of TLS, resets, reports.

use std::net::IpAddr;

use mpbond_manager::{
    Action, CONNECT_WITHIN, DialId, HANDSHAKE_WITHIN, Held, RequestId, SubflowFacts, Target,
};
use mpbond_session::FarReport;
use mpbond_units::Timestamp;

use super::World;
use super::host::Host;
use super::line::{Attempt, Line, Stage};
use super::relay_report::Report;
use super::sockets::{endpoint_config, helper_config, relay};
use crate::tcp::Config as Tcp;

impl World {
    /// The primary's own clock.
    pub(super) fn primary_clock(&self) -> Timestamp {
        self.hosts[0].clock(self.now)
    }

    /// The primary's own address on a route.
    pub(super) fn address(&self, route: usize) -> IpAddr {
        let [high, low] = self.moves[route].to_be_bytes();
        IpAddr::from([10, route as u8, high, low])
    }

    /// When the manager is to be called, by the world's clock.
    pub(super) fn manager_due(&self) -> Option<Timestamp> {
        let due = self.manager.poll_timeout()?;
        Some(self.hosts[0].world_time(due))
    }

    /// Calls the manager if it is due, and carries its actions out; whether there were any.
    pub(super) fn manage(&mut self) -> bool {
        if self.hosts[0].is_frozen(self.now) {
            return false;
        }
        let clock = self.primary_clock();
        if self.manager.poll_timeout().is_some_and(|due| due <= clock) {
            self.refresh_subflows();
            self.manager.handle_timeout(clock);
        }
        let mut any = false;
        while let Some(action) = self.manager.poll_action() {
            any = true;
            self.act(clock, action);
        }
        any
    }

    /// Shows the manager the state of all subflows.
    pub(super) fn refresh_subflows(&mut self) {
        let clock = self.primary_clock();
        let session = self.hosts[0].session.as_ref();
        let subflows = session.map_or_else(Vec::new, |s| s.subflows(clock));
        let facts = subflows.iter().map(SubflowFacts::from);
        self.manager.handle_subflows(clock, facts);
    }

    fn act(&mut self, clock: Timestamp, action: Action) {
        match action {
            Action::Dial { dial, target } => match target {
                Target::Control { .. } => self.manager.handle_control_up(clock, dial, None),
                Target::Proxy { link } => {
                    let session = self.hosts[0].number;
                    self.connect(session, link.0, dial, None, false);
                }
                Target::Relay {
                    link,
                    request,
                    express,
                } => {
                    let session = self.hosts[0].number;
                    self.connect(session, link.0, dial, Some(request), express);
                }
            },
            Action::AskRelay { link, request, .. } => {
                match self.lasting.refused_until[link.0] > self.now {
                    true => self
                        .manager
                        .handle_refusal(clock, link, request, "budget used up"),
                    false => self.manager.handle_ticket(clock, link, request),
                }
            }
            Action::Abandon { dial } => {
                let attempt = |line: &Line| line.attempt.dial == dial;
                self.lose(attempt);
            }
            Action::Drop { subflow, .. } => {
                let (session, up) = (self.hosts[0].number, Stage::Up(subflow));
                self.lose(|line| line.session == session && line.ends[0].stage == up);
            }
            Action::CheckStream { stream } => {
                let session = self.hosts[0].session.as_ref();
                let heard = session.is_none_or(|s| s.unheard(stream).is_none());
                self.manager.handle_stream(clock, stream, heard);
            }
            Action::GoDirect { stream } => self.go_direct(stream),
            Action::OpenSession => self.open_session(),
            Action::Roles => self.apply_roles(),
            Action::Ask { subflow } => {
                if let Some(session) = &mut self.hosts[0].session {
                    session.ask(subflow);
                    self.hosts[0].look_again();
                }
            }
            Action::HangUp { .. } | Action::Tell(_) => {}
        }
    }

    /// The primary closes a connection.
    pub(super) fn lose(&mut self, which: impl Fn(&Line) -> bool) {
        let found = self.live.iter().find(|&&l| which(&self.lines[l]));
        if let Some(&l) = found {
            self.lose_line(0, l);
            self.hosts_of(0).for_each(Host::look_again);
        }
    }

    /// One of the primary's sessions connects on a route.
    pub(super) fn connect(
        &mut self,
        session: u64,
        route: usize,
        dial: DialId,
        request: Option<RequestId>,
        express: bool,
    ) {
        let r = &self.scenario.routes[route];
        let bound = self.scenario.relay_bound_bytes;
        let relay = r.helper.map(|helper| {
            let routes = self.scenario.routes.iter();
            let pipes = routes.filter(|r| r.helper == Some(helper));
            let is_tcp = self.scenario.links[r.links[0]].bluetooth.is_none();
            let several = pipes.count() > 1;
            match is_tcp {
                true => relay(bound).with_short_queue(several),
                false => relay(bound).with_sojourn(),
            }
        });
        // A device that only forwards is no end of a connection.
        let (links, far) = match relay {
            Some(_) => (&r.links[..1], helper_config(bound)),
            None => (&r.links[..], endpoint_config()),
        };
        let l = self.lines.len();
        let keepalive = self.keepalive(express);
        let ends = [endpoint_config(), far].map(|end| Tcp { keepalive, ..end });
        let first = self.net.connect(self.now, l, true, links, ends.into());
        let attempt = Attempt {
            dial,
            request,
            express,
            local: self.address(route),
        };
        self.lines
            .push(Line::new(self.now, route, first, relay, (session, attempt)));
        self.live.push(l);
    }

    /// When a line's handshake has taken too long.
    pub(super) fn handshake_limit(&self, l: usize) -> Option<Timestamp> {
        let line = &self.lines[l];
        let waits = line.ends[0].stage == Stage::Handshake;
        let limit = match line.established {
            Some(at) => at + HANDSHAKE_WITHIN,
            None => line.dialled + CONNECT_WITHIN,
        };
        waits.then_some(limit)
    }

    /// Ends attempts that took too long, and forgets lines that are over.
    pub(super) fn clean_up(&mut self) {
        if !self.hosts[0].is_frozen(self.now) {
            for i in 0..self.live.len() {
                let l = self.live[i];
                if self
                    .handshake_limit(l)
                    .is_some_and(|limit| limit <= self.now)
                {
                    self.lose_line(0, l);
                }
            }
        }
        self.tidy();
        let running = &self.running;
        self.active
            .retain(|e| running[*e].as_ref().is_some_and(|r| !r.is_over()));
        let before = self.live.len();
        let lines = &self.lines;
        self.live.retain(|&l| !lines[l].is_over());
        if self.live.len() < before {
            self.net.sweep();
        }
    }

    /// A helper's report has reached the primary.
    pub(super) fn take_report(&mut self, r: &Report) -> Result<(), String> {
        self.refresh_subflows();
        let clock = self.primary_clock();
        let held = |hop: &FarReport| Held {
            bytes: hop.level_bytes,
            throughput: hop.throughput,
            sojourn: hop.sojourn,
        };
        let report = mpbond_manager::Report {
            request: r.request,
            number: r.number,
            down: held(&r.pipe),
            up: held(&r.hs),
        };
        if let Some(id) = self.manager.handle_report(clock, r.link, &report) {
            self.with_host(0, |host, s| {
                host.report(s, id, r);
                host.settle(s)
            })?;
        }
        Ok(())
    }
}
