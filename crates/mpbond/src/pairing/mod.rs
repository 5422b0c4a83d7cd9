//! Pairing over real sockets: `mpbond pair` at both ends, and the proxy's part in enrolment.
//!
//! What is said and in which order is decided by [`mpbond_net::pairing`]; here it gets its
//! sockets, its clock, its person, and the files in which trust is written down.

mod book;
mod call;
mod conversation;
mod enrol;
mod listen;

use std::net::SocketAddr;

use mpbond_net::identity::Identity;
use mpbond_net::pairing::{Introduction, PairingError, Peer};
use mpbond_net::tls::TlsError;

pub use book::{Book, Entry};
pub use call::{call, enrol};
pub use enrol::now_s;
pub(crate) use enrol::serve as serve_enrolment;
pub use listen::{Event, Listener};

/// Where `mpbond pair` listens unless told otherwise: beside the helper's 4434.
pub const DEFAULT_PORT: u16 = 4435;

/// This device, as it pairs.
#[derive(Clone, Debug)]
pub struct Own {
    /// The key that it will be known by.
    pub identity: Identity,
    /// What it says of itself.
    pub introduction: Introduction,
    /// Where it writes down whom it trusts.
    pub book: Book,
}

/// Two devices trust each other.
#[derive(Clone, Debug)]
pub struct Paired {
    /// The other one.
    pub peer: Peer,
    /// Where this device has written that down.
    pub entry: Entry,
}

/// Why a device could not be paired.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// Said by one end of the conversation or the other.
    #[error(transparent)]
    Pairing(#[from] PairingError),
    /// No connection to any of the addresses.
    #[error("nobody answers at {address}: {problem}")]
    Unreached {
        /// The last one tried.
        address: SocketAddr,
        /// What came of it.
        problem: String,
    },
    /// Somebody answers there, but does not pair.
    #[error("{address}: {problem}")]
    Handshake {
        /// Who was called.
        address: SocketAddr,
        /// What came of it.
        problem: TlsError,
    },
    /// Nobody came with the code in time.
    #[error("nobody came with the code in time")]
    NobodyCame,
    /// The socket to listen on.
    #[error("cannot listen: {0}")]
    Listen(std::io::Error),
}

impl PairError {
    /// Whether the person here has ended it.
    pub fn is_given_up(&self) -> bool {
        matches!(self, Self::Pairing(PairingError::GivenUp))
    }
}
