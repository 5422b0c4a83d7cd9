//! `[[setting]]`: links that differ between otherwise equal runs.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_sim::link::{Queue, RateSpec};
use mpbond_units::duration_text;
use serde::Deserialize;
use toml::Spanned;

use super::link::Change;

/// What some links are instead, from the start of every transfer.
///
/// ```toml
/// [[setting]]
/// name = "1/18/5"
/// link.lte = { down = "1 Mbit/s", up = "1 Mbit/s" }
/// link.phone-lte = { down = "18 Mbit/s", up = "18 Mbit/s" }
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Its name; results are those of "WORKLOAD, SETTING".
    pub name: Spanned<String>,
    /// Position on the axis of the experiment's `parameter`.
    pub parameter: Option<f64>,
    /// Links that differ from the experiment's, by name.
    #[serde(rename = "link")]
    pub links: BTreeMap<Spanned<String>, LinkSetting>,
}

/// Properties of a link in a setting; those left out are the link's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSetting {
    /// Rate from the far host to the near one.
    pub down: Option<RateSpec>,
    /// Rate from the near host to the far one.
    pub up: Option<RateSpec>,
    /// One-way propagation delay.
    #[serde(default, with = "duration_text::option")]
    pub delay: Option<Duration>,
    /// Maximum additional delay.
    #[serde(default, with = "duration_text::option")]
    pub jitter: Option<Duration>,
    /// Drop-tail queue per direction.
    pub queue: Option<Queue>,
    /// Probability that a packet is lost.
    pub loss: Option<f64>,
    /// Strength of its signal, as [`Link::signal_dbm`](super::Link::signal_dbm).
    pub signal_dbm: Option<Vec<(duration_text::Text, f64)>>,
    /// Changes during transfers, instead of the link's own.
    #[serde(rename = "change")]
    pub changes: Option<Vec<Change>>,
}
