//! The daemon's clock.

use std::sync::Arc;
use std::time::Duration;

use mpbond_units::Timestamp;
use tokio::time::Instant;

/// The daemon's clock: timestamps count from its start.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Arc<Instant>,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self {
            start: Arc::new(Instant::now()),
        }
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    /// A timestamp as an instant of tokio's timers.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let since = at.since(Timestamp::ZERO);
        // Later than any daemon runs: an instant that the platform cannot represent would panic.
        let since = since.min(Duration::from_secs(10 * 365 * 86_400));
        *self.start + since
    }
}
