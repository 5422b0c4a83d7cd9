//! Pipes over Ethernet frames in place of TCP (ADR 0044): sockets for them, and what is known of
//! each pipe.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use anyhow::bail;
use mpbond_manager::LinkId;
use mpbond_net::l2::{FrameSockets, L2Handle};
use tokio::time::Instant;
use tracing::warn;

use crate::config::PrimaryConfig;
use crate::status::EthernetStatus;

/// Channels at a time: those of all pipes, and of earlier relays that still end.
const SOCKETS: usize = 16;

/// Time for which TCP is used after a failure; doubled by each further one, up to 64 times.
const PAUSE: Duration = Duration::from_secs(10);
const MAX_DOUBLINGS: u32 = 6;

/// Sockets for channels, and what is known of each pipe.
pub(super) struct Frames {
    /// Opened at the start; `None` where no pipe may use frames by then.
    sockets: Option<Result<FrameSockets, String>>,
    pipes: RefCell<HashMap<LinkId, Pipe>>,
}

/// What is known of a pipe.
#[derive(Default)]
struct Pipe {
    /// Channels that carry a relay, by their numbers.
    open: HashMap<u32, L2Handle>,
    /// Failures since a channel ended without one.
    failures: u32,
    /// Reason for TCP, and the end of the time for which it is used.
    tcp: Option<(String, Instant)>,
}

impl Frames {
    /// Opens the sockets, which only a process with CAP_NET_RAW may.
    pub(super) fn new(config: &PrimaryConfig) -> Self {
        let is_wanted = config.helpers.iter().any(|h| h.ethernet_frames);
        let sockets = is_wanted.then(|| FrameSockets::open(SOCKETS).map_err(|e| e.to_string()));
        if let Some(Err(reason)) = &sockets {
            warn!("{reason}");
        }
        Self {
            sockets,
            pipes: RefCell::default(),
        }
    }

    /// The sockets, or the reason for which there are none.
    pub(super) fn sockets(&self) -> anyhow::Result<&FrameSockets> {
        match &self.sockets {
            Some(Ok(sockets)) => Ok(sockets),
            Some(Err(reason)) => bail!("{reason}"),
            None => bail!("the primary has started without `ethernet_frames`: start it again"),
        }
    }

    /// Whether TCP is to be used for the present.
    pub(super) fn pauses(&self, link: LinkId) -> bool {
        let pipes = self.pipes.borrow();
        let pause = pipes.get(&link).and_then(|pipe| pipe.tcp.as_ref());
        pause.is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// A channel has failed, or could not be opened. Whether the reason is another one than before.
    pub(super) fn failed(&self, link: LinkId, reason: &str) -> bool {
        let mut pipes = self.pipes.borrow_mut();
        let pipe = pipes.entry(link).or_default();
        let pause = PAUSE * (1 << pipe.failures.min(MAX_DOUBLINGS));
        pipe.failures += 1;
        let before = pipe
            .tcp
            .replace((reason.to_owned(), Instant::now() + pause));
        before.is_none_or(|(before, _)| before != reason)
    }

    /// A channel carries a relay.
    pub(super) fn opened(&self, link: LinkId, channel: u32, handle: L2Handle) {
        let mut pipes = self.pipes.borrow_mut();
        let pipe = pipes.entry(link).or_default();
        pipe.open.insert(channel, handle);
        pipe.tcp = None;
    }

    /// It has ended. Its handle, unless that is gone.
    pub(super) fn ended(&self, link: LinkId, channel: u32) -> Option<L2Handle> {
        self.pipes
            .borrow_mut()
            .get_mut(&link)?
            .open
            .remove(&channel)
    }

    /// It has ended without a failure.
    pub(super) fn went_well(&self, link: LinkId) {
        if let Some(pipe) = self.pipes.borrow_mut().get_mut(&link)
            && pipe.tcp.is_none()
        {
            pipe.failures = 0;
        }
    }

    /// For status.
    pub(super) fn status(&self, link: LinkId) -> EthernetStatus {
        let pipes = self.pipes.borrow();
        let pipe = pipes.get(&link);
        let used = pipe.is_some_and(|pipe| !pipe.open.is_empty());
        let known = pipe.and_then(|pipe| pipe.tcp.as_ref());
        let known = known.map(|(reason, _)| reason.clone());
        let reason = known.or_else(|| self.sockets().err().map(|e| e.to_string()));
        EthernetStatus {
            used,
            reason: reason.filter(|_| !used),
        }
    }

    /// Forgets a pipe that is no longer configured.
    pub(super) fn remove(&self, link: LinkId) {
        self.pipes.borrow_mut().remove(&link);
    }
}
