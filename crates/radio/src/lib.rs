//! Radios as pure state machines: when a packet may pass, and its energy.
//!
//! A [`Radio`] is made from a [`RadioProfile`]. Its inputs are packets, hints and the time; it
//! returns the earliest instant at which a packet may pass, for an emulator, and writes its states
//! with their powers to a [`Timeline`], for energy accounts. It reads no clock and no files.
//!
//! ```
//! use mpbond_radio::{Account, Packet, Placement, Profiles, Radio};
//! use mpbond_units::Timestamp;
//!
//! let profiles = Profiles::shipped()?;
//! let lte = profiles.radio("lte-2012")?;
//! // An emulator asks when the first packet may pass: after the promotion.
//! let mut radio = Radio::new(lte, Placement::Live);
//! let mut sums = Account::default();
//! let pass = radio.packet(Timestamp::ZERO, Packet::up(60), &mut sums);
//! assert_eq!(pass, Timestamp::from_micros(260_100));
//! // An account sums the energy, tail included.
//! radio.finish(pass, &mut sums);
//! assert!((sums.summary().joules - 12.765).abs() < 1e-3);
//! # Ok::<(), mpbond_radio::ProfileError>(())
//! ```
//!
//! Powers are in mW, energies in mJ, as the names say; profiles hold the figures and their sources.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod account;
mod active;
mod collaboration;
mod cost;
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
pub use cost::radio_cost;
pub use event::{Direction, Hint, Packet, Placement};
pub use machine::{BluetoothLink, Duty};
pub use power_trace::PowerTrace;
pub use profile::{DeviceProfile, ProfileError, Profiles, RadioProfile};
pub use radio::Radio;
pub use report::{AccessPointReport, CpuShare, DeviceReport, EnergyReport, InterfaceReport};
pub use timeline::{Phase, Span, State, Timeline, Transfer};
