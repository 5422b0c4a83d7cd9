//! Decisions of a watch with Bluetooth to a phone and WiFi of its own ("Understanding the
//! Networking Performance of Wear OS").
//!
//! | module | decisions about |
//! | --- | --- |
//! | `selection` | which of Bluetooth and WiFi carries new data (section 5.2) |
//! | `handover` | when WiFi is woken, and when data move between the two (section 6.4) |
//! | `sniff_keeper` | when a small packet keeps the phone's link Active (section 3.3) |
//! | `virtual_queue` | how fast a phone reads from servers for a watch (section 4.3) |
//!
//! The filter of the signal is the daemons' ([`mpbond_manager::Kalman`]), which have none of these
//! (ADR 0067).

mod handover;
mod selection;
mod sniff_keeper;
mod virtual_queue;

pub use handover::{Handover, HandoverAction, HandoverMode, KEEP_ALIVE, WifiState};
pub use selection::{Interface, Observation, Rule, Selection};
pub use sniff_keeper::SniffKeeper;
pub use virtual_queue::VirtualQueue;
