//! Timers of a session and their deadlines.

use mpbond_units::Timestamp;

/// What a session does by itself when time has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// An ACK is written.
    Ack,
    /// The scheduler, which has deferred, is asked again.
    Schedule,
    /// Streams whose application has stopped reading are looked for.
    Stall,
    /// Client: subflows are asked whether they work.
    Liveness,
    /// Client: a subflow is kept from being forgotten.
    KeepAlive,
    /// Subflows whose acknowledgements have stopped are looked for.
    Health,
    /// A session without any path is given up.
    Resume,
}

/// A table of deadlines, one for each timer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deadlines([Option<Timestamp>; Self::TIMERS]);

impl Deadlines {
    const TIMERS: usize = Timer::Resume as usize + 1;

    pub(super) fn get(&self, timer: Timer) -> Option<Timestamp> {
        self.0[timer as usize]
    }

    /// Sets a timer, or stops it.
    pub(super) fn set(&mut self, timer: Timer, at: Option<Timestamp>) {
        self.0[timer as usize] = at;
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.set(timer, None);
    }

    pub(super) fn is_due(&self, timer: Timer, now: Timestamp) -> bool {
        self.get(timer).is_some_and(|t| t <= now)
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.0.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_deadline_counts() {
        let ms = Timestamp::from_millis;
        let mut deadlines = Deadlines::default();
        assert_eq!(deadlines.earliest(), None);
        deadlines.set(Timer::Resume, Some(ms(9)));
        deadlines.set(Timer::Ack, Some(ms(5)));
        assert_eq!(deadlines.earliest(), Some(ms(5)));
        assert!(deadlines.is_due(Timer::Ack, ms(5)) && !deadlines.is_due(Timer::Ack, ms(4)));
        deadlines.stop(Timer::Ack);
        assert_eq!(deadlines.earliest(), Some(ms(9)));
    }
}
