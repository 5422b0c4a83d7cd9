//! Pairing over real sockets: `mpbond pair` at both ends, and the proxy's part in enrolment.
//!
//! Messages and their order are those of [`mpbond_net::pairing`]; this module adds sockets, clock,
//! the person's consent, and the files that record trust.

mod book;
mod call;
mod conversation;
mod enrol;
mod listen;
mod running;

use mpbond_net::identity::Identity;
use mpbond_net::pairing::{Introduction, PairingError, Peer};
use mpbond_net::pipe::PipeAddress;
use mpbond_net::tls::TlsError;

pub use book::{Book, Entry, own_links};
pub use call::{call, enrol, find};
pub use enrol::now_s;
pub(crate) use enrol::serve as serve_enrolment;
pub(crate) use listen::Answer;
pub use listen::{Event, Listener};
pub use running::RunningBook;

/// Default port of `mpbond pair`, beside the helper's 4434.
pub const DEFAULT_PORT: u16 = 4435;

/// This device in a pairing.
#[derive(Clone, Debug)]
pub struct Own {
    /// Its identity.
    pub identity: Identity,
    /// Its own description: role, name, address.
    pub introduction: Introduction,
    /// Its record of trusted devices.
    pub book: Book,
}

/// Result of a pairing: two devices trust each other.
#[derive(Clone, Debug)]
pub struct Paired {
    /// The other device.
    pub peer: Peer,
    /// This device's record of it.
    pub entry: Entry,
}

/// Reason why a device could not be paired.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// Refused by one end of the conversation.
    #[error(transparent)]
    Pairing(#[from] PairingError),
    /// No address for a name.
    #[error("no address is found for {name}: {problem}")]
    Unknown {
        /// The name.
        name: String,
        /// Error of the look-up.
        problem: String,
    },
    /// No connection to any of the addresses.
    #[error("nobody answers at {address}: {problem}")]
    Unreached {
        /// The last one tried.
        address: PipeAddress,
        /// Error of the attempt.
        problem: String,
    },
    /// The program that answers there does not pair.
    #[error("{address}: {problem}")]
    Handshake {
        /// Address that was called.
        address: PipeAddress,
        /// Error of the attempt.
        problem: TlsError,
    },
    /// No device with the code called in time.
    #[error("nobody came with the code in time")]
    NobodyCame,
    /// The listening socket failed.
    #[error("cannot listen: {0}")]
    Listen(std::io::Error),
}

impl PairError {
    /// Whether the person here cancelled it.
    pub fn is_given_up(&self) -> bool {
        matches!(self, Self::Pairing(PairingError::GivenUp))
    }
}
