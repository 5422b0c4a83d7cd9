//! Comparison of transfers within repetitions, so that disturbances affect both.

use crate::figures::quantity::Quantity;
use crate::machine_use::are_undisturbed;
use crate::record::Transfer;

/// A scheme and a workload.
pub(crate) type Kind<'d> = (&'d str, &'d str);

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

/// Ratio of the quantity of each transfer of the first kind to that of the second kind in the same
/// repetition, where both are fit; energy by `model`. Infinite where only that of the second kind
/// is 0; where both are, there is none.
pub(crate) fn ratios<'d>(
    transfers: &'d [Transfer],
    kinds: (Kind<'d>, Kind<'d>),
    quantity: Quantity,
    model: Option<&'d str>,
) -> impl Iterator<Item = f64> {
    let pairs = pairs(transfers, kinds, quantity, model);
    let ratios = pairs.map(|(own, theirs)| own / theirs);
    ratios.filter(|ratio| !ratio.is_nan())
}

/// How much more each transfer has of a quantity, in its unit; otherwise as [`ratios`].
pub(crate) fn differences<'d>(
    transfers: &'d [Transfer],
    kinds: (Kind<'d>, Kind<'d>),
    quantity: Quantity,
    model: Option<&'d str>,
) -> impl Iterator<Item = f64> {
    let pairs = pairs(transfers, kinds, quantity, model);
    pairs.map(|(own, theirs)| own - theirs)
}

fn pairs<'d>(
    transfers: &'d [Transfer],
    (own, versus): (Kind<'d>, Kind<'d>),
    quantity: Quantity,
    model: Option<&'d str>,
) -> impl Iterator<Item = (f64, f64)> {
    fit_of(transfers, own.0, own.1).filter_map(move |d| {
        let mut theirs = fit_of(transfers, versus.0, versus.1);
        let theirs = theirs.find(|o| o.repetition == d.repetition)?;
        if quantity == Quantity::CpuMachine && !are_undisturbed(&[d.machine?, theirs.machine?]) {
            return None;
        }
        Some((quantity.of(d, model)?, quantity.of(theirs, model)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::statistics::estimate;
    use crate::machine_use::Use;

    /// A pair in which only one scheme has some of the quantity counts in the comparison.
    #[test]
    fn a_ratio_to_nothing_leaves_no_estimate() {
        let transfers = |seconds: [f64; 4]| -> Vec<_> {
            let repetitions = seconds.iter().zip([("a", 0), ("b", 0), ("a", 1), ("b", 1)]);
            let transfer = |(s, (name, n)): (&f64, _)| Transfer::for_test(name, n, *s);
            repetitions.map(transfer).collect()
        };
        let of = |all: &[Transfer]| -> Vec<f64> {
            ratios(all, (("a", "w"), ("b", "w")), Quantity::Seconds, None).collect()
        };
        let some = of(&transfers([1.0, 2.0, 3.0, 0.0]));
        assert_eq!(some, [0.5, f64::INFINITY]);
        assert!(estimate(some).is_none());
        assert_eq!(
            of(&transfers([1.0, 2.0, 0.0, 0.0])),
            [0.5],
            "neither has any"
        );
    }

    #[test]
    fn use_of_the_machine_is_compared_where_others_used_it_equally() {
        let transfer = |name, repetition, own: f64, others: f64| {
            let mut transfer = Transfer::for_test(name, repetition, 20.0);
            transfer.machine = Some(Use {
                seconds: 20.0,
                all: own + others,
                steal: 0.0,
                others,
            });
            transfer
        };
        let mut all = vec![
            transfer("a", 0, 0.30, 0.01),
            transfer("b", 0, 0.25, 0.02),
            // A program ran beside one of the two, and beside both.
            transfer("a", 1, 0.30, 0.10),
            transfer("b", 1, 0.25, 0.02),
            transfer("a", 2, 0.30, 0.60),
            transfer("b", 2, 0.25, 0.60),
            transfer("a", 3, 0.27, 0.01),
            transfer("b", 3, 0.25, 0.01),
            // Not measured.
            Transfer::for_test("a", 4, 20.0),
            transfer("b", 4, 0.25, 0.01),
        ];
        let kinds = (("a", "w"), ("b", "w"));
        let more = |all: &[Transfer]| {
            let more = differences(all, kinds, Quantity::CpuMachine, None);
            more.map(|percent| (percent * 10.0).round() / 10.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(more(&all), [5.0, 2.0]);
        assert_eq!(Quantity::CpuMachine.of(&all[4], None), None);
        all[0].fit = false;
        assert_eq!(more(&all), [2.0]);
        let seconds = differences(&all, kinds, Quantity::Seconds, None);
        assert_eq!(seconds.count(), 4);
    }
}
