//! Outcome of a step of a SOCKS handshake, in version 5 or 4: the next action, or a failure.

use crate::destination::{BadDestination, Destination};
use crate::intent::BadIntent;

/// Next action of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Read more bytes, then call again.
    NeedMore,
    /// Send these bytes, then call again.
    Send([u8; 2]),
    /// The handshake is complete; reply with [`reply`](crate::socks5::reply), if the client's
    /// version is 5.
    Connect(Destination),
}

/// A failed handshake. Send `answer`, if not empty, and close.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Answer to the client; empty if it does not speak SOCKS.
    pub answer: Vec<u8>,
    /// Cause of the failure.
    pub reason: BadHandshake,
}

/// Cause of a failed handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHandshake {
    /// The first octet of a message is not the expected version.
    #[error("version {0} is not SOCKS 5 or 4")]
    Version(u8),
    /// The client offers no acceptable method.
    #[error("no acceptable authentication method")]
    NoMethod,
    /// Wrong user name or password.
    #[error("wrong user name or password")]
    WrongCredentials,
    /// Unknown parameters behind the user name.
    #[error(transparent)]
    Intent(#[from] BadIntent),
    /// BIND, UDP ASSOCIATE, or an unknown command.
    #[error("command {0} is not supported, only CONNECT is")]
    Command(u8),
    /// An unknown address type.
    #[error("address type {0} is not supported")]
    AddressType(u8),
    /// The destination is invalid.
    #[error(transparent)]
    Destination(#[from] BadDestination),
}
