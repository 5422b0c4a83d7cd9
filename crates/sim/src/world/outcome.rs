//! Results of a world.

use std::time::Duration;

use mpbond_session::{Copies, SessionStats};
use mpbond_units::Timestamp;

use super::app::End;
use super::rounds::Round;
use super::visit::VisitOutcome;
use crate::ideal::Direction;

/// Result of a world that ended without a failure.
#[derive(Debug)]
pub struct Outcome {
    /// Its exchanges, in the scenario's order, then those of visits.
    pub exchanges: Vec<ExchangeOutcome>,
    /// The primary's counters.
    pub client: SessionStats,
    /// The proxy's counters.
    pub server: SessionStats,
    /// When it ended.
    pub ended: Timestamp,
    /// Packets that arrived on all links, as a measure of the simulation's cost.
    pub packets: u64,
    /// Exchanges that went direct, past the proxy, and the time from their start until then.
    pub went_direct: Vec<(usize, Duration)>,
    /// Subflows that were joined.
    pub joins: usize,
    /// Longest time without a new byte while an application waited for one and a route worked.
    pub longest_gap: Duration,
}

/// State of a world at its end, with or without a failure.
#[derive(Debug)]
pub struct Observed {
    /// Its exchanges, in the scenario's order, then those of visits; `None` for one that was not
    /// over or ended wrongly.
    pub exchanges: Vec<Option<ExchangeOutcome>>,
    /// By exchange: whether it was left out ([`super::Exchange::never_beside`]).
    pub left_out: Vec<bool>,
    /// Its visits, in the scenario's order.
    pub visits: Vec<VisitOutcome>,
    /// Packets that links carried, in order of arrival, if [`super::Scenario::keeps_log`] is set.
    pub passed: Vec<Passed>,
    /// When it ended.
    pub ended: Timestamp,
    /// The failure, if there was one.
    pub failure: Option<Failure>,
}

/// A packet that a link carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Index in [`super::Scenario::links`].
    pub link: usize,
    /// Direction of the packet.
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
    /// From its start until the client knew its end; `None` if it never ends.
    pub took: Option<Duration>,
    /// Main direction: that of most bytes.
    pub direction: Direction,
    /// How the client saw the origin's bytes end.
    pub client_saw: Option<End>,
    /// How the origin saw the client's bytes end.
    pub origin_saw: Option<End>,
    /// Bytes that the client read.
    pub down_bytes: u64,
    /// Bytes that the origin read.
    pub up_bytes: u64,
    /// Share of each route in the main direction, without routes that carried nothing.
    pub shares: Vec<Share>,
    /// Bytes of the main direction that arrived twice, or too late.
    pub redundant_bytes: u64,
    /// Copies among the bytes of the main direction, as its sender counts them.
    pub copies: Copies,
    /// Longest time without a byte for the reader of the main direction.
    pub longest_stall: Duration,
    /// Time from the start to the client's first byte.
    pub first_byte: Option<Duration>,
    /// Time from the start until the origin had something to write.
    pub ready: Option<Duration>,
    /// Time since the start and bytes that an origin of constant rate had written by then, if
    /// [`super::Scenario::keeps_log`] is set.
    pub writes: Vec<(Duration, u64)>,
    /// Time since the start and bytes that the reader of the main direction had by then, if
    /// [`super::Scenario::keeps_log`] is set.
    pub arrivals: Vec<(Duration, u64)>,
    /// Requests with their answers, if the exchange repeats them ([`super::Exchange::rounds`]).
    pub rounds: Vec<Round>,
    /// Lower bound for these links ([`crate::ideal`]); `None` if it is not defined or
    /// [`super::Scenario::has_bounds`] is unset.
    pub ideal: Option<Duration>,
}

/// Share of one route in an exchange.
#[derive(Debug, Clone)]
pub struct Share {
    /// Name of the route.
    pub route: String,
    /// Bytes, copies included.
    pub bytes: u64,
    /// From the start of the exchange to the last byte that no other route had brought.
    pub finished: Option<Duration>,
}

impl ExchangeOutcome {
    /// Ratio of the time taken to the lower bound.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.took?.as_secs_f64() / self.ideal?.as_secs_f64())
    }

    /// Time between the ends of the first and the last route.
    pub fn spread(&self) -> Duration {
        let ends = || self.shares.iter().filter_map(|s| s.finished);
        match (ends().min(), ends().max()) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        }
    }

    /// Ratio of redundant bytes to the bytes of the main direction.
    pub fn redundant_share(&self) -> f64 {
        self.share_of(self.redundant_bytes)
    }

    /// Ratio of these bytes to those of the main direction.
    pub fn share_of(&self, bytes: u64) -> f64 {
        let all = match self.direction {
            Direction::Down => self.down_bytes,
            Direction::Up => self.up_bytes,
        };
        bytes as f64 / all.max(1) as f64
    }
}

/// A violated invariant, or an exchange that ended wrongly.
#[derive(Debug, Clone, thiserror::Error)]
#[error("at {at}: {what}")]
pub struct Failure {
    /// Time of detection.
    pub at: Timestamp,
    /// Description, with the state of both ends.
    pub what: String,
}
