//! How two devices that know nothing of each other come to trust each other.
//!
//! One of them, the *listener*, shows a short [`PairingCode`]; a person brings it to the other,
//! the *caller*. Over a TLS connection, in which both have shown the keys that they will be known
//! by, they then prove to each other that they have the same code, by SPAKE2 ([`Exchange`]). The
//! proof covers both fingerprints and a secret of that TLS session: somebody in between, who has
//! two sessions, has two different things to prove, and knows the code for neither. What is left
//! is to guess the code, once an attempt, and [`Attempts`] ends that soon.
//!
//! Where no person can look at both, as with a proxy on a server, an [`EnrolmentToken`] takes the
//! code's place: it names the proxy's fingerprint, and holds a secret that is too long to guess.
//!
//! Nothing here has a socket or reads a clock: messages and instants come in, [`Step`]s go out.

mod attempts;
mod code;
mod exchange;
mod invitation;
mod message;

pub use attempts::{Attempts, MAX_WRONG_CODES};
pub use code::{CodeError, PairingCode};
pub use exchange::{Bounds, End, Exchange, PairingError, Peer, Step};
pub use invitation::{
    ENROLMENT_SECRET_BYTES, EnrolmentSecret, EnrolmentToken, Invitation, TextError,
};
pub use message::{
    Introduction, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Message, MessageError, Role, StopReason,
    is_name,
};

#[cfg(test)]
mod tests;
