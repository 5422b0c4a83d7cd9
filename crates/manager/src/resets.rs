//! Connections that are reset after an idle time, and what that says of the link's network
//! (ADR 0014).
//!
//! Some networks answer the first packet on a connection that they have forgotten by a reset: often
//! that of the kernel's keep-alive, which resets a connection itself when nothing answers. If a new
//! one is answered promptly in the same session, the network had forgotten the old one.

use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::context::Context;
use crate::nat_timeout::NatTimeout;
use crate::replacement::PROMPT;

/// Interval of the kernel's keep-alive on the daemons' connections: no network sees a longer idle
/// time.
const KERNEL_KEEP_ALIVE: Duration = Duration::from_secs(240);

/// A link's connection, and what resets have shown of its network.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    current: Option<SubflowId>,
    network: NatTimeout,
    /// When the last one was reset after an idle time, and what was known before, until another one
    /// is answered.
    last: Option<(Timestamp, NatTimeout)>,
}

impl Resets {
    /// The link has a connection.
    pub(crate) fn joined(&mut self, id: SubflowId) {
        self.current = Some(id);
    }

    /// A connection is gone on which nothing came for `idle`. The next one is kept alive already.
    pub(crate) fn closed(&mut self, now: Timestamp, id: SubflowId, idle: Duration) {
        if self.current.take_if(|own| *own == id).is_some() {
            let before = self.network;
            self.network.forgot(idle.min(KERNEL_KEEP_ALIVE));
            self.last = Some((now, before));
        }
    }

    /// Looks whether the connection is answered.
    pub(crate) fn advance(&mut self, cx: &Context) {
        let Some(id) = self.current else {
            return;
        };
        self.network.survived(cx.subflows.idle_times(id).1);
        if cx.subflows.has_answered(id)
            && let Some((at, before)) = self.last.take()
            && cx.now.since(at) > PROMPT
        {
            // The network itself was away.
            self.network = before;
        }
    }

    /// The session is over: the other end has reset its connections.
    pub(crate) fn session_lost(&mut self) {
        self.current = None;
        if let Some((_, before)) = self.last.take() {
            self.network = before;
        }
    }

    /// Idle time after which connections of this link are to be kept alive.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        self.network.keep_alive()
    }
}
