//! The three daemons of mpbond: primary, helper and proxy.
//!
//! Each is a function of its configuration and runs until SIGINT or SIGTERM:
//! [`primary::run`], [`helper::run`], [`proxy::run`]. They share the session
//! [`driver`], which moves bytes between sockets and the session, and [`status`], their state as
//! shown to people and metrics. The program's subcommands are thin wrappers around them.

#![deny(unsafe_code)]

pub use lasting::is_lasting;

pub mod api;
pub mod checks;
pub mod config;
pub mod discovery;
pub mod driver;
pub mod families;
pub mod helper;
pub mod memory;
pub mod metrics;
pub mod own_mark;
pub mod pairing;
pub mod policy;
pub mod primary;
pub mod process;
pub mod proxy;
pub mod reload;
pub mod sandbox;
pub mod speed;
pub mod status;
pub mod status_socket;
mod status_text;
pub mod uevents;
pub mod uplinks;
pub mod usage;

mod account_file;
mod addresses;
mod admission;
mod descriptors;
mod heap;
mod http;
mod internal;
mod lasting;
mod link_problem;
mod names;
mod near;
mod network_changes;
mod peer_groups;
mod power;
mod pricing;
mod quota;
mod random;
mod rate_limited_log;
mod revocation;
mod rights;
mod sleep;
mod socket_file;
mod stop;
mod task;
mod upgrade;
