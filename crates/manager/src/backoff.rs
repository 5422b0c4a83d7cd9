//! Pauses between attempts.

use std::time::Duration;

use mpbond_units::Timestamp;

/// A connection that lasted longer than this resets the pauses of its link.
pub(crate) const STEADY: Duration = Duration::from_secs(5);

/// Pauses that double from [`Backoff::FIRST`] to [`Backoff::LAST`].
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// Long enough that an endpoint that refuses at once costs no load.
    pub(crate) const FIRST: Duration = Duration::from_millis(100);
    /// A helper or proxy that is back is found within this time.
    pub(crate) const LAST: Duration = Duration::from_secs(10);

    pub(crate) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// End of the pause that begins now.
    pub(crate) fn pause(&mut self, now: Timestamp) -> Timestamp {
        let end = now + self.next;
        self.next = (self.next * 2).min(Self::LAST);
        end
    }

    /// The next pause is the shortest again.
    pub(crate) fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    /// Resets the pauses if a connection made at `since` has lasted.
    pub(crate) fn lasted(&mut self, since: Timestamp, now: Timestamp) {
        if now.since(since) > STEADY {
            self.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_ten_seconds() {
        let mut backoff = Backoff::new();
        let now = Timestamp::from_millis(7);
        let pauses: Vec<u128> = (0..9)
            .map(|_| backoff.pause(now).since(now).as_millis())
            .collect();
        let expected = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000];
        assert_eq!(pauses, expected);
        let since = Timestamp::from_millis(1_000);
        backoff.lasted(since, since + STEADY);
        assert_eq!(backoff.pause(now).since(now), Backoff::LAST);
        backoff.lasted(since, since + STEADY + Duration::from_nanos(1));
        assert_eq!(backoff.pause(now).since(now), Backoff::FIRST);
    }
}
