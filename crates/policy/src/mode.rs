//! Importance of the cost of links.

use serde::{Deserialize, Serialize};

/// Importance of the cost of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Cost has no effect.
    Fastest,
    /// Of the links that have room for data, those of the least cost carry it; only between links
    /// of equal cost the round-trip time decides.
    #[default]
    Balanced,
    /// A link carries data only while no link of less cost works.
    Saver,
}

impl Mode {
    /// Its name in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Balanced => "balanced",
            Self::Saver => "saver",
        }
    }
}
