//! Network access of mpbond: device identities, TLS, TCP sockets, and the protocols outside the
//! session.
//!
//! * [`identity`]: keys, certificates and device ids.
//! * [`tls`]: TLS 1.3 records between two devices that know each other's id.
//! * [`tcp`]: opening and tuning TCP sockets, and the kernel's statistics about them (`TCP_INFO`).
//! * [`control`]: messages between a primary and a helper.
//! * [`pipe`]: connections between a primary and a helper, over TCP or a Unix socket.
//! * [`l2`]: a pipe over Ethernet frames.
//! * [`relay`]: forwarding at a helper, between the HS-Path and the pipe.
//! * [`dest`]: the destinations that a proxy may connect to.
//! * [`discovery`]: recognition of a trusted helper's announcement on the local network.
//! * [`resolve`]: addresses of names, without a thread for each look-up.
//! * [`happy_eyeballs`]: connecting to the first of several addresses that answers.
//! * [`blocks`]: memory of read buffers that slices of them keep.
//! * [`sock_diag`]: user and control group of the program at the other end of a local connection.
//! * [`pairing`]: mutual authentication of two devices by a short code.
//!
//! The pure crates never depend on this crate.
#![deny(unsafe_code)]

pub mod blocks;
pub mod control;
pub mod dest;
pub mod discovery;
mod endpoint;
pub mod happy_eyeballs;
pub mod identity;
pub mod l2;
pub mod pairing;
pub mod pipe;
pub mod relay;
pub mod resolve;
pub mod sock_diag;
pub mod tcp;
pub mod tls;

pub use endpoint::{Endpoint, ParseEndpointError};
pub use identity::{DeviceId, Identity};
