//! The path manager: inputs, and the results that follow from them.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use mpbond_price::PipeRadios;
use mpbond_session::{Role, StreamId, SubflowId, SubflowSetup};
use mpbond_units::Timestamp;

use crate::action::{Action, Notice, Target};
use crate::config::{self, Config, WithoutProxy};
use crate::context::Context;
use crate::ids::{DialId, LinkId, RequestId};
use crate::link::Link;
use crate::link_state::LinkState;
use crate::network::{LONG_SLEEP, is_own};
use crate::outage::{Admission, Outage};
use crate::pipe::Pipe;
use crate::pipe_report::Report;
use crate::pipes::{PipeChoice, PipeFacts, Pipes};
use crate::sessions::Sessions;
use crate::subflows::SubflowFacts;
use crate::unanswered::Unanswered;

/// Reason of the end of a subflow whose link the configuration no longer has, for people.
pub const NOT_CONFIGURED: &str = "no longer configured";

/// Decides about a primary's paths and pipes.
///
/// # Contract
/// * **Facts** go in by `handle_*`, each with the present instant, which never decreases.
/// * After any of these, **results** are fetched by [`poll_action`](Self::poll_action) until there
///   are none, and carried out in order. [`poll_timeout`](Self::poll_timeout) is the latest
///   instant at which to call [`handle_timeout`](Self::handle_timeout).
/// * The state of the session's subflows goes in by [`handle_subflows`](Self::handle_subflows):
///   before `handle_timeout` and [`handle_report`](Self::handle_report), before
///   [`admission`](Self::admission) is read for a new connection, when the session says that a
///   subflow is silent, and before [`handle_subflow_up`](Self::handle_subflow_up).
/// * Every [`Action::Dial`] is answered once, unless it is abandoned before. Late answers do no
///   harm: what they bring is dropped.
/// * **Getters** change nothing.
#[derive(Debug)]
pub struct Manager {
    cx: Context,
    links: BTreeMap<LinkId, Link>,
    /// Number of the next link that is added.
    next_link: usize,
    /// Queueing delay at a helper from which an express is opened.
    express_at: Option<Duration>,
    pipes: Pipes,
    sessions: Sessions,
    outage: Outage,
    /// Absent where connections never go direct.
    unanswered: Option<Unanswered>,
}

impl Manager {
    /// A manager that has done nothing yet. Its first actions open a session and dial.
    pub fn new(config: Config, now: Timestamp) -> Self {
        let mut manager = Self {
            links: BTreeMap::new(),
            next_link: 0,
            express_at: config.express_at,
            pipes: Pipes::default(),
            sessions: Sessions::new(now),
            outage: Outage::new(config.without_proxy, now),
            unanswered: (config.without_proxy == WithoutProxy::Direct).then(Unanswered::default),
            cx: Context::new(now),
        };
        for link in config.links {
            manager.add_link(link);
        }
        manager.settle();
        manager
    }

    // ---- results --------------------------------------------------------------------------

