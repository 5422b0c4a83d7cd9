//! Which session this is, and how far it has come.

use crate::SessionId;
use crate::handshake::SessionKey;
use crate::wire::Capabilities;

/// Identity and state of a session at one endpoint.
pub(super) struct Identity {
    /// This end is the primary.
    pub(super) client: bool,
    pub(super) id: Option<SessionId>,
    pub(super) key: Option<SessionKey>,
    /// This end's part of the key.
    pub(super) random: [u8; 32],
    /// Capabilities of the peer, once its hello or answer has come.
    pub(super) peer: Option<Capabilities>,
    /// Both ends know the session.
    pub(super) established: bool,
    pub(super) lost: bool,
    /// One of the ends takes no new streams.
    pub(super) going_away: bool,
    /// The peer has said so: it is reported once, however often it says it.
    pub(super) peer_goes_away: bool,
}

impl Identity {
    pub(super) fn new(client: bool, random: [u8; 32]) -> Self {
        Self {
            client,
            id: None,
            key: None,
            random,
            peer: None,
            established: false,
            lost: false,
            going_away: false,
            peer_goes_away: false,
        }
    }
}
