//! An express: a second relay through the same helper, for urgent bytes (ADR 0011).
//!
//! It is opened when a report first shows that the helper holds enough to delay them, and stays
//! open, idle, for as long as the pipe's regular subflow lasts.

use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::{BitRate, Timestamp};

use crate::action::{Action, Notice, Purpose, Target};
use crate::backoff::STEADY;
use crate::context::Context;
use crate::ids::{DialId, LinkId, RequestId};
use crate::pipe_report::{Held, Report};

/// Queueing delay at a helper that makes an express worthwhile. Both radios are awake then, so
/// opening it wakes none.
pub const WORTH_OPENING: Duration = Duration::from_millis(250);

/// An express that has been idle for longer is replaced when it may next be needed: a NAT may have
/// forgotten the connection, since nothing is sent to keep its state.
pub const STALE_AFTER: Duration = Duration::from_secs(60);

/// Pause after an express that could not be opened, or that was lost.
pub const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Time within which a helper answers a request.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The express beside a pipe's regular subflow, if there is one.
#[derive(Debug)]
pub(crate) struct Express {
    link: LinkId,
    state: State,
    not_before: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed,
    Asked {
        request: RequestId,
        deadline: Timestamp,
    },
    Joining {
        request: RequestId,
        dial: DialId,
    },
    Up {
        request: RequestId,
        subflow: SubflowId,
        since: Timestamp,
        /// Highest report number seen.
        report: u64,
    },
    /// The proxy has closed one at once: it knows none, or has no room for them.
    Refused,
}

impl Express {
    pub(crate) fn new(link: LinkId) -> Self {
        Self {
            link,
            state: State::Closed,
            not_before: None,
        }
    }

    /// Requests one if the helper holds enough. Replaces one that may be dead.
    pub(crate) fn consider(
        &mut self,
        cx: &mut Context,
        report: &Report,
        worth: Duration,
        request: impl FnOnce() -> RequestId,
    ) {
        let delay = queueing_delay(&report.down).max(queueing_delay(&report.up));
        if delay < worth || self.not_before.is_some_and(|t| t > cx.now) {
            return;
        }
        if let State::Up { subflow, since, .. } = self.state {
            let open = cx.now.since(since);
            let idle = cx.subflows.idle(subflow, cx.now).unwrap_or(open);
            if idle.min(open) > STALE_AFTER {
                self.close(cx);
            }
        }
        if matches!(self.state, State::Closed) {
            let request = request();
            self.state = State::Asked {
                request,
                deadline: cx.now + ANSWER_WITHIN,
            };
            cx.act(Action::AskRelay {
                link: self.link,
                request,
                purpose: Purpose::Express,
            });
        }
    }

    pub(crate) fn advance(&mut self, cx: &mut Context) {
        if matches!(self.state, State::Asked { deadline, .. } if deadline <= cx.now) {
            self.put_off(cx, "the helper does not answer");
        }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        match self.state {
            State::Asked { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    pub(crate) fn ticket(&mut self, cx: &mut Context, answered: RequestId) {
        if let State::Asked { request, .. } = self.state
            && request == answered
        {
            let dial = cx.dial(Target::Relay {
                link: self.link,
                request,
                express: true,
            });
            self.state = State::Joining { request, dial };
        }
    }

    pub(crate) fn refused(&mut self, cx: &mut Context, answered: RequestId, reason: &str) {
        match self.state {
            State::Asked { request, .. } if request == answered => {}
            State::Joining { request, dial } if request == answered => cx.abandon(dial),
            _ => return,
        }
        self.put_off(cx, reason);
    }

    /// Whether the attempt was this express's.
    pub(crate) fn dialled(&mut self, cx: &Context, dial: DialId, subflow: SubflowId) -> bool {
        let State::Joining { request, dial: own } = self.state else {
            return false;
        };
        if own == dial {
            self.state = State::Up {
                request,
                subflow,
                since: cx.now,
                report: 0,
            };
        }
        own == dial
    }

    pub(crate) fn dial_failed(&mut self, cx: &mut Context, dial: DialId, reason: &str) {
        if matches!(self.state, State::Joining { dial: own, .. } if own == dial) {
            self.put_off(cx, reason);
        }
    }

    pub(crate) fn subflow_closed(&mut self, cx: &Context, id: SubflowId) {
        if let State::Up { subflow, since, .. } = self.state
            && subflow == id
        {
            self.not_before = Some(cx.now + AGAIN_AFTER);
            self.state = match cx.now.since(since) < STEADY {
                true => State::Refused,
                false => State::Closed,
            };
        }
    }

    /// The subflow that a report concerns, if it is this express's and newer than the last.
    pub(crate) fn report(&mut self, r: &Report) -> Option<SubflowId> {
        match &mut self.state {
            State::Up {
                request,
                subflow,
                report,
                ..
            } if *request == r.request && r.number > *report => {
                *report = r.number;
                Some(*subflow)
            }
            _ => None,
        }
    }

    /// Closes it with the subflow beside which it was opened, or because it may be dead.
    pub(crate) fn close(&mut self, cx: &mut Context) {
        match self.state {
            State::Up { subflow, .. } => cx.drop_subflow(subflow, "express no longer needed"),
            State::Joining { dial, .. } => cx.abandon(dial),
            _ => {}
        }
        self.state = State::Closed;
    }

    /// The session is gone with all of its subflows.
    pub(crate) fn session_lost(&mut self, cx: &mut Context) {
        if let State::Joining { dial, .. } = self.state {
            cx.abandon(dial);
        }
        self.state = State::Closed;
    }

    fn put_off(&mut self, cx: &mut Context, reason: &str) {
        self.state = State::Closed;
        self.not_before = Some(cx.now + AGAIN_AFTER);
        cx.tell(Notice::NoExpress {
            link: self.link,
            reason: reason.to_owned(),
        });
    }
}

/// Time that a hop takes for the bytes held for it. Where its throughput is unknown, as that of a
/// pipe over a Unix socket is, the time that the last byte took; zero without it.
fn queueing_delay(held: &Held) -> Duration {
    match held.throughput {
        BitRate::ZERO if held.bytes > 0 => held.sojourn.unwrap_or_default(),
        BitRate::ZERO => Duration::ZERO,
        rate => rate.time_for(held.bytes),
    }
}
