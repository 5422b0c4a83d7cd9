//! Handles of control connections and of connections that may go direct.

use std::collections::HashMap;
use std::net::SocketAddr;

use mpbond_intercept::Destination;
use mpbond_manager::RequestId;
use mpbond_net::control::{Message, Ticket};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::reach::Reach;

/// Handle of a control connection that a task attends to.
pub(super) struct Control {
    address: SocketAddr,
    requests: mpsc::UnboundedSender<Message>,
    tickets: HashMap<RequestId, Ticket>,
    task: AbortHandle,
}

impl Control {
    pub(super) fn new(
        address: SocketAddr,
        requests: mpsc::UnboundedSender<Message>,
        task: AbortHandle,
    ) -> Self {
        Self {
            address,
            requests,
            tickets: HashMap::new(),
            task,
        }
    }

    /// Sends a message, unless the connection is gone.
    pub(super) fn send(&self, message: Message) {
        // A task that has ended reports that itself.
        let _ = self.requests.send(message);
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
    pub(super) fn redeem(&mut self, request: RequestId) -> Option<(SocketAddr, Ticket)> {
        Some((self.address, self.tickets.remove(&request)?))
    }

    pub(super) fn hang_up(self) {
        self.task.abort();
    }
}

/// A connection of which the proxy may not have heard.
pub(super) struct Rescuable {
    pub(super) to: Destination,
    /// Whether the bytes written so far may reach the origin twice.
    pub(super) may_repeat: fn(&[u8]) -> bool,
    /// Destinations that it may reach direct.
    pub(super) reach: Reach,
}
