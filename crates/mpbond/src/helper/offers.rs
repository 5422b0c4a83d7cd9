//! Offers of primaries to open a relay on a channel over Ethernet frames.

use std::rc::Rc;
use std::time::Duration;

use mpbond_net::DeviceId;
use mpbond_net::control::{
    ChannelKey, ControlChannel, Message, RefusalCode, RequestId, read_ticket,
};
use mpbond_net::l2::{L2Stream, Mac, Outcome, PortConfig, Side, outcome};
use mpbond_net::pipe::PipeStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, info};

use super::frames::MAX_CHANNELS_EACH;
use super::promise::{Event, Promise};
use super::state::Helper;
use crate::near;

/// Time within which the ticket has to arrive on a channel.
const TICKET_WITHIN: Duration = Duration::from_secs(10);

/// An offer of a primary.
pub(super) struct Offer {
    pub(super) request: RequestId,
    pub(super) mac: Mac,
    pub(super) channel: u32,
    pub(super) key: ChannelKey,
}

impl Helper {
    /// Opens this end of a channel, or refuses.
    pub(super) fn take_offer(
        self: &Rc<Self>,
        control: &ControlChannel,
        offer: &Offer,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Message {
        let request = offer.request;
        match self.open_channel(control, offer, events) {
            Ok(mac) => Message::L2Accept { request, mac },
            Err(reason) => Message::Refused {
                request,
                code: RefusalCode::Other,
                reason,
            },
        }
    }

    fn open_channel(
        self: &Rc<Self>,
        control: &ControlChannel,
        offer: &Offer,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Result<Mac, String> {
        let primary = control.tls().peer_id();
        let sockets = match &self.frames.sockets {
            Some(sockets) => sockets.as_ref().map_err(Clone::clone)?,
            None => return Err("`ethernet_frames` is not set there".to_owned()),
        };
        if !offer.mac.is_of_one() {
            return Err(format!("{} is not the address of one interface", offer.mac));
        }
        let channel = (primary, offer.channel);
        if self.frames.open.borrow().contains_key(&channel) {
            return Err("the number of the channel is in use".to_owned());
        }
        let Ok(share) = self.frames.quota.take(primary) else {
            return Err(format!(
                "{MAX_CHANNELS_EACH} channels of one primary are the limit"
            ));
        };
        let wire = control.tls().tcp().and_then(near::wire);
        let wire = wire.ok_or("the primary is not on a link of the helper's own")?;
        if let Some(reason) = self.frames.refusal(primary, &wire.interface) {
            return Err(reason);
        }
        let socket = sockets.take(&wire.interface, offer.channel);
        let socket = socket.map_err(|e| e.to_string())?;
        let mac = socket.address();
        let config = PortConfig {
            channel: offer.channel,
            key: offer.key.key(),
            side: Side::Helper,
            mtu: wire.mtu,
            peer: offer.mac,
        };
        let stream = L2Stream::open(socket, config).map_err(|e| e.to_string())?;
        stream.fail_at_loss();
        (self.frames.open.borrow_mut()).insert(channel, stream.handle());
        // The socket is free again when both tasks have ended.
        let share = Rc::new(share);
        let of_channel = Rc::clone(&share);
        let (helper, end, events) = (Rc::clone(self), stream.end(), events.clone());
        crate::task::spawn_local(async move {
            let outcome = outcome(end).await;
            drop(of_channel);
            helper.frames.open.borrow_mut().remove(&channel);
            if let Outcome::Failed(reason) = outcome {
                helper.channel_failed(primary, wire.interface, reason.clone());
                let _ = events.send(Event::ChannelFailed(channel.1, reason));
            }
        });
        let relay = Rc::clone(self).receive_frames(primary, stream);
        crate::task::spawn_local(async move {
            relay.await;
            drop(share);
        });
        Ok(mac)
    }

    fn channel_failed(&self, primary: DeviceId, interface: String, reason: String) {
        if let Some(line) = self.line(primary) {
            let (primary, left_out) = (primary.short(), line.left_out);
            info!(
                primary,
                interface, reason, left_out, "Ethernet frames failed"
            );
        }
        let mut failed = self.frames.failed.borrow_mut();
        failed.insert((primary, interface), (reason, Instant::now()));
    }

    /// The primary's end of a channel has failed.
    pub(super) fn channel_closed(&self, primary: DeviceId, channel: u32) {
        if let Some(handle) = self.frames.open.borrow().get(&(primary, channel)) {
            handle.reset();
        }
    }

    /// Relays what a ticket of the same primary opens on a channel.
    async fn receive_frames(self: Rc<Self>, primary: DeviceId, stream: L2Stream) {
        let mut pipe = PipeStream::L2(stream);
        let ticket = match read_ticket(&mut pipe, Instant::now() + TICKET_WITHIN).await {
            Ok(ticket) => ticket,
            Err(error) => return debug!(%error, "channel closed"),
        };
        let now = std::time::Instant::now().into();
        let promised = self.tickets.borrow_mut().redeem(&ticket, now);
        match promised {
            Some(Promise::Relay(promised)) if promised.primary == primary => {
                self.relay(pipe, promised).await;
            }
            _ => debug!(primary = primary.short(), "channel closed: no such ticket"),
        }
    }
}
