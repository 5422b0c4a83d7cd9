//! Round-trip time of a pipe that has no TCP_INFO, by PINGs on its control connection.

use std::time::Duration;

use tokio::time::Instant;

use super::message::Message;

/// PINGs on a connection, one after the other: the first answers may wait for a device that is
/// busy with the connection itself.
const PINGS: u64 = 4;

/// The first round trips of a control connection, of which the least one counts.
#[derive(Debug, Default)]
pub struct RoundTrips {
    /// PINGs that were sent; the last one's number is its token.
    sent: u64,
    /// When the last one was sent, until it is answered.
    waits_since: Option<Instant>,
    least: Option<Duration>,
}

impl RoundTrips {
    /// The next PING, unless one is under way or all were sent.
    pub fn ask(&mut self, now: Instant) -> Option<Message> {
        if self.sent == PINGS || self.waits_since.is_some() {
            return None;
        }
        self.sent += 1;
        self.waits_since = Some(now);
        Some(Message::Ping { token: self.sent })
    }

    /// A PONG with this token has come. Others than that of the PING under way count for nothing.
    pub fn answered(&mut self, now: Instant, token: u64) {
        if token == self.sent
            && let Some(since) = self.waits_since.take()
        {
            let took = now.duration_since(since);
            self.least = Some(self.least.map_or(took, |least| least.min(took)));
        }
    }

    /// The least one, if any.
    pub fn least(&self) -> Option<Duration> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_four_counts() {
        let (begin, mut trips) = (Instant::now(), RoundTrips::default());
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(trips.least(), None);
        for (number, took, least) in [(1, 300, 300), (2, 40, 40), (3, 55, 40), (4, 60, 40)] {
            let now = at(1_000 * number);
            assert_eq!(trips.ask(now), Some(Message::Ping { token: number }));
            assert_eq!(trips.ask(now), None, "one at a time");
            trips.answered(now, number + 1);
            trips.answered(now, number - 1);
            trips.answered(now + Duration::from_millis(took), number);
            // Repeated.
            trips.answered(now, number);
            assert_eq!(trips.least(), Some(Duration::from_millis(least)));
        }
        assert_eq!(trips.ask(at(9_000)), None);
    }
}
