//! A link that stands by until the signals of others are weak.

#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::time::Duration;

use mpbond_sim::world::{Exchange, Fault, Happening, Scenario, When, World};

const MB: u64 = 1_000_000;

/// Signals of WiFi, 9 dB above the threshold and 8 dB below it.
const GOOD: f64 = -51.0;
const WEAK: f64 = -68.0;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Downloads of 4 MB over links of WiFi of 30 Mbit/s together and over LTE, which stands by. Before
/// each of them, the signals of WiFi become these. Bytes of each over LTE.
fn bytes_over_lte<const N: usize>(
    seed: u64,
    threshold: Option<i16>,
    signals: &[[f64; N]],
) -> Vec<u64> {
    let mut links = vec![(30.0 / N as f64, ms(10)); N];
    links.push((18.0, ms(25)));
    let mut scenario = Scenario::multihomed(&links);
    scenario.seed = seed;
    scenario.has_bounds = false;
    for (n, route) in scenario.routes.iter_mut().enumerate() {
        route.backup = n == N;
        route.weak_below_dbm = threshold.filter(|_| n < N);
    }
    let over_lte = scenario.routes[N].name.clone();
    for (n, signals) in (0..).zip(signals) {
        let begin = ms(2_000 + 10_000 * n);
        for (link, dbm) in signals.iter().copied().enumerate() {
            scenario.faults.push(Fault {
                when: When::At(begin - ms(1)),
                what: Happening::Signal { link, dbm },
            });
        }
        scenario = scenario.with_exchange(Exchange::download(When::At(begin), 4 * MB));
    }
    let outcome = World::new(scenario).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let lte = |exchange: &mpbond_sim::world::ExchangeOutcome| {
        let share = exchange.shares.iter().find(|share| share.route == over_lte);
        share.map_or(0, |share| share.bytes)
    };
    outcome.exchanges.iter().map(lte).collect()
}

#[test]
fn a_link_carries_data_beside_one_whose_signal_is_weak_and_stands_by_otherwise() {
    let signals = [[GOOD], [WEAK], [GOOD]];
    for seed in 1..=5 {
        let bytes = bytes_over_lte(seed, Some(-60), &signals);
        assert!(bytes[1] > MB, "{bytes:?}");
        assert!(bytes[0] + bytes[2] < MB, "{bytes:?}");
        assert_eq!(bytes_over_lte(seed, None, &signals), [0, 0, 0]);
    }
}

/// As in the daemon: a good link of the same cost suffices.
#[test]
fn a_link_stands_by_until_the_signals_of_all_others_are_weak() {
    for seed in 1..=5 {
        let signals = [[GOOD, WEAK], [WEAK, WEAK], [WEAK, GOOD]];
        let bytes = bytes_over_lte(seed, Some(-60), &signals);
        assert!(bytes[1] > MB, "{bytes:?}");
        assert!(bytes[0] + bytes[2] < MB, "{bytes:?}");
    }
}
