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
pub(in crate::primary) struct Frames {
    /// Opened at the start; `None` where no pipe may use frames by then.
    sockets: Option<Result<FrameSockets, String>>,
    pipes: RefCell<HashMap<LinkId, Pipe>>,
}

/// A channel that has carried a relay for so long has shown that frames pass.
const PROVEN: Duration = Duration::from_secs(640);

/// What is known of a pipe.
#[derive(Default)]
struct Pipe {
    /// Channels that were offered, by their numbers; with more of those that carry a relay.
    channels: HashMap<u32, Option<Carrying>>,
    /// The last one that an end has given up: the helper may still tell that it has failed.
    given_up: Option<u32>,
    /// Failures since a channel was complete or proven.
    failures: u32,
    /// Reason for TCP, and the end of the time for which it is used.
    tcp: Option<(String, Instant)>,
}

/// A channel that carries a relay.
struct Carrying {
    handle: L2Handle,
    since: Instant,
}

impl Pipe {
    /// Returns whether the reason is another one than before.
    fn failed(&mut self, reason: &str) -> bool {
        let pause = PAUSE * (1 << self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        let before = self
            .tcp
            .replace((reason.to_owned(), Instant::now() + pause));
        before.is_none_or(|(before, _)| before != reason)
    }

    /// Takes a channel from those that are known, with its handle.
    fn take(&mut self, channel: u32) -> Option<Option<L2Handle>> {
        let found = self.channels.remove(&channel);
        let given_up = self.given_up.take_if(|number| *number == channel);
        let Some(carrying) = found else {
            return given_up.map(|_| None);
        };
        if carrying
            .as_ref()
            .is_some_and(|c| c.since.elapsed() >= PROVEN)
        {
            self.failures = 0;
        }
        Some(carrying.map(|c| c.handle))
    }
}

impl Frames {
    /// Opens the sockets, which only a process with CAP_NET_RAW may.
    pub(in crate::primary) fn new(config: &PrimaryConfig) -> Self {
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

    /// Whether TCP is to be used for the present: after a failure; always where no socket could be
    /// opened, which the log has since the start.
    pub(super) fn pauses(&self, link: LinkId) -> bool {
        if matches!(self.sockets, Some(Err(_))) {
            return true;
        }
        let pipes = self.pipes.borrow();
        let pause = pipes.get(&link).and_then(|pipe| pipe.tcp.as_ref());
        pause.is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// No channel can be offered. Returns whether the reason is another one than before.
    pub(super) fn not_offered(&self, link: LinkId, reason: &str) -> bool {
        self.pipes
            .borrow_mut()
            .entry(link)
            .or_default()
            .failed(reason)
    }

    /// A channel is offered.
    pub(super) fn offered(&self, link: LinkId, channel: u32) {
        let mut pipes = self.pipes.borrow_mut();
        let pipe = pipes.entry(link).or_default();
        pipe.channels.insert(channel, None);
    }

    /// It carries a relay.
    pub(super) fn opened(&self, link: LinkId, channel: u32, handle: L2Handle) {
        let mut pipes = self.pipes.borrow_mut();
        let pipe = pipes.entry(link).or_default();
        let since = Instant::now();
        pipe.channels
            .insert(channel, Some(Carrying { handle, since }));
        pipe.tcp = None;
    }

    /// It has failed: once for each channel, whichever end finds it first. `None` for one that is
    /// not known; otherwise its handle, and whether the reason is another one than before.
    pub(super) fn failed(
        &self,
        link: LinkId,
        channel: u32,
        reason: &str,
    ) -> Option<(Option<L2Handle>, bool)> {
        let mut pipes = self.pipes.borrow_mut();
        let pipe = pipes.get_mut(&link)?;
        let handle = pipe.take(channel)?;
        Some((handle, pipe.failed(reason)))
    }

    /// An end has given it up, which says nothing of the link.
    pub(super) fn given_up(&self, link: LinkId, channel: u32) {
        if let Some(pipe) = self.pipes.borrow_mut().get_mut(&link)
            && pipe.take(channel).is_some()
        {
            pipe.given_up = Some(channel);
        }
    }

    /// It has carried everything.
    pub(super) fn complete(&self, link: LinkId, channel: u32) {
        if let Some(pipe) = self.pipes.borrow_mut().get_mut(&link)
            && pipe.take(channel).is_some()
            && pipe.tcp.is_none()
        {
            pipe.failures = 0;
        }
    }

    /// For status.
    pub(in crate::primary) fn status(&self, link: LinkId) -> EthernetStatus {
        let pipes = self.pipes.borrow();
        let pipe = pipes.get(&link);
        let used = pipe.is_some_and(|pipe| pipe.channels.values().any(Option::is_some));
        let known = pipe.and_then(|pipe| pipe.tcp.as_ref());
        let known = known.map(|(reason, _)| reason.clone());
        let reason = known.or_else(|| self.sockets().err().map(|e| e.to_string()));
        EthernetStatus {
            used,
            reason: reason.filter(|_| !used),
        }
    }

    /// Forgets a pipe that is no longer configured.
    pub(in crate::primary) fn remove(&self, link: LinkId) {
        self.pipes.borrow_mut().remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(1);

    fn frames() -> Frames {
        Frames {
            sockets: None,
            pipes: RefCell::default(),
        }
    }

    fn pause(frames: &Frames) -> u64 {
        let pipes = frames.pipes.borrow();
        let until = pipes[&LINK].tcp.as_ref().unwrap().1;
        until.duration_since(Instant::now()).as_secs_f64().round() as u64
    }

    #[tokio::test(start_paused = true)]
    async fn each_channel_fails_once_and_the_pause_is_doubled() {
        let frames = frames();
        for (channel, seconds) in [10, 20, 40, 80, 160, 320, 640, 640].into_iter().enumerate() {
            let channel = channel as u32;
            frames.offered(LINK, channel);
            assert!(frames.failed(LINK, channel, "silent").is_some());
            // The other end has seen it, too.
            assert!(frames.failed(LINK, channel, "no answer").is_none());
            assert_eq!(pause(&frames), seconds);
        }
        frames.offered(LINK, 99);
        frames.complete(LINK, 99);
        assert_eq!(
            frames.pipes.borrow()[&LINK].failures,
            8,
            "TCP is still used"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_helper_tells_the_failure_of_a_channel_that_it_has_reset() {
        let frames = frames();
        for seconds in [10, 20] {
            frames.offered(LINK, 7);
            frames.given_up(LINK, 7);
            assert!(frames.failed(LINK, 7, "loss").is_some());
            assert_eq!(pause(&frames), seconds);
        }
        assert!(frames.failed(LINK, 7, "loss").is_none());
        assert!(frames.failed(LINK, 8, "never offered").is_none());
        assert!(frames.failed(LinkId(2), 7, "another pipe").is_none());
    }
}
