//! Joules and seconds of schemes with a price of energy, beside those of an oracle: the better of
//! all schemes without a price, known in advance.

use crate::experiment::{Carrier, Experiment, Scheme};
use crate::figures::quantity::Quantity;
use crate::record::Transfer;

/// Adds to each transfer of a scheme with a price what it costs over what the oracle's costs, over
/// the same links in the same repetition. Where one of the schemes without a price has no transfer
/// that counts, there is no oracle.
pub(crate) fn compare(e: &Experiment, transfers: &mut [Transfer]) {
    // Schemes that this run leaves out are schemes of its file.
    let whole = Experiment::parse("the experiment", &e.text);
    let all = whole.as_ref().map_or(&e.schemes, |whole| &whole.schemes);
    let is_free = |s: &&Scheme| s.scheme == Carrier::Mpbond && s.energy_price.is_none();
    let free: Vec<&Scheme> = all.iter().filter(is_free).collect();
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
            let mut workloads = e.workloads.iter();
            let workload = workloads.find(|w| *w.name.get_ref() == d.workload)?;
            let of = |scheme: &&Scheme| {
                let place = (d.repetition, &d.workload, scheme.name.get_ref());
                let same = |o: &&Transfer| (o.repetition, &o.workload, &o.name) == place;
                cost(transfers.iter().find(same)?)
            };
            // Without one of them, the best of the others is no oracle.
            let those = free.iter().filter(|scheme| scheme.carries(workload));
            let costs: Option<Vec<f64>> = those.map(of).collect();
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
