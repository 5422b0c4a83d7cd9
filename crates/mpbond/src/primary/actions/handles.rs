//! Handles of control connections and of connections that may go direct.

use std::collections::HashMap;

use mpbond_intercept::Destination;
use mpbond_manager::RequestId;
use mpbond_net::control::{Message, Ticket};
use mpbond_net::l2::Mac;
use mpbond_net::pipe::PipeAddress;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::near::Wire;
use crate::primary::connections::reach::Reach;

/// Handle of a control connection that a task attends to.
pub(in crate::primary) struct Control {
    address: PipeAddress,
    requests: mpsc::UnboundedSender<Message>,
    tickets: HashMap<RequestId, Ticket>,
    /// Requests that are not the manager's, and the number of the next one.
    aside: HashMap<RequestId, oneshot::Sender<Result<Ticket, String>>>,
    next_aside: u64,
    /// Offers of channels over Ethernet frames.
    offers: HashMap<RequestId, oneshot::Sender<Result<Mac, String>>>,
    /// Interface for such frames.
    wire: Option<Wire>,
    task: AbortHandle,
}

/// Number of the first request that is not the manager's, which counts from one.
const FIRST_ASIDE: u64 = 1 << 63;

impl Control {
    pub(super) fn new(
        address: PipeAddress,
        wire: Option<Wire>,
        requests: mpsc::UnboundedSender<Message>,
        task: AbortHandle,
    ) -> Self {
        Self {
            address,
            requests,
            tickets: HashMap::new(),
            aside: HashMap::new(),
            next_aside: FIRST_ASIDE,
            offers: HashMap::new(),
            wire,
            task,
        }
    }

    /// Sends a message, unless the connection is gone.
    pub(super) fn send(&self, message: Message) {
        // A task that has ended reports that itself.
        let _ = self.requests.send(message);
    }

    /// A request that is not the manager's: its number, and the helper's answer with the helper's
    /// address.
    pub(super) fn ask_aside(
        &mut self,
    ) -> (
        RequestId,
        PipeAddress,
        oneshot::Receiver<Result<Ticket, String>>,
    ) {
        // Those that nobody waits for any more are forgotten.
        self.aside.retain(|_, answer| !answer.is_closed());
        let request = RequestId(self.next_aside);
        self.next_aside += 1;
        let (answer, answered) = oneshot::channel();
        self.aside.insert(request, answer);
        (request, self.address.clone(), answered)
    }

    /// Whether this is the answer to a request that is not the manager's.
    pub(super) fn answered_aside(
        &mut self,
        request: RequestId,
        answer: impl FnOnce() -> Result<Ticket, String>,
    ) -> bool {
        let asked = self.aside.remove(&request);
        let is_aside = asked.is_some();
        // Nobody may wait any more.
        let _ = asked.map(|asked| asked.send(answer()));
        is_aside
    }

    /// An offer of a channel over Ethernet frames: its number, and the helper's answer.
    pub(super) fn offer(&mut self) -> (RequestId, oneshot::Receiver<Result<Mac, String>>) {
        self.offers.retain(|_, answer| !answer.is_closed());
        let request = RequestId(self.next_aside);
        self.next_aside += 1;
        let (answer, answered) = oneshot::channel();
        self.offers.insert(request, answer);
        (request, answered)
    }

    /// Whether this is the answer to an offer.
    pub(super) fn answered_offer(
        &mut self,
        request: RequestId,
        answer: impl FnOnce() -> Result<Mac, String>,
    ) -> bool {
        let offered = self.offers.remove(&request);
        let is_offer = offered.is_some();
        let _ = offered.map(|offered| offered.send(answer()));
        is_offer
    }

    /// Interface for Ethernet frames to the helper, if both are on one link.
    pub(super) fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// Keeps the ticket of a request until it is redeemed.
    pub(super) fn keep_ticket(&mut self, request: RequestId, ticket: Ticket) {
        self.tickets.insert(request, ticket);
    }

    /// Discards the ticket of a request that was given up.
    pub(super) fn discard_ticket(&mut self, request: RequestId) {
        self.tickets.remove(&request);
    }

    /// The ticket of a request, and the helper's address.
    pub(super) fn redeem(&mut self, request: RequestId) -> Option<(PipeAddress, Ticket)> {
        Some((self.address.clone(), self.tickets.remove(&request)?))
    }

    pub(super) fn hang_up(self) {
        self.task.abort();
    }
}

/// A connection of which the proxy may not have heard.
pub(in crate::primary) struct Rescuable {
    pub(in crate::primary) to: Destination,
    /// Whether the bytes written so far may reach the origin twice.
    pub(in crate::primary) may_repeat: fn(&[u8]) -> bool,
    /// Destinations that it may reach direct.
    pub(in crate::primary) reach: Reach,
    /// Whether look-ups of the DNS stub are asked on it.
    pub(in crate::primary) has_look_ups: bool,
}
