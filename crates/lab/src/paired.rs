//! Schemes compared repetition by repetition: what the machine and the links
//! did meanwhile hit both.

use crate::quantity::Quantity;
use crate::record::Download;

/// Fit transfers of one scheme and workload.
pub(crate) fn fit_of<'d>(
    downloads: &'d [Download],
    scheme: &'d str,
    workload: &'d str,
) -> impl Iterator<Item = &'d Download> {
    downloads
        .iter()
        .filter(move |d| d.fit && d.name == scheme && d.workload == workload)
}

/// The quantity of each transfer over that of the scheme `versus` in the same
/// repetition, where both are fit; energy by `model`.
pub(crate) fn ratios<'d>(
    downloads: &'d [Download],
    (scheme, versus): (&'d str, &'d str),
    workload: &'d str,
    quantity: Quantity,
    model: Option<&'d str>,
) -> impl Iterator<Item = f64> {
    fit_of(downloads, scheme, workload).filter_map(move |d| {
        let mut theirs = fit_of(downloads, versus, workload);
        let theirs = theirs.find(|o| o.repetition == d.repetition)?;
        let ratio = quantity.of(d, model)? / quantity.of(theirs, model)?;
        ratio.is_finite().then_some(ratio)
    })
}
