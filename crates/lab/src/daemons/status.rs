//! The output of `mpbond status --json`, as far as the lab reads it.

use serde::Deserialize;

/// Output of `mpbond status --json` of one daemon, as far as the lab reads it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub sessions: Vec<Session>,
    #[serde(default)]
    pub transfers: Vec<Transfer>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Session {
    #[serde(default)]
    pub subflows: Vec<Subflow>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Subflow {
    pub state: String,
}

/// A user connection.
#[derive(Debug, Deserialize)]
pub(super) struct Transfer {
    pub destination: String,
    pub state: String,
    /// Traffic class.
    #[serde(default)]
    pub class: String,
    /// Opening time in seconds since the daemon's start.
    #[serde(default)]
    pub opened_s: f64,
    #[serde(default)]
    pub redundant_bytes: u64,
    #[serde(default)]
    pub subflows: Vec<Share>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Share {
    pub name: String,
    #[serde(default)]
    pub bytes_in: u64,
    #[serde(default)]
    pub finished_in_s: Option<f64>,
}
