//! A link that stands by until the signal of another one is weak.

#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::time::Duration;

use mpbond_sim::world::{Exchange, Fault, Happening, Route, Scenario, When, World};

const MB: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three downloads of 4 MB over WiFi and LTE, which stands by. From the second on the signal of
/// WiFi is 8 dB below the threshold, from the third on again 9 dB above. Bytes of each over LTE.
fn bytes_over_lte(seed: u64, change: impl Fn(&mut Route)) -> Vec<u64> {
    let mut scenario = Scenario::multihomed(&[(30.0, ms(10)), (18.0, ms(25))]);
    scenario.seed = seed;
    scenario.has_bounds = false;
    scenario.routes[1].backup = true;
    scenario.routes[0].weak_below_dbm = Some(-60);
    change(&mut scenario.routes[0]);
    for (n, dbm) in [(0, -51.0), (1, -68.0), (2, -51.0)] {
        let begin = ms(2_000 + 10_000 * n);
        scenario.faults.push(Fault {
            when: When::At(begin - ms(1)),
            what: Happening::Signal { link: 0, dbm },
        });
        scenario = scenario.with_exchange(Exchange::download(When::At(begin), 4 * MB));
    }
    let outcome = World::new(scenario).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let lte = |exchange: &mpbond_sim::world::ExchangeOutcome| {
        let share = exchange.shares.iter().find(|share| share.route == "ps2");
        share.map_or(0, |share| share.bytes)
    };
    outcome.exchanges.iter().map(lte).collect()
}

#[test]
fn a_link_carries_data_beside_one_whose_signal_is_weak_and_stands_by_otherwise() {
    for seed in 1..=5 {
        let bytes = bytes_over_lte(seed, |_| ());
        assert!(bytes[1] > MB, "{bytes:?}");
        assert!(bytes[0] + bytes[2] < MB, "{bytes:?}");
        let without = bytes_over_lte(seed, |route| route.weak_below_dbm = None);
        assert_eq!(without, [0, 0, 0]);
    }
}
