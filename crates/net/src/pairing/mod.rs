//! Pairing: mutual authentication of two devices by a short code or an enrolment token.
//!
//! One device, the *listener*, shows a short [`PairingCode`]; a person enters it at the other, the
//! *caller*. Over a TLS connection, in which both present their permanent certificates, they prove
//! knowledge of the same code by SPAKE2 ([`Exchange`]). The proofs cover both fingerprints and an
//! exporter secret of that TLS session: a man in the middle has two sessions with different
//! secrets, and the code for neither. An attacker can only guess the code, once per attempt, and
//! [`Attempts`] limits the attempts.
//!
//! Where no person attends both devices, as with a proxy on a server, an [`EnrolmentToken`]
//! replaces the code: it contains the proxy's fingerprint and a secret that is too long to guess.
//!
//! The module does no I/O and reads no clock: messages and instants are inputs, [`Step`]s are
//! outputs.

mod attempts;
mod code;
mod exchange;
mod invitation;
mod message;

pub use attempts::{Attempts, MAX_WRONG_CODES};
pub use code::{CodeError, PairingCode};
pub use exchange::{ChannelBinding, End, Exchange, PairingError, Peer, Step};
pub use invitation::{
    ENROLMENT_SECRET_BYTES, EnrolmentSecret, EnrolmentToken, Invitation, TextError,
};
pub use message::{
    Introduction, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Message, MessageError, Role, StopReason,
    is_name,
};

#[cfg(test)]
mod tests;
