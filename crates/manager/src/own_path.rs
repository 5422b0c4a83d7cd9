//! An own path (PS-Path): joined whenever there is a session, for as long as the primary runs.

use std::net::IpAddr;
use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::action::{Notice, Target};
use crate::backoff::Backoff;
use crate::context::Context;
use crate::ids::{DialId, LinkId};
use crate::link_state::LinkState;
use crate::replacement::{Outcome, Replacement};
use crate::segments::Segments;

/// One of the primary's own paths.
#[derive(Debug)]
pub(crate) struct OwnPath {
    link: LinkId,
    state: State,
    /// Own address of the last connection: while it stays, so does the network.
    local: Option<IpAddr>,
    /// The silent connection beside which another one is made.
    former: Replacement<State>,
    segments: Segments,
    backoff: Backoff,
    error: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// To be dialled as soon as the session and the link allow.
    Idle,
    Waiting(Timestamp),
    Dialling(DialId),
    Up {
        subflow: SubflowId,
        since: Timestamp,
    },
}

impl OwnPath {
    pub(crate) fn new(link: LinkId) -> Self {
        Self {
            link,
            state: State::Idle,
            local: None,
            former: Replacement::new(Duration::ZERO),
            segments: Segments::default(),
            backoff: Backoff::new(),
            error: None,
        }
    }

    pub(crate) fn advance(&mut self, cx: &mut Context, available: bool) {
        self.replace(cx, available);
        if matches!(self.state, State::Waiting(end) if end <= cx.now) {
            self.state = State::Idle;
        }
        if matches!(self.state, State::Idle) && available && cx.session {
            let target = Target::Proxy { link: self.link };
            self.state = State::Dialling(cx.dial(target));
        }
    }

    /// Begins to replace a silent connection, and ends it when either of the two answers.
    fn replace(&mut self, cx: &mut Context, available: bool) {
        let up = match self.state {
            State::Up { subflow, since } if available => Some((subflow, since)),
            _ => None,
        };
        if self.former.is_due(cx, up)
            && let Some((subflow, _)) = up
        {
            let octets = cx.subflows.stuck_after(subflow);
            self.segments.replaced(cx, self.link, octets);
            self.former.begin(cx, subflow, self.state);
            self.state = State::Idle;
        }
        let newer = match self.state {
            State::Up { subflow, .. } => Some(subflow),
            _ => None,
        };
        if let Outcome::Resumed(up) = self.former.advance(cx, newer, &mut self.segments) {
            match self.state {
                State::Dialling(dial) => cx.abandon(dial),
                State::Up { subflow, .. } => cx.drop_subflow(subflow, "no longer needed"),
                State::Idle | State::Waiting(_) => {}
            }
            self.error = None;
            if let State::Up { subflow, .. } = up {
                self.local = cx.subflows.local(subflow);
            }
            self.state = up;
        }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        match self.state {
            State::Waiting(end) => Some(end),
            _ => self.former.due(),
        }
    }

    /// Whether the attempt was this path's.
    pub(crate) fn dialled(&mut self, cx: &Context, dial: DialId, subflow: SubflowId) -> bool {
        let own = self.is_dialling(dial);
        if own {
            self.error = None;
            self.segments.joined();
            self.local = cx.subflows.local(subflow);
            self.state = State::Up {
                subflow,
                since: cx.now,
            };
        }
        own
    }

    pub(crate) fn dial_failed(&mut self, cx: &mut Context, dial: DialId, reason: &str) {
        if self.is_dialling(dial) {
            self.error = Some(reason.to_owned());
            self.state = State::Waiting(self.backoff.pause(cx.now));
            cx.tell(Notice::PathNotJoined {
                link: self.link,
                reason: reason.to_owned(),
            });
        }
    }

    fn is_dialling(&self, dial: DialId) -> bool {
        matches!(self.state, State::Dialling(own) if own == dial)
    }

    /// A subflow was given up by either end, when so many octets had arrived. After an idle time a
    /// NAT that has forgotten it is more likely than a limit on packets.
    pub(crate) fn subflow_cut(&mut self, cx: &mut Context, id: SubflowId, octets: u64) {
        let is_up = matches!(self.state, State::Up { subflow, .. } if subflow == id);
        if is_up && cx.subflows.stuck_after(id).is_some() {
            self.segments.stuck(cx, self.link, octets);
        }
    }

    /// A handshake has come through with the smallest segments only.
    pub(crate) fn least_segments(&mut self, cx: &mut Context) {
        self.segments.least(cx, self.link);
    }

    /// Idle time after which the next connection is to be kept alive.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        self.former.keep_alive()
    }

    /// Maximum payload of a segment of the next connection.
    pub(crate) fn max_segment_bytes(&self) -> Option<u32> {
        self.segments.limit()
    }

    pub(crate) fn subflow_closed(&mut self, cx: &Context, id: SubflowId) {
        if self.former.closed(id) {
            return;
        }
        if let State::Up { subflow, since } = self.state
            && subflow == id
        {
            self.error = Some("connection lost".to_owned());
            self.backoff.lasted(since, cx.now);
            self.state = State::Waiting(self.backoff.pause(cx.now));
        }
    }

    /// Another attempt may end otherwise than the last.
    pub(crate) fn retry(&mut self) {
        self.backoff.reset();
        if matches!(self.state, State::Waiting(_)) {
            self.state = State::Idle;
        }
    }

    /// Drops connections and attempts from an own address for which `gone` holds, and forgets what
    /// was known of its network.
    pub(crate) fn drop_gone(
        &mut self,
        cx: &mut Context,
        reason: &'static str,
        gone: &dyn Fn(Option<IpAddr>) -> bool,
    ) {
        let is_gone = |cx: &Context, id| gone(cx.subflows.local(id));
        self.former.drop_if(cx, reason, is_gone);
        if !gone(self.local) {
            return;
        }
        self.local = None;
        self.segments.reset();
        self.former.forget_network();
        match self.state {
            State::Up { subflow, .. } => {
                self.error = Some(reason.to_owned());
                cx.drop_subflow(subflow, reason);
            }
            // It may have begun at that address, and would get no answer.
            State::Dialling(dial) => cx.abandon(dial),
            State::Idle | State::Waiting(_) => return,
        }
        self.state = State::Idle;
    }

    /// The session is gone with all of its subflows.
    pub(crate) fn session_lost(&mut self, cx: &mut Context) {
        self.former.clear();
        match self.state {
            State::Dialling(dial) => cx.abandon(dial),
            State::Up { .. } => self.error = Some("connection lost".to_owned()),
            State::Idle | State::Waiting(_) => return,
        }
        self.state = State::Idle;
    }

    pub(crate) fn state(&self) -> LinkState<'_> {
        match self.state {
            State::Up { .. } => LinkState::Up,
            State::Dialling(_) => LinkState::Connecting(self.error.as_deref()),
            State::Idle | State::Waiting(_) => LinkState::Waiting(self.error.as_deref()),
        }
    }
}
