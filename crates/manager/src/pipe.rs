//! A pipe: the control connection to a helper, and the relay asked for over it.
//!
//! ```text
//! Idle -> Dialling -> Up: Idle -> Asked -> Joining -> Up (with an express beside it)
//!   ^         |        |    ^-------+----------+-------+   relay refused or lost: relay's pause
//!   +-Waiting-+--------+                                   helper lost: pipe's pause
//!         ^------------+-- Orphaned, LastJoin              control connection lost, relay works on
//! ```

use std::net::IpAddr;
use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::action::{Action, Notice, Purpose, Target};
use crate::backoff::Backoff;
use crate::context::Context;
use crate::express::{ANSWER_WITHIN, Express};
use crate::ids::{DialId, LinkId, RequestId};
use crate::link_state::LinkState;
use crate::pipe_control::{Control, FormerRelay, Relay};
use crate::pipe_report::Report;
use crate::replacement::{Outcome, Replacement};
use crate::segments::Segments;

/// A relay that has lost its control connection is dropped when its subflow has been idle for
/// this long, so that a new one gets reports again.
pub const ORPHAN_IDLE: Duration = Duration::from_secs(2);

/// A pipe to a helper.
#[derive(Debug)]
pub(crate) struct Pipe {
    link: LinkId,
    /// Queueing delay from which an express is opened.
    express_at: Option<Duration>,
    state: State,
    /// Own address of the last control connection: while it stays, so does the network.
    local: Option<IpAddr>,
    /// The silent relay beside which another one is opened.
    former: Replacement<FormerRelay>,
    pub(crate) segments: Segments,
    backoff: Backoff,
    /// Requests made so far.
    requests: u64,
    error: Option<String>,
}

#[derive(Debug)]
enum State {
    /// To be dialled as soon as the link allows.
    Idle,
    Waiting(Timestamp),
    Dialling(DialId),
    Up(Control),
    /// The control connection is lost, and the relay is being joined: its ticket may be valid.
    LastJoin {
        dial: DialId,
        reason: String,
    },
    /// The control connection is lost, and the relay works on.
    Orphaned {
        subflow: SubflowId,
        reason: String,
        check_at: Timestamp,
    },
}

impl Pipe {
    /// `pause` is the longest time for which its link says nothing though it works.
    pub(crate) fn new(link: LinkId, pause: Duration, express_at: Option<Duration>) -> Self {
        Self {
            link,
            express_at,
            state: State::Idle,
            local: None,
            former: Replacement::new(pause),
            segments: Segments::default(),
            backoff: Backoff::new(),
            requests: 0,
            error: None,
        }
    }

    // ---- time -----------------------------------------------------------------------------

    pub(crate) fn advance(&mut self, cx: &mut Context, available: bool) {
        match &mut self.state {
            State::Waiting(end) if *end <= cx.now => self.state = State::Idle,
            State::Orphaned {
                subflow, check_at, ..
            } if *check_at <= cx.now => {
                let idle = cx.subflows.idle(*subflow, cx.now);
                if idle.is_none_or(|idle| idle > ORPHAN_IDLE) {
                    cx.drop_subflow(*subflow, "no control connection");
                    self.orphan_over(cx);
                } else {
                    *check_at = cx.now + ORPHAN_IDLE;
                }
            }
            State::Up(control) => {
                if control.is_unanswered(cx.now) {
                    cx.act(Action::HangUp { link: self.link });
                    self.lost(cx, "the helper does not answer");
                } else {
                    control.advance(cx);
                }
            }
            _ => {}
        }
        self.replace(cx, available);
        if !available {
            return;
        }
        if matches!(self.state, State::Idle) {
            let target = Target::Control { link: self.link };
            self.state = State::Dialling(cx.dial(target));
        }
        if cx.session
            && let State::Up(control) = &mut self.state
            && matches!(control.relay, Relay::Idle)
        {
            self.segments.begin();
            let request = next_request(&mut self.requests);
            control.relay = Relay::Asked {
                request,
                deadline: cx.now + ANSWER_WITHIN,
            };
            let purpose = match cx.works() {
                true => Purpose::Join,
                false => Purpose::Open,
            };
            cx.act(Action::AskRelay {
                link: self.link,
                request,
                purpose,
            });
        }
    }

