//! Where user connections enter mpbond.
//!
//! An app's connection arrives in one of three ways, and leaves this crate in
//! one: as an [`Intercepted`] connection with the [`Destination`] it wants.
//! What happens to it then (a stream of a session, a direct connection, a
//! refusal) is the caller's affair; this crate knows nothing of sessions.
//!
//! * **SOCKS5** ([`Protocol::Socks5`], RFC 1928 and 1929), for apps with proxy
//!   settings; names travel as names, so that the far end resolves them.
//! * **HTTP proxy** ([`Protocol::Http`], RFC 9110 and 9112): `CONNECT`, and
//!   absolute-form requests for plain `http://` addresses.
//! * **Transparent** ([`Protocol::Redirect`], [`Protocol::Tproxy`]), for apps
//!   with no settings at all: [`rules::Rules`] has the kernel hand their
//!   connections over, and [`dns::DnsStub`] answers their name look-ups.
//!
//! # No round trip of its own
//!
//! [`Intercepted::accepted`] tells the client that it may talk. A caller that
//! cares for latency calls it at once, so that the client's first bytes can
//! travel with the message that opens the stream; a caller that wants truthful
//! answers waits for the far end, and then calls it or
//! [`Intercepted::refused`]. After an early `accepted`, a failure can only be
//! told by a reset: [`Client::abort`].
#![forbid(unsafe_code)]

mod client;
mod credentials;
mod destination;
pub mod dns;
mod front;
pub mod http;
mod intercepted;
mod original;
mod refusal;
pub mod rules;
pub mod socks5;

pub use client::{Client, ClientReader};
pub use credentials::Credentials;
pub use destination::{BadDestination, Destination};
pub use front::{Front, FrontConfig, Protocol};
pub use intercepted::{Intercepted, Via};
pub use refusal::Refusal;
