//! Comparison of schemes within repetitions, so that disturbances affect both.

use crate::quantity::Quantity;
use crate::record::Transfer;

/// Fit transfers of a scheme and workload.
pub(crate) fn fit_of<'d>(
    transfers: &'d [Transfer],
    scheme: &'d str,
    workload: &'d str,
) -> impl Iterator<Item = &'d Transfer> {
    transfers
        .iter()
        .filter(move |d| d.fit && d.name == scheme && d.workload == workload)
}

/// Ratio of each transfer's quantity to that of the scheme `versus` in the same repetition, where
/// both are fit; energy by `model`.
pub(crate) fn ratios<'d>(
    transfers: &'d [Transfer],
    (scheme, versus): (&'d str, &'d str),
    workload: &'d str,
    quantity: Quantity,
    model: Option<&'d str>,
) -> impl Iterator<Item = f64> {
    fit_of(transfers, scheme, workload).filter_map(move |d| {
        let mut theirs = fit_of(transfers, versus, workload);
        let theirs = theirs.find(|o| o.repetition == d.repetition)?;
        let ratio = quantity.of(d, model)? / quantity.of(theirs, model)?;
        ratio.is_finite().then_some(ratio)
    })
}
