//! Something that is used up.

use serde::Serialize;

use crate::status::DayBytes;

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
    /// Of a cap: bytes by day of the period, oldest first, the present day last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<DayBytes>,
}
