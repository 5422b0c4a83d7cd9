//! Offers of channels over Ethernet frames to helpers, on which relays are opened in place of TCP.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mpbond_manager::LinkId;
use mpbond_net::control::{ChannelKey, Message, RequestId};
use mpbond_net::l2::{L2Handle, L2Stream, Outcome, PortConfig, Side, outcome};
use tokio::time::timeout;
use tracing::{debug, info};

use crate::config::HelperRef;
use crate::primary::state::Primary;
use crate::random;

/// Time for a helper's answer to an offer. One that does not know the message answers nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// An offer on its way. Whatever ends it before the channel carries a relay, the helper is told, so
/// that it does not wait for the ticket.
struct Offer<'a> {
    primary: &'a Primary,
    link: LinkId,
    /// Number of the channel, once it is offered and until it is open.
    channel: Cell<Option<u32>>,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.primary.frames.given_up(self.link, channel);
            let reason = "the primary has given it up".to_owned();
            self.primary.tell_closed(self.link, channel, reason);
        }
    }
}

impl Primary {
    /// A channel to a helper on which a relay is opened; `None` where TCP is to be used.
    pub(super) async fn frames_to(
        self: &Rc<Self>,
        link: LinkId,
        helper: &HelperRef,
    ) -> Option<L2Stream> {
        if !helper.ethernet_frames || self.frames.pauses(link) {
            return None;
        }
        let offer = Offer {
            primary: self,
            link,
            channel: Cell::new(None),
        };
        match self.open_channel(link, &offer).await {
            Ok((channel, stream)) => {
                offer.channel.take();
                debug!(pipe = helper.name, "a channel over Ethernet frames is open");
                self.frames.opened(link, channel, stream.handle());
                let (end, primary) = (stream.end(), Rc::clone(self));
                crate::task::spawn_local(async move {
                    match outcome(end).await {
                        Outcome::Failed(reason) => {
                            primary.channel_failed(link, channel, &reason);
                            primary.tell_closed(link, channel, reason);
                        }
                        Outcome::GivenUp => primary.frames.given_up(link, channel),
                        Outcome::Complete => primary.frames.complete(link, channel),
                    }
                });
                Some(stream)
            }
            Err(e) => {
                let reason = format!("{e:#}");
                match offer.channel.get() {
                    Some(channel) => drop(self.channel_failed(link, channel, &reason)),
                    None if self.link(link).is_some() => {
                        let is_news = self.frames.not_offered(link, &reason);
                        self.note_tcp(link, &reason, is_news);
                    }
                    None => {}
                }
                None
            }
        }
    }

    /// The helper's end of a channel has failed.
    pub(super) fn channel_closed(&self, link: LinkId, channel: u32, reason: &str) {
        if let Some(handle) = self.channel_failed(link, channel, reason) {
            handle.reset();
        }
    }

    /// A channel has failed; its handle, if it carried a relay. One that is not known is left out:
    /// both ends may find the same failure.
    fn channel_failed(&self, link: LinkId, channel: u32, reason: &str) -> Option<L2Handle> {
        let (handle, is_news) = self.frames.failed(link, channel, reason)?;
        self.note_tcp(link, reason, is_news);
        handle
    }

    fn note_tcp(&self, link: LinkId, reason: &str, is_news: bool) {
        if is_news {
            let pipe = self.link_name(link);
            info!(pipe, reason, "TCP is used in place of Ethernet frames");
        }
    }

    /// Tells the helper that this end has failed.
    fn tell_closed(&self, link: LinkId, channel: u32, reason: String) {
        if let Some(control) = self.controls.borrow().get(&link) {
            control.send(Message::L2Closed { channel, reason });
        }
    }

    /// Opens a channel; notes its number in `offer` when the helper is told.
    async fn open_channel(
        &self,
        link: LinkId,
        offer: &Offer<'_>,
    ) -> anyhow::Result<(u32, L2Stream)> {
        let sockets = self.frames.sockets()?;
        let wire = {
            let controls = self.controls.borrow();
            let control = controls.get(&link).context("no control connection")?;
            control.wire().cloned()
        };
        let wire = wire.context("the helper is not on a link of this device's own")?;
        let channel = u32::from_be_bytes(random::bytes()?);
        let key = ChannelKey::from_bytes(random::bytes()?);
        let socket = sockets.take(&wire.interface, channel)?;
        let answered = {
            let mut controls = self.controls.borrow_mut();
            let control = controls.get_mut(&link).context("no control connection")?;
            let (request, answered) = control.offer();
            self.frames.offered(link, channel);
            offer.channel.set(Some(channel));
            control.send(Message::L2Offer {
                request: RequestId(request.0),
                mac: socket.address(),
                channel,
                key,
            });
            answered
        };
        let answer = timeout(ANSWER_WITHIN, answered).await;
        let answer = answer.context("the helper does not answer: its version may be older")?;
        let answer = answer.context("the control connection is lost")?;
        let peer = match answer {
            Ok(mac) if mac.is_of_one() => mac,
            Ok(mac) => bail!("{mac} of the helper is not the address of one interface"),
            Err(reason) => bail!("the helper refuses: {reason}"),
        };
        let stream = L2Stream::open(
            socket,
            PortConfig {
                channel,
                key: key.key(),
                side: Side::Primary,
                mtu: wire.mtu,
                peer,
            },
        )?;
        stream.fail_at_loss();
        stream.opened().await?;
        Ok((channel, stream))
    }
}
