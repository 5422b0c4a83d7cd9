//! A pairing that was begun over the API, and the form of answers about it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mpbond_net::pairing::{Invitation, Peer};
use serde::Serialize;
use tokio::sync::watch;

/// The pairing that was begun last.
pub(super) struct Attempt {
    pub(super) invitation: Invitation,
    pub(super) began: Instant,
    pub(super) within: Duration,
    pub(super) state: RefCell<State>,
    /// Becomes true when it is cancelled.
    pub(super) cancel: watch::Sender<bool>,
    pub(super) answer: watch::Sender<Option<bool>>,
}

/// Its state.
pub(super) enum State {
    /// For a call.
    Waiting,
    /// The other device has the code; a person has to agree.
    Asking(Peer),
    /// With the section to be written to the configuration, where the device is a new one.
    Paired(Peer, Option<String>),
    /// With the reason.
    Failed(String),
}

/// Form of an answer.
#[derive(Default, Serialize)]
pub(super) struct Body {
    state: &'static str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    offer: Option<Offer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What the other device needs.
#[derive(Serialize)]
struct Offer {
    code: String,
    /// The same with addresses and the id of this device: text of a QR code.
    text: String,
    addresses: Vec<SocketAddr>,
    expires_in_s: u64,
}

#[derive(Serialize)]
struct Device {
    id: String,
    name: String,
}

impl Body {
    /// No pairing.
    pub(super) fn none() -> Self {
        Self {
            state: "none",
            ..Self::default()
        }
    }
}

impl Attempt {
    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.state.borrow(), State::Paired(..) | State::Failed(_))
    }

    /// As an answer shows it.
    pub(super) fn body(&self) -> Body {
        let device = |peer: &Peer| {
            Some(Device {
                id: peer.id.to_string(),
                name: peer.introduction.name.clone(),
            })
        };
        match &*self.state.borrow() {
            State::Waiting => Body {
                state: "waiting",
                offer: Some(Offer {
                    code: self.invitation.code.to_string(),
                    text: self.invitation.to_string(),
                    addresses: self.invitation.addresses.clone(),
                    expires_in_s: self.within.saturating_sub(self.began.elapsed()).as_secs(),
                }),
                ..Body::default()
            },
            State::Asking(peer) => Body {
                state: "asking",
                device: device(peer),
                ..Body::default()
            },
            State::Paired(peer, section) => Body {
                state: "paired",
                device: device(peer),
                section: section.clone(),
                ..Body::default()
            },
            State::Failed(error) => Body {
                state: "failed",
                error: Some(error.clone()),
                ..Body::default()
            },
        }
    }
}
