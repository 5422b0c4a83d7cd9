//! Statistics of a scheme over all repetitions of a workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figures::quantity::Quantity;

/// Median and mean of a sample, with their 95 % confidence intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median.
    pub median: f64,
    /// Interval of the median, by order statistics (distribution-free); `None` for fewer than six
    /// values.
    pub interval: Option<(f64, f64)>,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation (n - 1); `None` for one value.
    pub standard_deviation: Option<f64>,
    /// Interval of the mean, by Student's t; `None` for one value.
    pub mean_interval: Option<(f64, f64)>,
}

/// Statistics of a scheme and workload over all fit repetitions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the workload.
    pub workload: String,
    /// Name of the scheme.
    pub scheme: String,
    /// Number of fit repetitions.
    pub fit: usize,
    /// Number of unfit repetitions, without those that are left out ([`Transfer::left_out`]).
    ///
    /// [`Transfer::left_out`]: super::Transfer::left_out
    pub unfit: usize,
    /// Number of transfers that are disturbed and not unfit, left out or not.
    #[serde(default)]
    pub disturbed: usize,
    /// Time, in seconds.
    pub seconds: Option<Estimate>,
    /// Time over the ideal time.
    pub ratio: Option<Estimate>,
    /// Redundant bytes over bytes of the file.
    pub redundant_share: Option<Estimate>,
    /// Time from the end of the first subflow to the end of the last, in seconds.
    pub finish_spread_s: Option<Estimate>,
    /// The same over the time of the transfer.
    pub finish_spread_share: Option<Estimate>,
    /// Longest stall, in seconds.
    pub longest_stall_s: Option<Estimate>,
    /// Energy by each of the experiment's models.
    #[serde(default)]
    pub energy: Vec<EnergySummary>,
    /// Quantities of applications.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noticed: BTreeMap<Quantity, Estimate>,
}

/// Energy of a scheme and workload, by one model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnergySummary {
    /// Name of the model.
    pub model: String,
    /// Energy with last tails, in joules.
    pub joules: Option<Estimate>,
    /// Energy without last tails, in joules.
    pub joules_without_last_tail: Option<Estimate>,
}
