//! Facts of the device on which rules depend.

use std::collections::BTreeSet;
use std::time::SystemTime;

use jiff::Timestamp;
use mpbond_policy::{Device, Fact};

/// Reason for which a fact is unknown: no rule in force depends on it.
const NOT_FOUND_OUT: &str = "not found out yet";

/// The facts at present.
pub fn device() -> Device {
    Device {
        now: match Timestamp::try_from(SystemTime::now()) {
            Ok(now) => Fact::known(now, "the clock"),
            Err(_) => Fact::unknown("the clock shows no time"),
        },
        battery: Fact::unknown(NOT_FOUND_OUT),
        charging: Fact::unknown(NOT_FOUND_OUT),
        links: Vec::new(),
        spent_budgets: BTreeSet::new(),
    }
}
