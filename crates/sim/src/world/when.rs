//! Instants of a scenario.

use std::time::Duration;

/// An instant, absolute or relative to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Time since the beginning of the world.
    At(Duration),
    /// Time since both ends first had a subflow on every route.
    AfterJoined(Duration),
    /// Time since the start of this exchange.
    AfterStart(usize, Duration),
    /// Time since the end of this exchange at the client.
    AfterEnd(usize, Duration),
    /// Time since the end of the last of these exchanges at the client, when all are over. One that
    /// was left out is over.
    AfterAll {
        /// First of the exchanges.
        first: usize,
        /// Last of the exchanges.
        last: usize,
        /// The time.
        wait: Duration,
    },
    /// Time since the last byte of this visit.
    AfterVisit(usize, Duration),
}

impl When {
    /// The instant `by` after this one.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        match self {
            Self::At(after) => Self::At(after + by),
            Self::AfterJoined(after) => Self::AfterJoined(after + by),
            Self::AfterStart(e, after) => Self::AfterStart(e, after + by),
            Self::AfterEnd(e, after) => Self::AfterEnd(e, after + by),
            Self::AfterVisit(v, after) => Self::AfterVisit(v, after + by),
            Self::AfterAll { first, last, wait } => Self::AfterAll {
                first,
                last,
                wait: wait + by,
            },
        }
    }
}
