//! A DNS stub: look-ups that would leak go through the session instead.
//!
//! [`DnsStub`] takes DNS messages over UDP and TCP on local addresses and
//! forwards them as DNS over TCP (RFC 7766) on a byte stream that the caller
//! opens (through the session) to one of the configured resolvers. It looks at
//! no more of a message than it must: header, question, and the UDP size that
//! the client takes (EDNS, RFC 6891); answers pass as they are, so that DNSSEC
//! and record types of tomorrow do too. It does not cache: hosts that care have
//! a cache in front of it (systemd-resolved, dnsmasq, the browser's own).
//!
//! One connection to a resolver carries all look-ups side by side, with ids of
//! its own. When it breaks or falls silent, the look-ups on it are asked once
//! more on a new one, at the next resolver. A look-up that nobody answers in
//! time gets SERVFAIL, so that clients try elsewhere instead of waiting.

mod message;
mod stub;
mod upstream;

pub use message::{BadQuery, Query, Rcode};
pub use stub::{DnsConfig, DnsStub};
pub use upstream::Dial;
