//! Energy as a price, against a clairvoyant that knows each burst's size.

use std::path::Path;

use mpbond_price::EnergyMode;

use super::{of, run};
use crate::experiment::Experiment;
use crate::figures::quantity::Quantity;
use crate::record::Transfer;

fn file() -> Experiment {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Experiment::load(&root.join("../../experiments/mpbond/energy-price.toml")).unwrap()
}

/// Joules, with last tails, by the model, and this price of the seconds.
fn cost(d: &Transfer, model: &str, joules_per_second: f64) -> f64 {
    let account = d.energy.iter().find(|e| e.model == model).unwrap();
    account.joules + joules_per_second * d.seconds
}

/// Ski rental: at most twice what the better of alone and with the helper costs, in every run.
#[test]
fn no_burst_costs_more_than_twice_the_clairvoyant() {
    let mut e = file();
    e.repetitions = 1;
    let all = run(&e, 1, 2);
    let mut judged = 0;
    for scheme in &e.schemes {
        let Some(price) = &scheme.energy_price else {
            continue;
        };
        let (name, model) = (scheme.name.get_ref(), price.model.get_ref());
        let second = price.mode.joules_per_second();
        assert_ne!(price.mode, EnergyMode::Fastest, "{name}: nothing to judge");
        for workload in &e.workloads {
            let workload = workload.name.get_ref();
            let costs = |scheme: &str| -> Vec<f64> {
                let all = of(&all, scheme, workload).into_iter();
                all.map(|d| cost(d, model, second)).collect()
            };
            let (alone, fastest) = (costs("alone"), costs("fastest"));
            let ratios = of(&all, name, workload).into_iter();
            let ratios = ratios.map(|d| d.noticed[&Quantity::CostOverOracle]);
            for (i, (cost, ratio)) in costs(name).into_iter().zip(ratios).enumerate() {
                let oracle = alone[i].min(fastest[i]);
                assert!(cost <= 2.0 * oracle, "{name}, {workload}: {cost} {oracle}");
                assert!((ratio - cost / oracle).abs() < 1e-9, "{name}: {ratio}");
                judged += 1;
            }
        }
    }
    assert_eq!(judged, 6 * 10);
}

/// Number of transfers that are compared with an oracle.
fn judged(all: &[Transfer]) -> usize {
    let has = |d: &&Transfer| d.noticed.contains_key(&Quantity::CostOverOracle);
    all.iter().filter(has).count()
}

/// An oracle with an unfit scheme, or without one of its schemes, has no cost.
#[test]
fn an_oracle_needs_all_schemes_without_a_price() {
    let mut e = file();
    e.repetitions = 1;
    let all = run(&e, 1, 1);
    let compared = |e: &Experiment, change: &dyn Fn(&mut Vec<Transfer>)| {
        let mut all = all.clone();
        change(&mut all);
        crate::figures::oracle::compare(e, &mut all);
        judged(&all)
    };
    let is_alone = |d: &Transfer| d.name == "alone";
    assert!(judged(&all) > 0);
    assert_eq!(compared(&e, &|_| ()), judged(&all));
    let unfit = |all: &mut Vec<Transfer>| {
        all.iter_mut()
            .filter(|d| is_alone(d))
            .for_each(|d| d.fit = false);
    };
    assert_eq!(compared(&e, &unfit), 0);
    // It failed each time, or this run leaves it out.
    let without = |all: &mut Vec<Transfer>| all.retain(|d| !is_alone(d));
    assert_eq!(compared(&e, &without), 0);
    e.schemes.retain(|scheme| scheme.name.get_ref() != "alone");
    assert_eq!(compared(&e, &without), 0);
    // A scheme is none of the oracle's where it does not carry the workload.
    let named = "name = \"alone\"\n";
    let text = e
        .text
        .replace(named, &format!("{named}workloads = [\"none\"]\n"));
    let other = "[[workload]]\nname = \"none\"\ndirection = \"down\"\nbytes = 1\n";
    let e = Experiment::parse("t.toml", &format!("{text}\n{other}")).unwrap();
    assert_eq!(compared(&e, &without), judged(&all));
}

#[test]
fn a_price_needs_a_helper_a_model_and_for_daemons_a_radio_that_policies_name() {
    let text = file().text;
    let needs = "only for `mpbond` with a helper";
    let for_daemons = text.replace("simulated = true\n", "");
    assert!(Experiment::parse("t.toml", &for_daemons).is_ok());
    for (text, from, to, why) in [
        (&text, "devices = 2", "devices = 1", needs),
        (&text, "model = \"5G\"", "model = \"6G\"", "energy model"),
        (
            &for_daemons,
            "wwan = \"5g-sa-2020\"",
            "wwan = \"lte\"",
            "\"5G\": one of its own",
        ),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(&changed, text);
        let error = Experiment::parse("t.toml", &changed).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}
