//! Records between two devices that know each other's id: TLS 1.3, mutual,
//! with exact counts of ciphertext octets.
//!
//! A subflow's acknowledgement is a count of ciphertext octets from the start
//! of the TLS stream, so both ends must agree on it to the octet. Therefore
//! nothing travels here that one end does not see: no session tickets, no
//! resumption, no early data, and one record for every call of
//! [`TlsStream::queue_record`].
//!
//! rustls makes the handshake through its unbuffered interface and then hands
//! over the traffic keys, as it does for kernel TLS: its own unbuffered record
//! layer copies every payload once more each way. Our record layer seals and opens
//! records in place with ring; rustls keeps deriving the keys (KeyUpdate).

mod config;
mod error;
mod exporter;
mod handshake;
mod record;
mod stream;

pub use config::{ALPN, PAIRING_ALPN, Purpose, Trust};
pub use error::TlsError;
pub use record::{MAX_RECORD_PLAINTEXT_BYTES, RECORD_OVERHEAD_BYTES};
pub use stream::{Record, TlsStream};

#[cfg(test)]
mod tests;
