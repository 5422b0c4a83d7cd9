//! Decisions of a watch with Bluetooth to a phone and WiFi of its own ("Understanding the
//! Networking Performance of Wear OS").
//!
//! | module | decisions about |
//! | --- | --- |
//! | `selection` | which of Bluetooth and WiFi carries new data (section 5.2) |
//! | `kalman` | smoothed strength of the signal |
//! | `handover` | when WiFi is woken, and when data move between the two (section 6.4) |
//! | `sniff_keeper` | when a small packet keeps the phone's link Active (section 3.3) |
//! | `virtual_queue` | how fast a phone reads from servers for a watch (section 4.3) |
//!
//! The simulator uses them. Of the daemons' path manager, the choice among pipes uses `kalman`.

mod handover;
mod kalman;
mod selection;
mod sniff_keeper;
mod virtual_queue;

pub use handover::{Handover, HandoverAction, HandoverMode, KEEP_ALIVE, WifiState};
pub use kalman::{Kalman, SIGNAL_CHANGE, SIGNAL_NOISE};
pub use selection::{Interface, Observation, Rule, Selection};
pub use sniff_keeper::SniffKeeper;
pub use virtual_queue::VirtualQueue;
