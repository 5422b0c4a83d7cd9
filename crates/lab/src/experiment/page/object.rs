//! Objects of a page, with the time or event of their requests.

use std::time::Duration;

/// One object of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageObject {
    /// Size in bytes.
    pub bytes: u64,
    /// Number of its host, from 0. All are served by the lab's one origin; each has connections of
    /// its own.
    pub host: usize,
    /// Earliest time of its request.
    pub begins: Begins,
}

/// Earliest time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// This long after the start of the page.
    At(Duration),
    /// After the arrival of another object.
    After {
        /// Number of the other object, from 0.
        object: usize,
        /// Delay after its arrival, for processing in a browser.
        delay: Duration,
    },
}
