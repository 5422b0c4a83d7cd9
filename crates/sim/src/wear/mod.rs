//! A server, a phone and a watch in virtual time (Wear OS paper, Figure 1): the server sends to the
//! watch over the phone's proxy and Bluetooth, over WiFi, or over both.
//!
//! ```text
//!            TCP (phone's network)         proxy          RFCOMM
//!   server ------------------------ phone -------- FIFO ------------ watch
//!      |                                                              |
//!      +------------------------ TCP (WiFi) ---------------------------+
//! ```
//!
//! Each flow has a connection of its own on each path. The proxy reads connections in turn into one
//! queue of all flows, as long as that has room. The server cuts flows into chunks and assigns each
//! to a path, or to both; the watch delivers them in order. Decisions are those of
//! [`control`], Bluetooth is [`crate::link::Rfcomm`].
//!
//! Not modelled: acknowledgements of applications, which would restart the watch's timer; the time
//! that processors take; other devices on WiFi.

mod air;
mod carried;
pub mod control;
mod flow;
mod joining;
mod noise;
mod outcome;
mod phases;
mod phone;
mod setup;
mod world;

#[cfg(test)]
mod tests;

pub use control::{HandoverMode, Rule};
pub use joining::Joining;
pub use outcome::{Delivery, Joules, Outcome};
pub use setup::{Connects, Interference, Network, Paths, Radios, Setup, Traffic, Walk, Wifi};
pub use world::run;

pub(crate) use noise::signal_noise;

/// Payload of a full chunk in bytes: that of a segment.
const CHUNK_BYTES: u64 = crate::tcp::MSS;

/// Path from the server to the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Path {
    /// Over the phone and Bluetooth.
    Phone,
    /// Over the watch's WiFi.
    Wifi,
}

impl Path {
    const ALL: [Self; 2] = [Self::Phone, Self::Wifi];

    fn index(self) -> usize {
        match self {
            Self::Phone => 0,
            Self::Wifi => 1,
        }
    }
}
