//! Byte pipes of mpbond, and what travels on them outside the session.
//!
//! [`identity`] holds who a device is, [`tls`] carries records between two
//! devices that know each other's id, and [`tcp`] opens sockets and reads what
//! the kernel knows about them. [`control`] is what a primary and a helper say
//! to each other, [`relay`] is what the helper then does, and [`dest`] decides where a proxy may connect to.
//! [`discovery`] is how a primary recognizes its helper on a network,
//! [`pairing`] how two devices that know nothing of each other come to trust each other.
//! Everything here touches sockets, files or clocks; the pure crates never
//! depend on it.
#![deny(unsafe_code)]

pub mod control;
pub mod dest;
pub mod discovery;
pub mod identity;
pub mod pairing;
pub mod relay;
pub mod tcp;
pub mod tls;

pub use identity::{DeviceId, Identity};
