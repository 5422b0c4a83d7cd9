//! State of worlds that last for hours.

use mpbond_units::Timestamp;

use super::scenario::Scenario;

/// State that only a lasting world needs.
#[derive(Debug, Default)]
pub(super) struct LastingState {
    /// End of the primary's sleep.
    pub(super) asleep_until: Option<Timestamp>,
    /// By route: until when its helper refuses relays.
    pub(super) refused_until: Vec<Timestamp>,
    /// By exchange: its attempts in sessions that were lost.
    pub(super) before: Vec<Option<Before>>,
    /// Events that the scenario does not name.
    pub(super) notes: Vec<Note>,
    /// Lines that a NAT has forgotten and the primary has not closed, with their notes.
    pub(super) forgotten: Vec<(usize, usize)>,
}

/// Earlier attempts of an exchange that is repeated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    /// When the first one started.
    pub(super) started: Timestamp,
    /// Since when the client has waited for bytes that the origin could have sent.
    pub(super) waits_since: Timestamp,
    /// The wait was for an answer that was lost with its session.
    pub(super) lost_answer: bool,
    pub(super) attempts: u32,
}

/// An event that the scenario does not name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// When it happened.
    pub at: Timestamp,
    /// When the primary closed the connection that was forgotten, if it has: until then bytes may
    /// have waited for it.
    pub until: Option<Timestamp>,
    /// Its kind.
    pub what: Noted,
}

/// Kind of an event that the scenario does not name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// A NAT has forgotten a connection of this route, as a packet shows.
    Forgotten(usize),
    /// The primary's session was lost, with the reason.
    SessionLost(String),
}

impl LastingState {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            refused_until: vec![Timestamp::ZERO; scenario.routes.len()],
            before: vec![None; scenario.exchanges.len()],
            ..Self::default()
        }
    }
}
