use std::sync::Arc;
use std::time::{Duration, Instant};

use mpbond_units::Timestamp;

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

    /// Now.
    pub fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    /// The instant that tokio's timers understand.
    pub fn instant(&self, at: Timestamp) -> tokio::time::Instant {
        let since = at.since(Timestamp::ZERO);
        // Far enough for anybody; an instant beyond what the platform can hold must not panic.
        let since = since.min(Duration::from_secs(10 * 365 * 86_400));
        tokio::time::Instant::from_std(*self.start + since)
    }
}
