//! DNS stub: forwards look-ups through the session, so that they do not leak.
//!
//! [`DnsStub`] receives DNS messages over UDP and TCP on local addresses and forwards them as DNS
//! over TCP (RFC 7766) on a byte stream that the caller opens (through the session) to one of the
//! configured resolvers. It parses only what forwarding needs: header, question, and the client's
//! UDP size (EDNS, RFC 6891); responses are passed unchanged, so that DNSSEC and future record
//! types work. It does not cache: a cache belongs in front of it (systemd-resolved, dnsmasq, the
//! browser's own). Only questions for addresses of a family that is not reached
//! ([`ReachedFamilies`]) are answered here: there are none. The addresses that names had are noted
//! ([`KnownNames`]): rules on names may concern later connections to them.
//!
//! One connection to a resolver multiplexes all look-ups under message ids of its own. When it
//! breaks or times out, its look-ups are retried once on a new connection to the next resolver. A
//! look-up without a response in time gets SERVFAIL, so that clients try elsewhere instead of
//! waiting.

mod addresses;
mod known_names;
mod local_names;
mod message;
mod reached_families;
mod stub;
mod upstream;

pub use known_names::{KnownNames, Paused};
pub use local_names::LocalNames;
pub use message::{BadQuery, Family, MAX_QUERY_BYTES, Query, Rcode};
pub use reached_families::ReachedFamilies;
pub use stub::{DnsConfig, DnsSockets, DnsStub};
pub use upstream::{Dial, look_up, take_message};
