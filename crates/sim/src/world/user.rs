//! Users of links that others use as well.

use super::scenario::Scenario;

/// A user of links that others use as well.
#[derive(Debug, Clone)]
pub struct User {
    /// The user's world. A link with the name of one of an earlier user's is that link, whatever
    /// its properties here. Links on one medium share it.
    pub scenario: Scenario,
    /// Indices of links that are seen from their other end: up is the earlier user's down.
    pub reversed: Vec<usize>,
}
