//! Clock of the link player.

use std::time::Instant;

use mpbond_units::Timestamp;

/// A monotonic clock, in nanoseconds since its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Current time.
    pub fn now(self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }
}
