//! Requests and answers over one connection, at a constant rate: messages, keystrokes and their
//! echoes.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::Timestamp;

/// Requests and answers over one connection, each of the sizes of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// When the first request is due, after the start.
    pub first: Duration,
    /// Interval of the requests.
    pub every: Duration,
    /// No request is due from this time after the start on.
    pub length: Duration,
    /// Rule for requests that are due while an answer is awaited.
    pub late: Late,
}

/// A request that is due while an answer is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It is left out: messages, of which one is under way at a time.
    LeftOut,
    /// It is sent: keys that are typed ahead of their echoes.
    SentAhead,
}

/// A request with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// When the request was due, since the start of the exchange.
    pub due: Duration,
    /// Time from then to the last byte of the answer.
    pub took: Duration,
}

/// State of one end of an exchange with rounds.
#[derive(Debug)]
pub(super) enum Part {
    Asks(Asking),
    /// The origin, with the size of a request.
    Answers(u64),
}

/// A client's progress.
#[derive(Debug)]
pub(super) struct Asking {
    rounds: Rounds,
    started: Timestamp,
    answer_bytes: u64,
    /// When the next request is due, since the start.
    next: Duration,
    /// When the requests were due whose answers are awaited.
    awaited: VecDeque<Duration>,
    asked: u64,
    answered: Vec<Round>,
}

impl Asking {
    pub(super) fn new(started: Timestamp, rounds: Rounds, answer_bytes: u64) -> Self {
        Self {
            rounds,
            started,
            answer_bytes: answer_bytes.max(1),
            next: rounds.first,
            awaited: VecDeque::new(),
            asked: 0,
            answered: Vec::new(),
        }
    }

    /// When the next request is due, if that is known.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let waits = self.rounds.late == Late::LeftOut && !self.awaited.is_empty();
        (self.next < self.rounds.length && !waits).then(|| self.started + self.next)
    }

    /// Requests that were to be sent by now, in all.
    pub(super) fn ask(&mut self, now: Timestamp) -> u64 {
        while self.due().is_some_and(|due| due <= now) {
            self.awaited.push_back(self.next);
            self.asked += 1;
            self.next += self.rounds.every.max(Duration::from_nanos(1));
        }
        self.asked
    }

    /// So many bytes have been read, in all.
    pub(super) fn read(&mut self, now: Timestamp, bytes: u64) {
        let whole = bytes / self.answer_bytes;
        while (self.answered.len() as u64) < whole
            && let Some(due) = self.awaited.pop_front()
        {
            let took = now.since(self.started + due);
            self.answered.push(Round { due, took });
            if self.rounds.late == Late::LeftOut {
                self.next = self.next.max(self.not_past(now));
            }
        }
    }

    /// The first time at which a request would be due that is not past.
    fn not_past(&self, now: Timestamp) -> Duration {
        let Rounds { first, every, .. } = self.rounds;
        let past = now.since(self.started).saturating_sub(first).as_nanos();
        let steps = past.div_ceil(every.as_nanos().max(1));
        first + every * u32::try_from(steps).unwrap_or(u32::MAX)
    }

    /// Whether all requests are sent and answered.
    pub(super) fn is_over(&self) -> bool {
        self.awaited.is_empty() && self.next >= self.rounds.length
    }

    pub(super) fn answered(&self) -> &[Round] {
        &self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn asking(late: Late) -> Asking {
        let rounds = Rounds {
            first: MS(200),
            every: MS(200),
            length: MS(1_000),
            late,
        };
        Asking::new(at(5_000), rounds, 100)
    }

    #[test]
    fn messages_that_are_due_too_early_are_left_out() {
        let mut client = asking(Late::LeftOut);
        assert_eq!(client.due(), Some(at(5_200)));
        assert_eq!((client.ask(at(5_199)), client.ask(at(5_200))), (0, 1));
        assert_eq!(client.due(), None);
        client.read(at(5_300), 99);
        assert_eq!(client.due(), None);
        // Those of 400 and 600 ms are left out; that of 800 ms is due at once.
        client.read(at(5_800), 100);
        assert_eq!(client.due(), Some(at(5_800)));
        assert_eq!(client.ask(at(5_800)), 2);
        assert!(!client.is_over());
        client.read(at(5_850), 200);
        assert!(client.is_over() && client.due().is_none());
        let round = |due, took| Round {
            due: MS(due),
            took: MS(took),
        };
        assert_eq!(client.answered(), [round(200, 600), round(800, 50)]);
    }

    #[test]
    fn messages_begin_when_the_first_is_due_and_are_left_out_in_steps_from_then() {
        let rounds = Rounds {
            first: MS(350),
            every: MS(200),
            length: MS(1_000),
            late: Late::LeftOut,
        };
        let mut client = Asking::new(at(5_000), rounds, 100);
        assert_eq!(client.due(), Some(at(5_350)));
        client.ask(at(5_350));
        // That of 550 ms is left out.
        client.read(at(5_600), 100);
        assert_eq!(client.due(), Some(at(5_750)));
        client.ask(at(5_750));
        client.read(at(5_760), 200);
        assert_eq!(client.due(), Some(at(5_950)));
    }

    #[test]
    fn keys_are_typed_ahead_of_their_echoes() {
        let mut client = asking(Late::SentAhead);
        assert_eq!(client.ask(at(5_650)), 3);
        assert_eq!(client.due(), Some(at(5_800)));
        client.read(at(5_700), 250);
        assert_eq!(client.ask(at(7_000)), 4);
        assert!(client.due().is_none() && !client.is_over());
        client.read(at(7_100), 400);
        assert!(client.is_over());
        let took = client.answered().iter().map(|round| round.took.as_millis());
        assert_eq!(took.collect::<Vec<_>>(), [500, 300, 1_500, 1_300]);
    }
}
