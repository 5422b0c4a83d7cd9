//! Importance of the cost of links, and price of a second in joules.

use mpbond_price::EnergyMode;
use serde::{Deserialize, Serialize};

/// Level in percent below which a device that is not charged saves energy.
const LOW_PERCENT: u8 = 20;

/// Importance of the cost of links, and of the joules of their radios (ADR 0035, ADR 0070).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Cost as in `Balanced`; joules by the batteries.
    #[default]
    Auto,
    /// Cost has no effect.
    Fastest,
    /// Of the links that have room for data, those of the least cost carry it; only between links
    /// of equal cost the round-trip time decides.
    Balanced,
    /// A link carries data only while no link of less cost works.
    Saver,
}

impl Mode {
    /// Its name in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fastest => "fastest",
            Self::Balanced => "balanced",
            Self::Saver => "saver",
        }
    }

    /// What a second is worth in joules of a helper's radio.
    pub fn energy(self, own: Supply, helper: Supply) -> EnergyMode {
        match self {
            Self::Auto if own.is_low() || helper.is_low() => EnergyMode::Saver,
            Self::Auto if own.is_charging == Some(true) => EnergyMode::Fastest,
            Self::Auto | Self::Balanced => EnergyMode::Balanced,
            Self::Fastest => EnergyMode::Fastest,
            Self::Saver => EnergyMode::Saver,
        }
    }
}

/// Power supply of a device, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    /// Level of its batteries in percent.
    pub percent: Option<u8>,
    /// Whether they are being charged, or full.
    pub is_charging: Option<bool>,
}

impl Supply {
    fn is_low(self) -> bool {
        self.is_charging != Some(true) && self.percent.is_some_and(|percent| percent < LOW_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(percent: impl Into<Option<u8>>, is_charging: impl Into<Option<bool>>) -> Supply {
        Supply {
            percent: percent.into(),
            is_charging: is_charging.into(),
        }
    }

    #[test]
    fn auto_is_fastest_while_charging_and_saver_below_20_percent() {
        let unknown = Supply::default();
        for (own, helper, expected) in [
            (unknown, unknown, EnergyMode::Balanced),
            (supply(80, false), unknown, EnergyMode::Balanced),
            (supply(20, false), unknown, EnergyMode::Balanced),
            (supply(19, false), unknown, EnergyMode::Saver),
            (supply(19, None), unknown, EnergyMode::Saver),
            (supply(19, true), unknown, EnergyMode::Fastest),
            (supply(None, true), unknown, EnergyMode::Fastest),
            // The joules are a helper's, too.
            (supply(90, true), supply(19, None), EnergyMode::Saver),
            (supply(90, true), supply(20, None), EnergyMode::Fastest),
            (supply(90, true), supply(19, true), EnergyMode::Fastest),
            (supply(90, false), supply(19, true), EnergyMode::Balanced),
        ] {
            assert_eq!(
                Mode::Auto.energy(own, helper),
                expected,
                "{own:?} {helper:?}"
            );
            for (mode, always) in [
                (Mode::Fastest, EnergyMode::Fastest),
                (Mode::Balanced, EnergyMode::Balanced),
                (Mode::Saver, EnergyMode::Saver),
            ] {
                assert_eq!(mode.energy(own, helper), always);
            }
        }
    }
}
