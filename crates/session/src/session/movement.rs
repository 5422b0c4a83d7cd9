//! Pauses in which no stream bytes move.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::event::Event;
use super::health::IDLE_LONG;

/// When stream bytes last moved, on any subflow and in either direction.
#[derive(Debug, Default)]
pub(super) struct Movement {
    last: Timestamp,
}

impl Movement {
    /// Stream bytes move now. Returns the event if none had for long.
    pub(super) fn moved(&mut self, now: Timestamp) -> Option<Event> {
        let quiet = self.quiet_for(now);
        self.last = now;
        (quiet >= IDLE_LONG).then_some(Event::Moving)
    }

    /// Time since stream bytes last moved; the time itself if they never did.
    pub(super) fn quiet_for(&self, now: Timestamp) -> Duration {
        now.since(self.last)
    }
}
