//! Visits of a scenario: pages and videos.

use std::time::Duration;

use mpbond_session::StreamClass;
use mpbond_units::Timestamp;

use super::when::When;
use crate::application::page::PageObject;
use crate::application::video::{VideoPlan, Watched};

/// A page or a video. Its client decides during the run which exchanges it makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// Start of the page or of the player.
    pub start: When,
    /// Kind of visit.
    pub program: Program,
    /// Class of its streams.
    pub class: StreamClass,
    /// Exchange, by index, that its client stops at the end of the visit: a download beside it.
    pub stops: Option<usize>,
}

/// Kind of visit.
#[derive(Debug, Clone, PartialEq)]
pub enum Program {
    /// A page.
    Page {
        /// Its objects.
        objects: Vec<PageObject>,
        /// Simultaneous connections to each host.
        connections: usize,
    },
    /// A video over one connection.
    Video(VideoPlan),
}

/// One visit.
#[derive(Debug, Clone, PartialEq)]
pub struct VisitOutcome {
    /// When it started; `None` if it never did.
    pub started: Option<Timestamp>,
    /// From its start to the last byte of its last object; `None` if that has not arrived.
    pub took: Option<Duration>,
    /// Its exchanges, as indices of those of the world.
    pub exchanges: Vec<usize>,
    /// Playback of a video.
    pub watched: Option<Watched>,
}
