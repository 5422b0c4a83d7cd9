//! An outage: a time without a working path to the proxy.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::action::Notice;
use crate::config::WithoutProxy;
use crate::context::Context;

/// A new connection waits for a path until none has worked for this long: with the direct
/// connection that may follow it stays within two seconds.
pub const WAIT_FOR_PATH: Duration = Duration::from_millis(1500);

/// Interval at which silent subflows are looked at while none works: the session does not report
/// that one works again. It is given up after 15 s.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Handling of a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The session carries it.
    Session,
    /// It waits until then for a path; ask again when something has changed.
    Wait(Timestamp),
    /// It goes direct or is refused, as configured.
    WithoutProxy,
}

/// Beginning and announcement of an outage.
#[derive(Debug)]
pub(crate) struct Outage {
    policy: WithoutProxy,
    since: Option<Timestamp>,
    told: bool,
    /// When silent subflows are looked at next.
    look_at: Option<Timestamp>,
}

impl Outage {
    /// Nothing is joined at the start.
    pub(crate) fn new(policy: WithoutProxy, now: Timestamp) -> Self {
        Self {
            policy,
            since: Some(now),
            told: false,
            look_at: None,
        }
    }

    pub(crate) fn set_policy(&mut self, policy: WithoutProxy) {
        self.policy = policy;
    }

    fn works(&self, cx: &Context) -> bool {
        match self.policy {
            WithoutProxy::Direct => cx.works(),
            WithoutProxy::Refuse => cx.established && cx.subflows.any(),
        }
    }

    pub(crate) fn advance(&mut self, cx: &mut Context) {
        let works = self.works(cx);
        // Acknowledgements of what went out may lie behind all that a helper holds, while that
        // arrives.
        let hears = || cx.established && cx.subflows.any_hears(cx.now);
        if works || hears() {
            self.since = None;
            if std::mem::take(&mut self.told) {
                cx.tell(Notice::ProxyReached);
            }
        } else {
            let since = *self.since.get_or_insert(cx.now);
            if !self.told && cx.now >= since + WAIT_FOR_PATH {
                self.told = true;
                cx.tell(Notice::ProxyLost);
            }
        }
        if works || self.look_at.is_none_or(|at| at <= cx.now) {
            let looks = !works && cx.subflows.any_silent();
            self.look_at = looks.then(|| cx.now + LOOK_EVERY);
        }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        let tell = self.since.filter(|_| !self.told);
        let tell = tell.map(|since| since + WAIT_FOR_PATH);
        tell.into_iter().chain(self.look_at).min()
    }

    pub(crate) fn admission(&self, now: Timestamp) -> Admission {
        match self.since.map(|since| since + WAIT_FOR_PATH) {
            None => Admission::Session,
            Some(end) if end > now => Admission::Wait(end),
            Some(_) => Admission::WithoutProxy,
        }
    }

    /// Since when no path has worked, once that was told.
    pub(crate) fn told_since(&self) -> Option<Timestamp> {
        self.since.filter(|_| self.told)
    }
}
