//! Radios as pure state machines: when a packet may pass, and what it costs.
//!
//! A [`Radio`] is made from a [`RadioProfile`] and told of packets, hints and
//! the passing of time. It answers with the earliest instant at which a packet
//! may pass, for an emulator, and writes its states with their powers to a
//! [`Timeline`], for the energy accounts. Nothing here reads a clock or a file.
//!
//! Powers are in mW, energies in mJ, as the names say; the figures and their
//! sources are in the profiles.
#![forbid(unsafe_code)]

mod active;
mod event;
pub mod machine;
pub mod profile;
mod radio;
mod timeline;

pub use active::ActivePower;
pub use event::{Direction, Hint, Packet, Placement};
pub use machine::{BluetoothLink, Duty};
pub use profile::{DeviceProfile, ProfileError, Profiles, RadioProfile};
pub use radio::Radio;
pub use timeline::{Phase, Span, State, Timeline, Transfer};
