//! `[[energy]]`: radio models for the energy of transfers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mpbond_price::EnergyMode;
use serde::Deserialize;
use toml::Spanned;

/// Radios of the devices, for the energy of transfers. Names are those of shipped profiles, or of
/// profiles in the files listed in `profiles`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyModel {
    /// Its name in results.
    pub name: Spanned<String>,
    /// Radio of links to the proxy, of the primary and of helpers.
    pub wwan: Spanned<String>,
    /// Radio at both ends of a pipe.
    pub pipe: Spanned<String>,
    /// Device profiles of hosts: such a host has its own radios in place of `wwan` and `pipe`, of
    /// the same kind (cellular, WiFi, Bluetooth).
    #[serde(default)]
    pub device: BTreeMap<String, Spanned<String>>,
    /// Energy of the full batteries of hosts, in Wh.
    #[serde(default)]
    pub battery_wh: BTreeMap<String, Spanned<f64>>,
    /// Device profile with the power of an access point, which the primary is while it uses pipes;
    /// not accounted by default.
    pub access_point: Option<Spanned<String>>,
    /// Additional files of profiles, relative to the experiment file.
    #[serde(default)]
    pub profiles: Vec<Spanned<PathBuf>>,
}

/// Price of energy of a scheme: which bursts a helper's radio is woken for (ADR 0035). In virtual
/// time, links have constant rates, and the primary knows them. Daemons have it by their policy,
/// and measure the rates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyPrice {
    /// What a second is worth.
    pub mode: EnergyMode,
    /// Name of the energy model that the primary believes.
    pub model: Spanned<String>,
}
