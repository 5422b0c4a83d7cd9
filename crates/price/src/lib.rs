//! Price of a helper: its joules against the seconds that it saves (docs/energy.md, ADR 0035).
//!
//! ```
//! use std::time::Duration;
//!
//! use mpbond_price::{EnergyMode, PricedHelper, PricedLink, radio};
//! use mpbond_units::BitRate;
//!
//! let (lte, wifi) = (radio("lte-2020-tmobile"), radio("wifi-s4"));
//! let (lte, wifi) = (lte.unwrap(), wifi.unwrap());
//! let link = |mbps| PricedLink { radio: lte.down, rate: BitRate::from_mbps(mbps) };
//! let phone = PricedHelper {
//!     own: link(2.0),
//!     helper: link(18.0),
//!     pipe: [wifi.down, wifi.up],
//!     pipe_rate: BitRate::from_mbps(20.0),
//!     store_bytes: 4 << 20,
//! };
//! // A download of 0.2 MB is worth the joules of waking the phone, one of 0.1 MB is not.
//! let price = EnergyMode::Balanced.joules_per_second();
//! let least = phone.break_even(price, Duration::MAX);
//! assert!(least > Some(100_000) && least < Some(200_000));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod helper;
mod mode;
mod pipe_radios;
mod radio_cost;
mod radios;

pub use helper::{Estimate, PricedHelper, PricedLink};
pub use mode::EnergyMode;
pub use pipe_radios::PipeRadios;
pub use radio_cost::RadioCost;
pub use radios::{RADIOS, Radio, radio};
