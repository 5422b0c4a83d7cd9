//! Facts of the device on which rules depend.

use std::collections::BTreeSet;
use std::time::SystemTime;

use jiff::Timestamp;
use mpbond_policy::{Device, Fact};

use crate::power::Reading;

/// The facts at present, with this state of the batteries.
pub fn device(batteries: Reading) -> Device {
    Device {
        now: match Timestamp::try_from(SystemTime::now()) {
            Ok(now) => Fact::known(now, "the clock"),
            Err(_) => Fact::unknown("the clock shows no time"),
        },
        battery: batteries.level(),
        charging: batteries.is_charging(),
        links: Vec::new(),
        spent_budgets: BTreeSet::new(),
    }
}
