//! Times of waiting for a guard that removes its rules and its interface.

use std::time::Duration;

/// Maximum time to wait for the guard to clean up.
pub(super) const GUARD_TIME: Duration = Duration::from_secs(3);

/// Interval at which the rules or the interface of an earlier guard are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);
