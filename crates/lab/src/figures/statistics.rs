//! Estimates of a quantity over the repetitions of a run.

use mpbond_statistics::Sample;

use crate::record::Estimate;

/// Median and mean of `values` with their 95 % confidence intervals; `None` without values, and
/// where one is infinite.
pub fn estimate(values: impl IntoIterator<Item = f64>) -> Option<Estimate> {
    let sample: Sample = values.into_iter().collect();
    Some(Estimate {
        median: sample.median()?,
        interval: sample.median_interval(),
        mean: sample.mean().filter(|mean| mean.is_finite())?,
        standard_deviation: sample.standard_deviation(),
        mean_interval: sample.mean_interval(),
    })
}
