//! A connection that is made beside a silent one, to take its place (ADR 0014).
//!
//! The silent one is kept until either of the two answers: its path may only have paused, and what
//! it owes may be on its way.

use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::backoff::{Backoff, STEADY};
use crate::context::Context;
use crate::nat_timeout::NatTimeout;
use crate::segments::Segments;

/// Reason of a replaced subflow's end, for people.
pub(crate) const REPLACED: &str = "silent; a new connection answers";

/// A network that lets a new connection through this soon had forgotten the silent one: a lost SYN
/// and a few round trips.
pub(crate) const PROMPT: Duration = Duration::from_secs(3);

/// A silent connection, and how it stood when its replacement was begun.
#[derive(Debug)]
struct Former<T> {
    subflow: SubflowId,
    /// When its replacement was begun.
    since: Timestamp,
    /// For the case that it goes on.
    up: T,
    /// What was known of its network before it fell silent.
    network: NatTimeout,
}

/// The silent connection of a link beside which another one is made, if there is one, and the pace
/// of replacements. `T` is the state of the link's connection.
#[derive(Debug)]
pub(crate) struct Replacement<T> {
    /// Longest time for which the link says nothing though it works.
    pause: Duration,
    former: Option<Former<T>>,
    /// Doubles with each replacement that did not last.
    backoff: Backoff,
    not_before: Option<Timestamp>,
    /// A subflow needs another one, and has to wait for it.
    due: Option<Timestamp>,
    network: NatTimeout,
}

/// What becomes of a link beside whose silent connection another one is made.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// Nothing yet.
    Open,
    /// The silent one goes on, in this state; the attempt or the new one is to be dropped.
    Resumed(T),
}

impl<T> Replacement<T> {
    pub(crate) fn new(pause: Duration) -> Self {
        Self {
            pause,
            former: None,
            backoff: Backoff::new(),
            not_before: None,
            due: None,
            network: NatTimeout::default(),
        }
    }

    /// Whether another connection is to be made now beside the one that is up, if one is: its
    /// subflow, and since when.
    pub(crate) fn is_due(&mut self, cx: &Context, up: Option<(SubflowId, Timestamp)>) -> bool {
        self.due = None;
        let Some((subflow, since)) = up else {
            return false;
        };
        self.network.survived(cx.subflows.idle_times(subflow).1);
        let Some(at) = cx
            .subflows
            .another_at(subflow, self.pause)
            .filter(|_| self.former.is_none())
        else {
            return false;
        };
        if cx.now.since(since) > STEADY {
            self.backoff.reset();
            self.not_before = None;
        }
        let at = self.not_before.map_or(at, |earliest| at.max(earliest));
        self.due = (at > cx.now).then_some(at);
        self.due.is_none()
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Idle time after which connections of this link are to be kept alive.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        self.network.keep_alive()
    }

    /// Another connection is being made beside `subflow`, the state of which was `up`.
    pub(crate) fn begin(&mut self, cx: &Context, subflow: SubflowId, up: T) {
        let now = cx.now;
        self.not_before = Some(self.backoff.pause(now));
        let network = self.network;
        self.network.forgot(cx.subflows.idle_times(subflow).0);
        self.former = Some(Former {
            subflow,
            since: now,
            up,
            network,
        });
    }

    /// Looks whether either of the two answers. `newer` is the new one, once it is connected;
    /// `segments` are those of the link.
    pub(crate) fn advance(
        &mut self,
        cx: &mut Context,
        newer: Option<SubflowId>,
        segments: &mut Segments,
    ) -> Outcome<T> {
        let Some(former) = self.former.take() else {
            return Outcome::Open;
        };
        if cx.subflows.goes_on(former.subflow, former.since) {
            self.network = former.network;
            segments.resumed();
            return Outcome::Resumed(former.up);
        }
        if newer.is_some_and(|id| cx.subflows.has_answered(id)) {
            if cx.now.since(former.since) > PROMPT {
                // The network itself was away, or the proxy.
                self.network = former.network;
                segments.late();
            }
            cx.drop_subflow(former.subflow, REPLACED);
        } else {
            self.former = Some(former);
        }
        Outcome::Open
    }

    /// A subflow is gone. Whether it was the silent one.
    pub(crate) fn closed(&mut self, id: SubflowId) -> bool {
        self.former.take_if(|f| f.subflow == id).is_some()
    }

    /// Drops the silent one if `gone` holds for it.
    pub(crate) fn drop_if(
        &mut self,
        cx: &mut Context,
        reason: &'static str,
        gone: impl FnOnce(&Context, SubflowId) -> bool,
    ) {
        if let Some(f) = self.former.take_if(|f| gone(cx, f.subflow)) {
            cx.drop_subflow(f.subflow, reason);
        }
    }

    /// The link's network is another one.
    pub(crate) fn forget_network(&mut self) {
        self.network = NatTimeout::default();
    }

    /// The silent one is gone with its session.
    pub(crate) fn clear(&mut self) {
        self.former = None;
    }
}