    /// The next action, oldest first.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.cx.next_action()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let links = self.links.values().filter_map(Link::due);
        let unanswered = self.unanswered.as_ref().and_then(Unanswered::due);
        links
            .chain(self.sessions.due())
            .chain(self.outage.due())
            .chain(unanswered)
            .min()
    }

    // ---- time and network -----------------------------------------------------------------

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.input(now, |_| ());
    }

    /// An interface came up or went down. Nothing is dialled over a link that is down; one that
    /// comes up is dialled at once. Links are up at the start.
    pub fn handle_link(&mut self, now: Timestamp, link: LinkId, up: bool) {
        self.input(now, |m| {
            if let Some(link) = m.links.get_mut(&link) {
                link.set_available(up);
            }
        });
    }

    /// The host's own addresses have changed to these. Connections from addresses that are gone
    /// are dropped, and all links are tried again at once.
    pub fn handle_addresses(&mut self, now: Timestamp, own: &HashSet<IpAddr>) {
        let gone = |local: Option<IpAddr>| local.is_some_and(|local| !is_own(own, local));
        self.input(now, |m| m.renew("its address is gone", &gone));
    }

    /// The host has slept. After [`LONG_SLEEP`] or more new connections are made at once: that
    /// is quicker than to find out whether the old ones still work.
    pub fn handle_slept(&mut self, now: Timestamp, span: Duration) {
        if span >= LONG_SLEEP {
            self.input(now, |m| {
                m.cx.tell(Notice::Slept(span));
                m.renew("this device has slept", &|_| true);
            });
        }
    }

    // ---- configuration --------------------------------------------------------------------

    /// The configuration has another own path or pipe, which is dialled as those of the start.
    pub fn handle_link_added(&mut self, now: Timestamp, link: config::Link) -> LinkId {
        self.input(now, |m| m.add_link(link))
    }

    /// The configuration no longer has this link. Its connections are dropped, its attempts
    /// abandoned; its number is not used again.
    pub fn handle_link_removed(&mut self, now: Timestamp, link: LinkId) {
        self.input(now, |m| {
            m.pipes.remove(link);
            if let Some(mut link) = m.links.remove(&link) {
                link.drop_gone(&mut m.cx, NOT_CONFIGURED, &|_| true);
            }
        });
    }

    /// The configuration names other radios of a pipe, or none: its connections stay.
    pub fn handle_radios(&mut self, now: Timestamp, link: LinkId, radios: Option<PipeRadios>) {
        self.input(now, |m| {
            m.pipes.set_radios(link, radios);
            if let Some(link) = m.links.get_mut(&link) {
                link.config.radios = radios;
            }
        });
    }

    /// The configuration has another policy for new connections while no path to the proxy works.
    pub fn handle_without_proxy(&mut self, now: Timestamp, policy: WithoutProxy) {
        self.input(now, |m| {
            m.outage.set_policy(policy);
            match policy {
                WithoutProxy::Direct => drop(m.unanswered.get_or_insert_default()),
                WithoutProxy::Refuse => m.unanswered = None,
            }
        });
    }

    // ---- connection attempts --------------------------------------------------------------

    /// A connection to the proxy is up and was given to the session as this subflow. `local` is
    /// its own address.
    pub fn handle_dialled(
        &mut self,
        now: Timestamp,
        dial: DialId,
        subflow: SubflowId,
        local: Option<IpAddr>,
    ) {
        self.input(now, |m| {
            m.cx.subflows.add(subflow, local);
            if !m
                .links
                .values_mut()
                .any(|l| l.dialled(&mut m.cx, dial, subflow))
            {
                m.cx.drop_subflow(subflow, "no longer needed");
            }
        });
    }

    /// A control connection is up, and the helper has answered the greeting. `local` is its own
    /// address.
    pub fn handle_control_up(&mut self, now: Timestamp, dial: DialId, local: Option<IpAddr>) {
        self.input(now, |m| {
            let mut pipes = m.links.values_mut().filter_map(Link::pipe);
            pipes.any(|pipe| pipe.control_up(&m.cx, dial, local));
        });
    }

    /// A connection attempt has failed.
    pub fn handle_dial_failed(&mut self, now: Timestamp, dial: DialId, reason: &str) {
        self.input(now, |m| {
            for link in m.links.values_mut() {
                link.dial_failed(&mut m.cx, dial, reason);
            }
        });
    }

    /// A handshake with the proxy over an own path has come through with the smallest of
    /// [`SEGMENT_BYTES`](crate::SEGMENT_BYTES), and not with larger ones.
    pub fn handle_least_segments(&mut self, now: Timestamp, link: LinkId) {
        self.input(now, |m| {
            if let Some(link) = m.links.get_mut(&link) {
                link.least_segments(&mut m.cx);
            }
        });
    }

    // ---- helpers --------------------------------------------------------------------------

    /// A handshake with the proxy through a relay, which is not an express, has stalled: the
    /// connection was there. The failure of the attempt follows.
    pub fn handle_stalled_handshake(&mut self, now: Timestamp, link: LinkId) {
        self.pipe_input(now, link, |pipe, _| pipe.segments.stalled());
    }

    /// A helper has answered a request with a ticket.
    pub fn handle_ticket(&mut self, now: Timestamp, link: LinkId, request: RequestId) {
        self.pipe_input(now, link, |pipe, cx| pipe.ticket(cx, request));
    }

    /// A helper refuses a relay.
    pub fn handle_refusal(
        &mut self,
        now: Timestamp,
        link: LinkId,
        request: RequestId,
        reason: &str,
    ) {
        self.pipe_input(now, link, |pipe, cx| pipe.refused(cx, request, reason));
    }

    /// A helper has reported on a relay. Returns the subflow that the report concerns, for
    /// [`Session::relay_report`](mpbond_session::Session::relay_report); `None` if the report is
    /// out of date.
    pub fn handle_report(
        &mut self,
        now: Timestamp,
        link: LinkId,
        report: &Report,
    ) -> Option<SubflowId> {
        let backup = self.links.get(&link)?.config.backup || self.pipes.is_standby(link);
        let subflow = self.pipe_input(now, link, |pipe, cx| pipe.report(cx, report, backup))??;
        self.pipes.reported(now, subflow, report.down.bytes);
        Some(subflow)
    }

    /// The pipes among which one is to be chosen, as they stand: every
    /// [`PIPES_EVERY`](crate::PIPES_EVERY) while bytes move, if
    /// [`chooses_pipes`](Self::chooses_pipes).
    pub fn handle_pipes(&mut self, now: Timestamp, facts: &[PipeFacts]) {
        self.input(now, |m| m.pipes.look(now, facts));
    }

    /// A helper says goodbye.
    pub fn handle_goodbye(&mut self, now: Timestamp, link: LinkId, reason: &str) {
        self.control_lost(link);
        self.pipe_input(now, link, |pipe, cx| pipe.left(cx, reason));
    }

    /// A pipe's control connection is lost. A relay that works goes on without it.
    pub fn handle_control_closed(&mut self, now: Timestamp, link: LinkId, reason: &str) {
        self.control_lost(link);
        self.pipe_input(now, link, |pipe, cx| pipe.control_closed(cx, reason));
    }

    // ---- session --------------------------------------------------------------------------

    /// There is a session to which subflows can be added.
    pub fn handle_session_opened(&mut self, now: Timestamp) {
        self.input(now, |m| {
            m.cx.session = true;
            m.sessions.opened(now);
            m.links.values_mut().for_each(Link::retry);
        });
    }

    /// The proxy has answered in this session for the first time.
    pub fn handle_established(&mut self, now: Timestamp) {
        self.input(now, |m| {
            m.cx.established = true;
            m.sessions.established();
        });
    }

    /// The session is over. The next one is opened after [`REOPEN_AFTER`](crate::REOPEN_AFTER).
    pub fn handle_session_lost(&mut self, now: Timestamp) {
        self.input(now, |m| {
            m.forget_session();
            m.sessions.lost(now);
        });
    }

    /// The session takes no new streams. It keeps its subflows, of which the manager is told
    /// nothing any more, and the next session is opened at once, or
    /// [`REOPEN_AFTER`](crate::REOPEN_AFTER) after the last one was.
    pub fn handle_session_retired(&mut self, now: Timestamp) {
        self.input(now, |m| {
            m.forget_session();
            m.sessions.retired(now);
        });
    }

    /// The proxy does not trust this device.
    pub fn handle_not_trusted(&mut self, now: Timestamp) {
        self.input(now, |m| m.sessions.not_trusted(&mut m.cx));
    }

    /// The proxy has answered on a subflow.
    pub fn handle_subflow_up(&mut self, now: Timestamp, id: SubflowId) {
        self.input(now, |m| m.cx.subflows.answered(id));
    }

    /// The session's subflows as they stand.
    pub fn handle_subflows(
        &mut self,
        now: Timestamp,
        facts: impl IntoIterator<Item = SubflowFacts>,
    ) {
        let facts: Vec<_> = facts.into_iter().collect();
        self.input(now, |m| m.cx.subflows.update(&facts));
    }

    /// A subflow was given up by either end, when so many octets of ciphertext had arrived in both
    /// directions. That its connection is gone is another input.
    pub fn handle_subflow_cut(&mut self, now: Timestamp, id: SubflowId, octets: u64) {
        self.input(now, |m| {
            for link in m.links.values_mut() {
                link.subflow_cut(&mut m.cx, id, octets);
            }
        });
    }

    /// A subflow's connection is gone. Stream bytes had not moved on any for
    /// [`quiet`](mpbond_session::Session::quiet_for).
    pub fn handle_subflow_closed(&mut self, now: Timestamp, id: SubflowId, quiet: Duration) {
        self.input(now, |m| {
            let idle = m.cx.subflows.rested(id, now);
            m.cx.subflows.remove(id);
            for link in m.links.values_mut() {
                link.subflow_closed(&mut m.cx, id, idle, quiet);
            }
        });
    }

    /// Stream bytes move after a pause ([`Event::Moving`](mpbond_session::Event::Moving)).
    pub fn handle_moving(&mut self, now: Timestamp) {
        self.input(now, |m| m.links.values_mut().for_each(Link::wake));
    }

    // ---- new connections ------------------------------------------------------------------

    /// Handling of a connection that an application opens now.
    pub fn admission(&self, now: Timestamp) -> Admission {
        self.outage.admission(now)
    }

    /// A stream was opened for an application's connection.
    pub fn handle_opened(&mut self, now: Timestamp, stream: StreamId) {
        self.input(now, |m| {
            m.links.values_mut().for_each(Link::wake);
            if let Some(unanswered) = &mut m.unanswered {
                unanswered.watch(now, stream);
            }
        });
    }

    /// Answers [`Action::CheckStream`]: whether the proxy has acknowledged or answered anything of
    /// the stream, or the stream is over.
    pub fn handle_stream(&mut self, now: Timestamp, stream: StreamId, heard: bool) {
        self.input(now, |m| {
            let no_path = m.outage.admission(now) == Admission::WithoutProxy;
            if let Some(unanswered) = &mut m.unanswered {
                unanswered.checked(&mut m.cx, stream, heard, no_path);
            }
        });
    }

    // ---- getters --------------------------------------------------------------------------

    /// State of a link.
    pub fn link(&self, link: LinkId) -> Option<LinkState<'_>> {
        self.links.get(&link).map(Link::state)
    }

    /// State of every link, in the order of their numbers.
    pub fn links(&self) -> impl Iterator<Item = LinkState<'_>> {
        self.links.values().map(Link::state)
    }

    /// Since when no path to the proxy has worked, once that was told by
    /// [`Notice::ProxyLost`](crate::Notice::ProxyLost).
    pub fn outage_since(&self) -> Option<Timestamp> {
        self.outage.told_since()
    }

    /// Whether the proxy has refused this device, and no session was established since.
    pub fn is_not_trusted(&self) -> bool {
        self.sessions.is_not_trusted()
    }

    /// Whether there is a helper with several pipes, one of which is to be chosen.
    pub fn chooses_pipes(&self) -> bool {
        self.pipes.is_needed()
    }

    /// Whether a link carries data only while no other one does, since another pipe to its helper
    /// is used.
    pub fn is_standby(&self, link: LinkId) -> bool {
        self.pipes.is_standby(link)
    }

    /// Use of a pipe that is chosen from several ones.
    pub fn pipe_choice(&self, link: LinkId) -> Option<PipeChoice> {
        self.pipes.of(link)
    }

    /// The regular subflow of a pipe.
    pub fn pipe_subflow(&self, link: LinkId) -> Option<SubflowId> {
        self.links.get(&link)?.subflow()
    }

    /// Maximum payload of a segment (TCP_MAXSEG) of the next connection on an own path, or of both
    /// hops of the next relay, if it is to be less than usual.
    pub fn max_segment_bytes(&self, link: LinkId) -> Option<u32> {
        self.links.get(&link)?.max_segment_bytes()
    }

    /// Name, helper, lender, role, keep-alive and sleep of the subflow to be made of a connection.
    pub fn setup(&self, target: &Target) -> SubflowSetup {
        let Some(link) = self.links.get(&target.link()) else {
            return SubflowSetup::default();
        };
        SubflowSetup {
            name: link.config.name.clone(),
            helper: link.config.helper,
            path: link.config.number,
            lender: link.config.lender,
            role: match target {
                Target::Relay { express: true, .. } => Role::Express,
                _ => {
                    let is_backup = link.config.backup || self.is_standby(target.link());
                    Role::regular_unless(is_backup)
                }
            },
            keep_alive: link.keep_alive(),
            sleeps: !link.config.pause.is_zero(),
            ..SubflowSetup::default()
        }
    }

    // ---- what inputs have in common -------------------------------------------------------

    fn add_link(&mut self, link: config::Link) -> LinkId {
        let id = LinkId(self.next_link);
        self.next_link += 1;
        self.pipes.add(id, &link);
        self.links.insert(id, Link::new(id, link, self.express_at));
        id
    }

    fn forget_session(&mut self) {
        self.cx.session = false;
        self.cx.established = false;
        for link in self.links.values_mut() {
            link.session_lost(&mut self.cx);
        }
        self.cx.subflows.clear();
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.clear();
        }
    }

    fn input<T>(&mut self, now: Timestamp, f: impl FnOnce(&mut Self) -> T) -> T {
        self.cx.now = self.cx.now.max(now);
        let result = f(self);
        self.settle();
        result
    }

    fn control_lost(&mut self, link: LinkId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.control_lost();
        }
    }

    fn pipe_input<T>(
        &mut self,
        now: Timestamp,
        link: LinkId,
        f: impl FnOnce(&mut Pipe, &mut Context) -> T,
    ) -> Option<T> {
        self.input(now, |m| {
            let pipe = m.links.get_mut(&link)?.pipe()?;
            Some(f(pipe, &mut m.cx))
        })
    }

    /// Drops connections for whose own address `gone` holds, and tries all links again.
    fn renew(&mut self, reason: &'static str, gone: &dyn Fn(Option<IpAddr>) -> bool) {
        for link in self.links.values_mut() {
            link.drop_gone(&mut self.cx, reason, gone);
            link.retry();
        }
    }

    /// Does everything that is due and possible now.
    fn settle(&mut self) {
        self.sessions.advance(&mut self.cx);
        self.choose_pipes();
        for link in self.links.values_mut() {
            link.advance(&mut self.cx);
        }
        self.outage.advance(&mut self.cx);
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.advance(&mut self.cx);
        }
    }

    fn choose_pipes(&mut self) {
        let (links, subflows) = (&self.links, &self.cx.subflows);
        self.pipes.settle(self.cx.now, |link| {
            let subflow = links.get(&link)?.subflow()?;
            subflows.has_answered(subflow).then_some(subflow)
        });
        for (link, reason) in self.pipes.act(&mut self.cx) {
            if let Some(pipe) = self.links.get_mut(&link).and_then(Link::pipe) {
                pipe.rejoin(&mut self.cx, reason);
            }
        }
    }
}
