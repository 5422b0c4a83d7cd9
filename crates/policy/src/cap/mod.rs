//! Caps on the bytes of a link, of a helper, or of the flows of a rule.

mod account;
mod counter;
mod period;

pub use account::{Account, CapEvent, Reservation};
pub use counter::{InterfaceCounter, Reading};
use jiff::tz::TimeZone;
pub use period::{Period, period_at};
use serde::{Deserialize, Serialize};

/// A number of bytes for each period of a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Bytes of both directions, at least 1.
    pub bytes: u64,
    /// Day of the month on which the count begins anew, 1 to 31; in a shorter month, its last day.
    pub reset_day: u8,
    /// Zone of the day's begin.
    pub zone: TimeZone,
    /// Percentage of the bytes at which the user is warned.
    pub warn_percent: Option<u8>,
    /// Use of the link when all bytes are used.
    pub at_cap: AtCap,
}

/// Use of a link, when its cap is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtCap {
    /// It carries nothing.
    #[default]
    Off,
    /// It carries data while no other link works. Those bytes are counted, and exceed the cap.
    Standby,
}
