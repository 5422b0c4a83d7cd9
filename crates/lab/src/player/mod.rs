//! The link player: link models in real time, between the devices of hosts.
//!
//! One thread owns both devices of every emulated link, and the sockets of Bluetooth links
//! (`bluetooth`). A packet from a host's device waits in the
//! pure model ([`mpbond_sim::link::Link`]) and goes to the other host's device when the model
//! releases it. The thread sleeps in `ppoll` until the next due time or packet, or for a short rest
//! under load (`rest.rs`); it never spins. It measures the lateness of each packet, so that a run
//! on a machine too busy to keep time can be recognized.

mod background;
mod bluetooth;
mod clock;
mod engine;
mod handle;
mod link;
mod observed;
mod packet_log;
pub(crate) mod pcap;
mod rest;

pub use bluetooth::PlayedBluetooth;
pub use clock::Clock;
pub(crate) use engine::restoring;
pub use handle::Player;
pub use link::{Emulated, Logs, PlayedLink, TimedChange};
pub use observed::{Conditions, Passed};
