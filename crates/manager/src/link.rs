//! A link: an own path or a pipe.

use std::net::IpAddr;
use std::time::Duration;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::config;
use crate::context::Context;
use crate::ids::{DialId, LinkId};
use crate::link_state::LinkState;
use crate::own_path::OwnPath;
use crate::pipe::Pipe;
use crate::resets::Resets;
use crate::rest::Rest;

/// One of the primary's links.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) config: config::Link,
    /// Its interface can be used: attempts are made.
    available: bool,
    /// State of a resting pipe. Own paths do not rest.
    rest: Rest,
    resets: Resets,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // a handful of them
pub(crate) enum Kind {
    Path(OwnPath),
    Pipe(Pipe),
}

impl Link {
    pub(crate) fn new(link: LinkId, of: config::Link, express_at: Option<Duration>) -> Self {
        let kind = match of.helper {
            None => Kind::Path(OwnPath::new(link)),
            Some(_) => Kind::Pipe(Pipe::new(link, of.pause, express_at)),
        };
        Self {
            config: of,
            available: true,
            rest: Rest::default(),
            resets: Resets::default(),
            kind,
        }
    }

    pub(crate) fn advance(&mut self, cx: &mut Context) {
        let rests = self.rest.lasts(cx);
        self.resets.advance(cx);
        match &mut self.kind {
            Kind::Path(path) => path.advance(cx, self.available),
            Kind::Pipe(pipe) => pipe.advance(cx, self.available && !rests),
        }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        match &self.kind {
            Kind::Path(path) => path.due(),
            Kind::Pipe(pipe) => pipe.due(),
        }
    }

    pub(crate) fn set_available(&mut self, available: bool) {
        self.available = available;
        if available {
            self.retry();
        }
    }

    pub(crate) fn retry(&mut self) {
        self.rest.end();
        match &mut self.kind {
            Kind::Path(path) => path.retry(),
            Kind::Pipe(pipe) => pipe.retry(),
        }
    }

    pub(crate) fn dialled(&mut self, cx: &mut Context, dial: DialId, subflow: SubflowId) -> bool {
        let was_up = self.state() == LinkState::Up;
        let own = match &mut self.kind {
            Kind::Path(path) => path.dialled(cx, dial, subflow),
            Kind::Pipe(pipe) => pipe.dialled(cx, dial, subflow),
        };
        // Else it is an express beside the relay.
        if own && !was_up {
            self.resets.joined(subflow);
            self.rest.allow(true);
        }
        own
    }

    pub(crate) fn dial_failed(&mut self, cx: &mut Context, dial: DialId, reason: &str) {
        match &mut self.kind {
            Kind::Path(path) => path.dial_failed(cx, dial, reason),
            Kind::Pipe(pipe) => pipe.dial_failed(cx, dial, reason),
        }
    }

    pub(crate) fn subflow_cut(&mut self, cx: &mut Context, id: SubflowId, octets: u64) {
        match &mut self.kind {
            Kind::Path(path) => path.subflow_cut(cx, id, octets),
            Kind::Pipe(pipe) => pipe.subflow_cut(cx, id, octets),
        }
    }

    pub(crate) fn least_segments(&mut self, cx: &mut Context) {
        if let Kind::Path(path) = &mut self.kind {
            path.least_segments(cx);
        }
    }

    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        let by_silence = match &self.kind {
            Kind::Path(path) => path.keep_alive(),
            Kind::Pipe(pipe) => pipe.keep_alive(),
        };
        by_silence.into_iter().chain(self.resets.keep_alive()).min()
    }

    pub(crate) fn max_segment_bytes(&self) -> Option<u32> {
        match &self.kind {
            Kind::Path(path) => path.max_segment_bytes(),
            Kind::Pipe(pipe) => pipe.max_segment_bytes(),
        }
    }

    /// A subflow is gone on which nothing came for `idle`. Stream bytes had not moved on any for
    /// `quiet`.
    pub(crate) fn subflow_closed(
        &mut self,
        cx: &mut Context,
        id: SubflowId,
        idle: Duration,
        quiet: Duration,
    ) {
        self.resets.closed(cx.now, id, idle);
        let was_up = self.state() == LinkState::Up;
        match &mut self.kind {
            Kind::Path(path) => return path.subflow_closed(cx, id),
            Kind::Pipe(pipe) => pipe.subflow_closed(cx, id),
        }
        if was_up && self.state() != LinkState::Up {
            self.rest.begin(quiet);
        }
    }

    /// The control connection of a pipe is lost, or is about to be.
    pub(crate) fn control_lost(&mut self) {
        self.rest.allow(false);
    }

    /// There is something to carry.
    pub(crate) fn wake(&mut self) {
        self.rest.end();
    }

    pub(crate) fn drop_gone(
        &mut self,
        cx: &mut Context,
        reason: &'static str,
        gone: &dyn Fn(Option<IpAddr>) -> bool,
    ) {
        let was_up = self.state() == LinkState::Up;
        match &mut self.kind {
            Kind::Path(path) => path.drop_gone(cx, reason, gone),
            Kind::Pipe(pipe) => pipe.drop_gone(cx, reason, gone),
        }
        if was_up && self.state() != LinkState::Up {
            self.resets = Resets::default();
        }
    }

    pub(crate) fn session_lost(&mut self, cx: &mut Context) {
        self.resets.session_lost();
        match &mut self.kind {
            Kind::Path(path) => path.session_lost(cx),
            Kind::Pipe(pipe) => pipe.session_lost(cx),
        }
    }

    pub(crate) fn state(&self) -> LinkState<'_> {
        match &self.kind {
            Kind::Path(path) => path.state(),
            Kind::Pipe(pipe) => pipe.state(),
        }
    }

    /// The regular subflow of a pipe.
    pub(crate) fn subflow(&self) -> Option<SubflowId> {
        match &self.kind {
            Kind::Path(_) => None,
            Kind::Pipe(pipe) => pipe.subflow(),
        }
    }

    pub(crate) fn pipe(&mut self) -> Option<&mut Pipe> {
        match &mut self.kind {
            Kind::Path(_) => None,
            Kind::Pipe(pipe) => Some(pipe),
        }
    }
}
