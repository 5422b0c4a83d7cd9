//! Mutually authenticated TLS 1.3 between two devices that know each other's id, with exact counts
//! of ciphertext octets.
//!
//! A subflow's acknowledgement is a count of ciphertext octets from the start of the TLS stream, so
//! both ends must agree on it to the octet. Therefore every record is visible to both ends: no
//! session tickets, no resumption, no early data, and one record for every call of
//! [`TlsStream::queue_record`].
//!
//! rustls performs the handshake through its unbuffered interface and then exports the traffic
//! keys, as for kernel TLS. The record layer is this module's own, because the one of rustls copies
//! every payload once more in each direction: it seals and opens records in place with ring. rustls
//! still derives the keys of a KeyUpdate.

mod config;
mod error;
mod exporter;
mod handshake;
mod hello;
mod label;
mod provider;
mod record;
mod record_size;
mod stream;

pub use config::{ALPN, PAIRING_ALPN, Purpose, Trust};
pub use error::TlsError;
pub use hello::{MAX_HELLO_BYTES, Peeked, server_name_of_hello};
pub use label::{Label, label_of_hello};
pub(crate) use provider::PROVIDER;
pub use record_size::{MAX_RECORD_PLAINTEXT_BYTES, RECORD_OVERHEAD_BYTES};
pub use stream::{Record, TlsStream};

#[cfg(test)]
mod tests;
