//! Energy of links, by models of their radios.

use serde::{Deserialize, Serialize};

/// Energy of a link whose radio is named in the policy, estimated from its bytes and times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkEnergy {
    /// Name of the radio's model.
    pub radio: String,
    /// Joules of the radio since the daemon started.
    pub joules: f64,
    /// Joules on the last seven days up to this one in the time zone of the host, oldest first,
    /// over restarts. Earlier days without any are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<DayJoules>,
    /// Transfers for which a helper is woken. Absent for an own link, and while no rates are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_for: Option<WokenFor>,
}

/// Energy of the radios of a pipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PipeEnergy {
    /// Of the primary's radio.
    pub near: RadioEnergy,
    /// Of the helper's, where it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<RadioEnergy>,
}

/// Energy of a radio, estimated from its bytes and times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RadioEnergy {
    /// Name of the radio's model.
    pub radio: String,
    /// Joules since the daemon started.
    pub joules: f64,
    /// Joules of days, as those of a link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<DayJoules>,
}

/// Joules of a radio on a day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DayJoules {
    /// The day, as 2026-11-27.
    pub day: String,
    /// Joules.
    pub joules: f64,
}

/// Least bytes of transfers for which a helper is woken; null: for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WokenFor {
    /// Of downloads.
    pub download_bytes: Option<u64>,
    /// Of uploads.
    pub upload_bytes: Option<u64>,
}
