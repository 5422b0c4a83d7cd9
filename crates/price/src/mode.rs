//! Joules that a second is worth.

use serde::{Deserialize, Serialize};

/// Joules that a second is worth in [`EnergyMode::Balanced`]: what the phone of a user who waits
/// draws besides, screen and idle power of a 2020 phone (`docs/energy.md`).
const BALANCED: f64 = 2.35;

/// What a second saved is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyMode {
    /// Any number of joules: helpers are always used.
    #[default]
    Fastest,
    /// The energy of the waiting phone itself, 2.35 J.
    Balanced,
    /// Nothing: a helper is woken where that saves energy.
    Saver,
}

impl EnergyMode {
    /// Joules that a second is worth; infinite for [`EnergyMode::Fastest`].
    pub const fn joules_per_second(self) -> f64 {
        match self {
            Self::Fastest => f64::INFINITY,
            Self::Balanced => BALANCED,
            Self::Saver => 0.0,
        }
    }
}
