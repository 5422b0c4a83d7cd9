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

/// State of a pairing, in an answer.
#[derive(Clone, Copy, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum PairingState {
    /// None was begun, or it was cancelled.
    #[default]
    None,
    /// It waits for a call.
    Waiting,
    /// A device with the code has called, and a person has to agree.
    Asking,
    /// The device is used as a helper.
    Paired,
    /// It has failed.
    Failed,
}

/// A pairing, in an answer.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Pairing"))]
pub(super) struct Body {
    state: PairingState,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    offer: Option<Offer>,
    /// The device that has called.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
    /// Section of a device that was no helper before, in TOML, for the file of the primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    /// The reason for which it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What the other device needs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Offer {
    /// The code.
    code: String,
    /// The same with addresses and the id of this device: text of a QR code.
    text: String,
    /// Addresses at which this device waits.
    addresses: Vec<SocketAddr>,
    /// Time for which it waits.
    expires_in_s: u64,
}

/// A device that has called.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PairingDevice"))]
struct Device {
    /// Its id.
    id: String,
    /// Its name, as it has told it.
    name: String,
}

impl Body {
    /// No pairing.
    pub(super) fn none() -> Self {
        Self::default()
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
                state: PairingState::Waiting,
                offer: Some(Offer {
                    code: self.invitation.code.to_string(),
                    text: self.invitation.to_string(),
                    addresses: self.invitation.addresses.clone(),
                    expires_in_s: self.within.saturating_sub(self.began.elapsed()).as_secs(),
                }),
                ..Body::default()
            },
            State::Asking(peer) => Body {
                state: PairingState::Asking,
                device: device(peer),
                ..Body::default()
            },
            State::Paired(peer, section) => Body {
                state: PairingState::Paired,
                device: device(peer),
                section: section.clone(),
                ..Body::default()
            },
            State::Failed(error) => Body {
                state: PairingState::Failed,
                error: Some(error.clone()),
                ..Body::default()
            },
        }
    }
}
