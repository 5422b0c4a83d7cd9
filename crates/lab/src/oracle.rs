//! Joules and seconds of schemes with a price of energy, beside those of an oracle: the better of
//! all schemes without a price, known in advance.

use crate::experiment::{Carrier, Experiment, Scheme};
use crate::quantity::Quantity;
use crate::record::Transfer;

/// Adds to each transfer of a scheme with a price what it costs over what the oracle's costs, over
/// the same links in the same repetition.
pub(crate) fn compare(e: &Experiment, transfers: &mut [Transfer]) {
    let is_free = |s: &&Scheme| s.scheme == Carrier::Mpbond && s.energy_price.is_none();
    let free: Vec<&String> = e
        .schemes
        .iter()
        .filter(is_free)
        .map(|s| s.name.get_ref())
        .collect();
    for scheme in &e.schemes {
        let Some(price) = &scheme.energy_price else {
            continue;
        };
        let second = price.mode.joules_per_second();
        let cost = |d: &Transfer| {
            let mut accounts = d.energy.iter();
            let account = accounts.find(|energy| energy.model == *price.model.get_ref())?;
            // Where a second is worth any number of joules, only seconds count.
            let cost = match second.is_finite() {
                true => account.joules + second * d.seconds,
                false => d.seconds,
            };
            (d.fit && cost > 0.0).then_some(cost)
        };
        let of_oracle = |d: &Transfer| {
            let same = |o: &&Transfer| {
                (o.repetition, &o.workload) == (d.repetition, &d.workload)
                    && free.contains(&&o.name)
            };
            // Without one of them, the best of the others is no oracle.
            let costs: Option<Vec<f64>> = transfers.iter().filter(same).map(cost).collect();
            costs?.into_iter().reduce(f64::min)
        };
        let mine = |d: &Transfer| d.name == *scheme.name.get_ref();
        let ratios: Vec<Option<f64>> = (transfers.iter())
            .map(|d| Some(cost(d).filter(|_| mine(d))? / of_oracle(d)?))
            .collect();
        for (d, ratio) in transfers.iter_mut().zip(ratios) {
            // The transfers of joined records have one already.
            if mine(d) {
                d.noticed.remove(&Quantity::CostOverOracle);
            }
            d.noticed
                .extend(ratio.map(|ratio| (Quantity::CostOverOracle, ratio)));
        }
    }
}
