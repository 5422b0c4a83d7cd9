//! The three daemons of mpbond: primary, helper and proxy.
//!
//! Each is a function of its configuration that runs until it is told to stop:
//! [`primary::run`], [`helper::run`], [`proxy::run`]. What they share is the session
//! [`driver`], which moves bytes between sockets and the session, and [`status`], what they tell
//! of themselves. The program's subcommands are thin fronts of these.

#![deny(unsafe_code)]

pub mod config;
pub mod discovery;
pub mod driver;
pub mod helper;
pub mod memory;
pub mod metrics;
pub mod pairing;
pub mod primary;
pub mod proxy;
pub mod sandbox;
pub mod status;
pub mod status_socket;

mod addresses;
mod descriptors;
mod heap;
mod quota;
mod random;
mod revocation;
mod seldom;
mod sleep;
mod stop;
