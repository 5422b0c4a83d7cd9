//! Something that is used up.

use serde::Serialize;

/// Something that is used up: a budget, a cap, or memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Gauge {
    /// Of a helper's budget: the calendar month.
    pub month: Option<String>,
    /// Of a cap: the day on which it begins anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets: Option<String>,
    pub used_bytes: u64,
    /// None: without a limit.
    pub max_bytes: Option<u64>,
}
