//! `mpbond-bluetooth`: pipes between the daemons of two devices over Bluetooth.
//!
//! A primary and a helper speak over Unix sockets; this program carries each of their connections
//! as one of RFCOMM. It needs no key: the daemons authenticate each other by TLS. It shares no code
//! with them, and needs no other privilege than sockets of Bluetooth.
#![deny(unsafe_code)]

mod activity;
mod address;
mod bonds;
mod carry;
mod channels;
mod check;
mod cli;
mod connect;
mod connections;
mod listen;
mod radio;
mod reason;
mod repeats;
mod signal;
mod socket_file;
mod sys;

pub use cli::main;

/// Parsers of input from controllers, files and sockets, for the fuzz targets.
pub mod parsers {
    pub use crate::bonds::bonded_name;
    pub use crate::signal::status;
    pub use crate::sys::rssi::answer;
}
