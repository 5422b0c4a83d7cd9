//! What came of a world.

use std::time::Duration;

use mpbond_session::SessionStats;
use mpbond_units::Timestamp;

use super::app::End;
use crate::ideal::Direction;

/// A world that ended as it should.
#[derive(Debug)]
pub struct Outcome {
    /// Its exchanges, in the scenario's order.
    pub exchanges: Vec<ExchangeOutcome>,
    /// The primary's counters.
    pub client: SessionStats,
    /// The proxy's counters.
    pub server: SessionStats,
    /// When it ended.
    pub ended: Timestamp,
    /// Packets that arrived anywhere: what the simulation cost.
    pub packets: u64,
    /// Subflows that were ever joined.
    pub joins: usize,
    /// The longest time in which no new byte came to those who waited for some, while a route
    /// worked that none of them had to be told of.
    pub longest_gap: Duration,
}

/// A world as it was when it ended, as it should or not.
#[derive(Debug)]
pub struct Observed {
    /// Its exchanges, in the scenario's order; none for one that was not over, or ended wrongly.
    pub exchanges: Vec<Option<ExchangeOutcome>>,
    /// Packets that links carried, in the order in which they arrived, where
    /// [`super::Scenario::keeps_log`] says so.
    pub passed: Vec<Passed>,
    /// When it ended.
    pub ended: Timestamp,
    /// What happened that must not.
    pub failure: Option<Failure>,
}

/// A packet that a link carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Index in [`super::Scenario::links`].
    pub link: usize,
    /// Which way it went.
    pub direction: Direction,
    /// IP bytes.
    pub bytes: u32,
    /// When its last bit left the queue.
    pub departed: Timestamp,
    /// When it reached the far end.
    pub arrived: Timestamp,
}

/// One exchange.
#[derive(Debug)]
pub struct ExchangeOutcome {
    /// When it started.
    pub started: Timestamp,
    /// From its start until the client knew its end; `None` when it never ends.
    pub took: Option<Duration>,
    /// The direction of most bytes.
    pub direction: Direction,
    /// How the client saw the origin's bytes end.
    pub client_saw: Option<End>,
    /// How the origin saw the client's bytes end.
    pub origin_saw: Option<End>,
    /// Bytes that the client read.
    pub down_bytes: u64,
    /// Bytes that the origin read.
    pub up_bytes: u64,
    /// What each route carried of the main direction, those that carried nothing left out.
    pub shares: Vec<Share>,
    /// Bytes of the main direction that arrived twice, or too late.
    pub redundant_bytes: u64,
    /// The longest time in which the reader of the main direction got nothing.
    pub longest_stall: Duration,
    /// When the client's first byte came, after the start.
    pub first_byte: Option<Duration>,
    /// Time after the start and bytes that the reader of the main direction had by then, where
    /// [`super::Scenario::keeps_log`] says so.
    pub arrivals: Vec<(Duration, u64)>,
    /// The bound for these links ([`crate::ideal`]); none where it is not defined, or
    /// [`super::Scenario::has_bounds`] does not ask for it.
    pub ideal: Option<Duration>,
}

/// What one route did for an exchange.
#[derive(Debug, Clone)]
pub struct Share {
    /// Its name.
    pub route: String,
    /// Bytes, copies included.
    pub bytes: u64,
    /// From the start of the exchange to the last byte that no other had brought.
    pub finished: Option<Duration>,
}

impl ExchangeOutcome {
    /// Time over the bound.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.took?.as_secs_f64() / self.ideal?.as_secs_f64())
    }

    /// How far apart the first and the last route finished.
    pub fn spread(&self) -> Duration {
        let ends = || self.shares.iter().filter_map(|s| s.finished);
        match (ends().min(), ends().max()) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        }
    }

    /// Redundant bytes over those that were needed.
    pub fn redundant_share(&self) -> f64 {
        let bytes = match self.direction {
            Direction::Down => self.down_bytes,
            Direction::Up => self.up_bytes,
        };
        self.redundant_bytes as f64 / bytes.max(1) as f64
    }
}

/// A world in which something happened that must not.
#[derive(Debug, Clone, thiserror::Error)]
#[error("at {at}: {what}")]
pub struct Failure {
    /// When it was noticed.
    pub at: Timestamp,
    /// What.
    pub what: String,
}
