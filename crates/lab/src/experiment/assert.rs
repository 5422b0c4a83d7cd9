//! `[[assert]]`: bounds on results.

use serde::Deserialize;
use toml::Spanned;

use crate::figures::quantity::Quantity;

/// A bound on results. Medians over the repetitions are judged. Without `scheme` or `workload` it
/// applies to all of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assert {
    /// Name of the scheme that it applies to.
    pub scheme: Option<Spanned<String>>,
    /// Name of the workload that it applies to.
    pub workload: Option<Spanned<String>>,
    /// Name of the setting that it applies to.
    pub setting: Option<Spanned<String>>,
    /// Maximum of the time over the ideal time.
    pub max_ratio: Option<f64>,
    /// Maximum time, in seconds.
    pub max_seconds: Option<f64>,
    /// Maximum of redundant bytes over the bytes of the file.
    pub max_redundant_share: Option<f64>,
    /// Maximum time from the end of the first subflow to the end of the last, in seconds.
    pub max_finish_spread_s: Option<f64>,
    /// The same over the time of the transfer.
    pub max_finish_spread_share: Option<f64>,
    /// Minimum time from the end of the first subflow to the end of the last, in seconds, for a
    /// published effect that has to appear.
    pub min_finish_spread_s: Option<f64>,
    /// Maximum time without a byte at the client, in seconds.
    pub max_stall_s: Option<f64>,
    /// Name of a scheme that must not be faster on the same workload. The ratio of times is taken
    /// within each repetition; the assert is missed where the interval of its median lies above 1.
    pub not_slower_than: Option<Spanned<String>>,
    /// Name of the scheme that `quantity` is compared with.
    pub versus: Option<Spanned<String>>,
    /// Name of the workload of the same scheme and setting that `quantity` is compared with.
    pub versus_workload: Option<Spanned<String>>,
    /// Quantity that `at_most` and `at_least` bound, by its median; with `versus` or
    /// `versus_workload`, by the median of its ratio to that of the other one within each
    /// repetition.
    pub quantity: Option<Spanned<Quantity>>,
    /// Energy model of an energy quantity; the first one by default.
    pub model: Option<Spanned<String>>,
    /// Upper bound of `quantity`.
    pub at_most: Option<f64>,
    /// Lower bound of `quantity`.
    pub at_least: Option<f64>,
    /// With `versus` or `versus_workload`: upper bound of the median of how much more of `quantity`
    /// there is within each repetition, in its unit.
    pub more_at_most: Option<f64>,
    /// Whether `at_most` and `at_least` bound `quantity` in every repetition instead of at the
    /// median.
    #[serde(default)]
    pub in_every_run: bool,
    /// Whether `quantity` is bounded on average over workloads (geometric mean of medians) instead
    /// of in each of them. Workloads without a fit transfer are left out where they are fewer than
    /// half.
    #[serde(default)]
    pub on_average: bool,
}
