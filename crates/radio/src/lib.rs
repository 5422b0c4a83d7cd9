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

mod account;
mod active;
mod collaboration;
mod event;
pub mod fit;
pub mod machine;
mod power_trace;
pub mod profile;
mod radio;
mod report;
mod svg;
mod timeline;

pub use account::{Account, PhaseSum, StateSum, Summary};
pub use active::ActivePower;
pub use collaboration::{Collaboration, DeviceId, InterfaceId, account, account_into};
pub use event::{Direction, Hint, Packet, Placement};
pub use machine::{BluetoothLink, Duty};
pub use power_trace::PowerTrace;
pub use profile::{DeviceProfile, ProfileError, Profiles, RadioProfile};
pub use radio::Radio;
pub use report::{AccessPointReport, DeviceReport, EnergyReport, InterfaceReport};
pub use timeline::{Phase, Span, State, Timeline, Transfer};
