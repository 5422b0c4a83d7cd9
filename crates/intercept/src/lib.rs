//! Interception of user connections: SOCKS5, HTTP proxy, transparent redirection and a DNS stub.
//!
//! An application's connection arrives in one of three ways and leaves this crate as an
//! [`Intercepted`] connection with its [`Destination`]. The caller decides how to carry it (a
//! stream of a session, a direct connection, a refusal); this crate does not depend on sessions.
//!
//! * **SOCKS5** ([`Protocol::Socks5`], RFC 1928 and RFC 1929), for applications with proxy
//!   settings; names are passed on, so that the proxy resolves them. Programs that know SOCKS 4 or
//!   4A only are served, too, where no password is required.
//! * **HTTP proxy** ([`Protocol::Http`], RFC 9110 and RFC 9112): `CONNECT`, and absolute-form
//!   requests for plain `http://` addresses.
//! * **Transparent** ([`Protocol::Redirect`], [`Protocol::Tproxy`]), for applications without
//!   settings: [`rules::Rules`] redirects their connections in the kernel, and [`dns::DnsStub`]
//!   answers their name look-ups.
//!
//! # No additional round trip
//!
//! [`Intercepted::accepted`] confirms the connection to the client. For low latency, call it at
//! once, so that the client's first bytes travel with the message that opens the stream; for
//! accurate replies, wait for the remote end and then call it or [`Intercepted::refused`]. After an
//! early `accepted`, a failure can only be signalled by a reset: [`Client::abort`].
#![deny(unsafe_code)]

mod client;
mod closing;
mod credentials;
mod destination;
pub mod dns;
mod front;
pub mod http;
mod intent;
mod intercepted;
mod original;
mod reception;
mod refusal;
pub mod rules;
mod socks4;
pub mod socks5;
mod socks_step;

pub use client::{Client, ClientReader};
pub use credentials::Credentials;
pub use destination::{BadDestination, Destination};
pub use front::{Front, FrontConfig, Protocol};
pub use intent::{BadIntent, Class, Intent};
pub use intercepted::{Intercepted, Via};
pub use reception::Reception;
pub use refusal::Refusal;
