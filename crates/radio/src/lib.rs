//! Radios as pure state machines: when a packet may pass, and what it costs.
//!
//! A [`Radio`] is made from a [`RadioProfile`] and told of packets, hints and
//! the passing of time. It answers with the earliest instant at which a packet
//! may pass, for an emulator, and writes its states with their powers to a
//! [`Timeline`], for the energy accounts. Nothing here reads a clock or a file.
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
//! // An account asks what it cost, tail and all.
//! radio.finish(pass, &mut sums);
//! assert!((sums.summary().joules - 12.765).abs() < 1e-3);
//! # Ok::<(), mpbond_radio::ProfileError>(())
//! ```
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
