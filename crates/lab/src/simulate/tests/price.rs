//! Energy as a price, against a clairvoyant that knows each burst's size.

use std::path::Path;

use mpbond_price::EnergyMode;

use super::{of, run};
use crate::experiment::Experiment;
use crate::quantity::Quantity;
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

/// An oracle with an unfit scheme has no cost.
#[test]
fn an_oracle_needs_all_schemes_without_a_price() {
    let mut e = file();
    e.repetitions = 1;
    let mut all = run(&e, 1, 1);
    let judged = |all: &[Transfer]| {
        let has = |d: &&Transfer| d.noticed.contains_key(&Quantity::CostOverOracle);
        all.iter().filter(has).count()
    };
    assert!(judged(&all) > 0);
    all.iter_mut()
        .filter(|d| d.name == "alone")
        .for_each(|d| d.fit = false);
    crate::oracle::compare(&e, &mut all);
    assert_eq!(judged(&all), 0);
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
