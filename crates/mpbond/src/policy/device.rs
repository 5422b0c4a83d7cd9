//! Facts of the device on which rules depend.

use std::collections::BTreeSet;
use std::time::SystemTime;

use jiff::Timestamp;
use mpbond_policy::{Device, Fact, LinkState};

use crate::power::Reading;

/// The facts at present, with this state of batteries and links.
pub fn device(batteries: Reading, links: Vec<LinkState>) -> Device {
    Device {
        now: match Timestamp::try_from(SystemTime::now()) {
            Ok(now) => Fact::known(now, "the clock"),
            Err(_) => Fact::unknown("the clock shows no time"),
        },
        battery: batteries.level(),
        charging: batteries.is_charging(),
        links,
        spent_budgets: BTreeSet::new(),
    }
}
