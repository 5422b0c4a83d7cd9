//! Units and identifiers that the rest of mpbond speaks in.
//!
//! A quantity that crosses a crate border carries its unit in its type:
//! [`Timestamp`] for instants, [`std::time::Duration`] for spans, [`BitRate`]
//! for throughput. Byte counts are plain `u64` with `bytes` in the name.
#![forbid(unsafe_code)]

mod rate;
mod time;

pub use rate::{BitRate, ParseBitRateError};
pub use time::Timestamp;