    /// Begins to replace a silent relay, and ends it when either of the two answers.
    fn replace(&mut self, cx: &mut Context, available: bool) {
        let State::Up(control) = &mut self.state else {
            // Without a control connection there is no other relay.
            let reason = "no control connection";
            return self.former.drop_if(cx, reason, |_, _| true);
        };
        let up = match control.relay {
            Relay::Up { subflow, since, .. } if available => Some((subflow, since)),
            _ => None,
        };
        if self.former.is_due(cx, up)
            && let Relay::Up {
                request,
                subflow,
                since,
                report,
                express,
            } = &mut control.relay
        {
            express.close(cx);
            let up = FormerRelay {
                request: *request,
                subflow: *subflow,
                since: *since,
                report: *report,
            };
            let octets = cx.subflows.stuck_after(up.subflow);
            self.segments.replaced(cx, self.link, octets);
            self.former.begin(cx, up.subflow, up);
            control.relay = Relay::Idle;
        }
        let newer = match control.relay {
            Relay::Up { subflow, .. } => Some(subflow),
            _ => None,
        };
        if let Outcome::Resumed(up) = self.former.advance(cx, newer, &mut self.segments) {
            self.drop_relay(cx, "no longer needed");
            self.resume(up);
        }
    }

    /// Idle time after which the next relay is to be kept alive.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        self.former.keep_alive()
    }

    /// Maximum payload of a segment of the next relay, on both of its hops.
    pub(crate) fn max_segment_bytes(&self) -> Option<u32> {
        self.segments.limit()
    }

    /// A subflow was given up by either end, when so many octets had arrived.
    pub(crate) fn subflow_cut(&mut self, cx: &mut Context, id: SubflowId, octets: u64) {
        if let State::Up(control) = &self.state
            && matches!(control.relay, Relay::Up { subflow, .. } if subflow == id)
            && cx.subflows.stuck_after(id).is_some()
        {
            self.segments.stuck(cx, self.link, octets);
        }
    }

    /// The silent relay goes on.
    fn resume(&mut self, up: FormerRelay) {
        if let State::Up(control) = &mut self.state {
            self.error = None;
            control.relay = Relay::Up {
                request: up.request,
                subflow: up.subflow,
                since: up.since,
                report: up.report,
                express: Express::new(self.link),
            };
        }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        match &self.state {
            State::Waiting(end) => Some(*end),
            State::Orphaned { check_at, .. } => Some(*check_at),
            State::Up(control) => match &control.relay {
                Relay::Waiting(end) => Some(*end),
                Relay::Asked { deadline, .. } => Some(*deadline),
                Relay::Up { express, .. } => {
                    express.due().into_iter().chain(self.former.due()).min()
                }
                Relay::Idle | Relay::Joining { .. } => None,
            },
            State::Idle | State::Dialling(_) | State::LastJoin { .. } => None,
        }
    }

    // ---- connection attempts --------------------------------------------------------------

    /// Whether the attempt was for this pipe's control connection.
    pub(crate) fn control_up(&mut self, cx: &Context, dial: DialId, local: Option<IpAddr>) -> bool {
        let own = matches!(self.state, State::Dialling(own) if own == dial);
        if own {
            self.local = local;
            self.state = State::Up(Control {
                since: cx.now,
                local,
                relay: Relay::Idle,
                backoff: Backoff::new(),
            });
        }
        own
    }

    /// Whether the attempt was for this pipe's relay or express.
    pub(crate) fn dialled(&mut self, cx: &mut Context, dial: DialId, subflow: SubflowId) -> bool {
        let control = match &mut self.state {
            State::Up(control) => control,
            State::LastJoin { dial: own, reason } if *own == dial => {
                self.state = State::Orphaned {
                    subflow,
                    reason: std::mem::take(reason),
                    check_at: cx.now + ORPHAN_IDLE,
                };
                self.segments.passed(cx, self.link);
                self.error = None;
                return true;
            }
            _ => return false,
        };
        match &mut control.relay {
            Relay::Joining { request, dial: own } if *own == dial => {
                control.relay = Relay::Up {
                    request: *request,
                    subflow,
                    since: cx.now,
                    report: 0,
                    express: Express::new(self.link),
                };
                self.segments.passed(cx, self.link);
                self.error = None;
                true
            }
            Relay::Up { express, .. } => express.dialled(cx, dial, subflow),
            _ => false,
        }
    }

    pub(crate) fn dial_failed(&mut self, cx: &mut Context, dial: DialId, reason: &str) {
        match &mut self.state {
            State::Dialling(own) | State::LastJoin { dial: own, .. } if *own == dial => {
                self.lost(cx, reason);
            }
            State::Up(control) => match &mut control.relay {
                Relay::Joining { dial: own, .. } if *own == dial => self.no_relay(cx, reason),
                Relay::Up { express, .. } => express.dial_failed(cx, dial, reason),
                _ => {}
            },
            _ => {}
        }
    }

    // ---- the helper's messages ------------------------------------------------------------

    pub(crate) fn ticket(&mut self, cx: &mut Context, answered: RequestId) {
        let State::Up(control) = &mut self.state else {
            return;
        };
        match &mut control.relay {
            Relay::Asked { request, .. } if *request == answered => {
                let dial = cx.dial(Target::Relay {
                    link: self.link,
                    request: answered,
                    express: false,
                });
                control.relay = Relay::Joining {
                    request: answered,
                    dial,
                };
            }
            Relay::Up { express, .. } => express.ticket(cx, answered),
            _ => {}
        }
    }

    /// A helper may refuse after it has given a ticket: when it cannot reach the proxy.
    pub(crate) fn refused(&mut self, cx: &mut Context, answered: RequestId, reason: &str) {
        let State::Up(control) = &mut self.state else {
            return;
        };
        match &mut control.relay {
            Relay::Asked { request, .. } if *request == answered => {}
            Relay::Joining { request, dial } if *request == answered => cx.abandon(*dial),
            Relay::Up { express, .. } => return express.refused(cx, answered, reason),
            _ => return,
        }
        self.no_relay(cx, &format!("the helper says: {reason}"));
    }

    /// The subflow that a report concerns, unless it is out of date. May request an express.
    pub(crate) fn report(
        &mut self,
        cx: &mut Context,
        r: &Report,
        backup: bool,
    ) -> Option<SubflowId> {
        let State::Up(control) = &mut self.state else {
            return None;
        };
        let Relay::Up {
            request,
            subflow,
            report,
            express,
            ..
        } = &mut control.relay
        else {
            return None;
        };
        if *request != r.request {
            return express.report(r);
        }
        if r.number <= *report {
            return None;
        }
        *report = r.number;
        if let Some(worth) = self.express_at.filter(|_| !backup) {
            express.consider(cx, r, worth, || next_request(&mut self.requests));
        }
        Some(*subflow)
    }

    pub(crate) fn control_closed(&mut self, cx: &mut Context, closed: &str) {
        let State::Up(control) = &mut self.state else {
            return;
        };
        let reason = format!("control connection lost: {closed}");
        let state = match &mut control.relay {
            Relay::Up {
                subflow, express, ..
            } => {
                express.close(cx);
                State::Orphaned {
                    subflow: *subflow,
                    reason,
                    check_at: cx.now + ORPHAN_IDLE,
                }
            }
            Relay::Joining { dial, .. } => State::LastJoin {
                dial: *dial,
                reason,
            },
            _ => return self.lost(cx, closed),
        };
        self.backoff.lasted(control.since, cx.now);
        self.state = state;
        cx.tell(Notice::ControlLost {
            link: self.link,
            reason: closed.to_owned(),
        });
    }

    /// The helper says goodbye: it goes on relaying until the subflow is dropped.
    pub(crate) fn left(&mut self, cx: &mut Context, reason: &str) {
        if matches!(self.state, State::Up(_)) {
            self.drop_relay(cx, "the helper leaves");
            cx.act(Action::HangUp { link: self.link });
            self.lost(cx, &format!("the helper leaves: {reason}"));
        }
    }

    // ---- subflows, session, network -------------------------------------------------------

    pub(crate) fn subflow_closed(&mut self, cx: &mut Context, id: SubflowId) {
        if self.former.closed(id) {
            return;
        }
        match &mut self.state {
            State::Orphaned { subflow, .. } if *subflow == id => self.orphan_over(cx),
            State::Up(control) => {
                let Relay::Up {
                    subflow,
                    since,
                    express,
                    ..
                } = &mut control.relay
                else {
                    return;
                };
                if *subflow != id {
                    return express.subflow_closed(cx, id);
                }
                express.close(cx);
                control.backoff.lasted(*since, cx.now);
                control.relay = Relay::Waiting(control.backoff.pause(cx.now));
                self.error = Some("connection lost".to_owned());
            }
            _ => {}
        }
    }

    /// Another attempt may end otherwise than the last.
    pub(crate) fn retry(&mut self) {
        self.backoff.reset();
        match &mut self.state {
            State::Waiting(_) => self.state = State::Idle,
            State::Up(control) => {
                control.backoff.reset();
                if matches!(control.relay, Relay::Waiting(_)) {
                    control.relay = Relay::Idle;
                }
            }
            _ => {}
        }
    }

    /// Drops the connections for whose own address `gone` holds. Without its control connection
    /// a relay goes, too.
    pub(crate) fn drop_gone(
        &mut self,
        cx: &mut Context,
        reason: &'static str,
        gone: &dyn Fn(Option<IpAddr>) -> bool,
    ) {
        let is_gone = |cx: &Context, id| gone(cx.subflows.local(id));
        self.former.drop_if(cx, reason, is_gone);
        let network_gone = gone(self.local);
        if network_gone {
            self.local = None;
            self.segments.reset();
            self.former.forget_network();
        }
        let control = match &self.state {
            State::Up(control) => control,
            // It may have begun at that address, and would get no answer.
            State::Dialling(dial) | State::LastJoin { dial, .. } if network_gone => {
                cx.abandon(*dial);
                self.state = State::Idle;
                return;
            }
            State::Orphaned { subflow, .. } => {
                if gone(cx.subflows.local(*subflow)) {
                    cx.drop_subflow(*subflow, reason);
                    self.restart(reason);
                }
                return;
            }
            _ => return,
        };
        if gone(control.local) {
            self.drop_relay(cx, reason);
            cx.act(Action::HangUp { link: self.link });
            self.restart(reason);
        } else if let Relay::Up { subflow, .. } = &control.relay
            && gone(cx.subflows.local(*subflow))
        {
            self.drop_relay(cx, reason);
            self.error = Some(reason.to_owned());
        }
    }

    fn restart(&mut self, reason: &str) {
        self.error = Some(reason.to_owned());
        self.state = State::Idle;
    }

    /// The regular subflow of its relay.
    pub(crate) fn subflow(&self) -> Option<SubflowId> {
        match &self.state {
            State::Orphaned { subflow, .. } => Some(*subflow),
            State::Up(control) => match control.relay {
                Relay::Up { subflow, .. } => Some(subflow),
                _ => None,
            },
            _ => None,
        }
    }

    /// Closes the subflow of its relay, and asks for another one.
    pub(crate) fn rejoin(&mut self, cx: &mut Context, reason: &'static str) {
        if let State::Orphaned { subflow, .. } = self.state {
            cx.drop_subflow(subflow, reason);
            self.orphan_over(cx);
        } else {
            self.drop_relay(cx, reason);
        }
    }

    /// The session is gone with all of its subflows.
    pub(crate) fn session_lost(&mut self, cx: &mut Context) {
        self.former.clear();
        match &mut self.state {
            State::Orphaned { .. } => self.orphan_over(cx),
            State::LastJoin { dial, .. } => {
                cx.abandon(*dial);
                self.state = State::Idle;
            }
            State::Up(control) => {
                match &mut control.relay {
                    Relay::Joining { dial, .. } => cx.abandon(*dial),
                    Relay::Up { express, .. } => {
                        express.session_lost(cx);
                        self.error = Some("connection lost".to_owned());
                    }
                    Relay::Asked { .. } => {}
                    Relay::Idle | Relay::Waiting(_) => return,
                }
                control.relay = Relay::Idle;
            }
            _ => {}
        }
    }

    pub(crate) fn state(&self) -> LinkState<'_> {
        let error = self.error.as_deref();
        match &self.state {
            State::Dialling(_) | State::LastJoin { .. } => LinkState::Connecting(error),
            State::Orphaned { .. } => LinkState::Up,
            State::Up(control) => match control.relay {
                Relay::Up { .. } => LinkState::Up,
                Relay::Asked { .. } | Relay::Joining { .. } => LinkState::Connecting(error),
                Relay::Idle | Relay::Waiting(_) => LinkState::Waiting(error),
            },
            State::Idle | State::Waiting(_) => LinkState::Waiting(error),
        }
    }

    // ---- what inputs have in common -------------------------------------------------------

    /// Drops the relay's subflow and its express, or aborts the attempt to make them.
    fn drop_relay(&mut self, cx: &mut Context, reason: &'static str) {
        let State::Up(control) = &mut self.state else {
            return;
        };
        match &mut control.relay {
            Relay::Joining { dial, .. } => cx.abandon(*dial),
            Relay::Up {
                subflow, express, ..
            } => {
                express.close(cx);
                cx.drop_subflow(*subflow, reason);
            }
            _ => {}
        }
        control.relay = Relay::Idle;
    }

    fn no_relay(&mut self, cx: &mut Context, reason: &str) {
        if let State::Up(control) = &mut self.state {
            control.relay = Relay::Waiting(control.backoff.pause(cx.now));
            self.error = Some(reason.to_owned());
            cx.tell(Notice::NoRelay {
                link: self.link,
                reason: reason.to_owned(),
            });
        }
    }

    /// The relay that had outlived its control connection is over.
    fn orphan_over(&mut self, cx: &mut Context) {
        if let State::Orphaned { reason, .. } = &mut self.state {
            let reason = std::mem::take(reason);
            self.lost(cx, &reason);
        }
    }

    /// There is no control connection any more, and no relay.
    fn lost(&mut self, cx: &mut Context, reason: &str) {
        if let State::Up(control) = &self.state {
            if let Relay::Joining { dial, .. } = control.relay {
                cx.abandon(dial);
            }
            self.backoff.lasted(control.since, cx.now);
        }
        self.error = Some(reason.to_owned());
        self.state = State::Waiting(self.backoff.pause(cx.now));
        cx.tell(Notice::HelperLost {
            link: self.link,
            reason: reason.to_owned(),
        });
    }
}

fn next_request(requests: &mut u64) -> RequestId {
    *requests += 1;
    RequestId(*requests)
}
