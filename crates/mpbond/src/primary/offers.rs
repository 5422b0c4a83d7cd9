//! Offers of channels over Ethernet frames to helpers, on which relays are opened in place of TCP.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mpbond_manager::LinkId;
use mpbond_net::control::{ChannelKey, Message, RequestId};
use mpbond_net::l2::{L2Stream, PortConfig, Side, failure};
use tokio::time::timeout;
use tracing::{debug, info};

use super::state::Primary;
use crate::config::HelperRef;
use crate::random;

/// Time for a helper's answer to an offer. One that does not know the message answers nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

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
        match self.open_channel(link).await {
            Ok((channel, stream)) => {
                debug!(pipe = helper.name, "a channel over Ethernet frames is open");
                self.frames.opened(link, channel, stream.handle());
                let (end, primary) = (stream.end(), Rc::clone(self));
                crate::task::spawn_local(async move {
                    match failure(end).await {
                        Some(reason) => {
                            primary.frames_failed(link, &reason);
                            primary.tell_closed(link, channel, reason);
                        }
                        None => primary.frames.went_well(link),
                    }
                    primary.frames.ended(link, channel);
                });
                Some(stream)
            }
            Err(e) => {
                self.frames_failed(link, &format!("{e:#}"));
                None
            }
        }
    }

    /// The helper's end of a channel has failed.
    pub(super) fn channel_closed(&self, link: LinkId, channel: u32, reason: &str) {
        // Its RESET may have come before.
        self.frames_failed(link, reason);
        if let Some(handle) = self.frames.ended(link, channel) {
            handle.reset();
        }
    }

    /// Tells the helper that this end has failed.
    fn tell_closed(&self, link: LinkId, channel: u32, reason: String) {
        if let Some(control) = self.controls.borrow().get(&link) {
            control.send(Message::L2Closed { channel, reason });
        }
    }

    fn frames_failed(&self, link: LinkId, reason: &str) {
        if self.link(link).is_some() && self.frames.failed(link, reason) {
            let pipe = self.link_name(link);
            info!(pipe, reason, "TCP is used in place of Ethernet frames");
        }
    }

    async fn open_channel(&self, link: LinkId) -> anyhow::Result<(u32, L2Stream)> {
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
