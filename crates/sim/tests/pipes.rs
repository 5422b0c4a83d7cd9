//! Several pipes to one helper, with the path manager that the daemons have.

#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::time::Duration;

use mpbond_price::{PipeRadios, radio};
use mpbond_sim::link::{LinkChange, LinkConfig, Rate, packet_loss};
use mpbond_sim::wear::Walk;
use mpbond_sim::world::{
    Exchange, Fault, Happening, HelperId, Pace, Route, Scenario, TwoWay, When, World,
};
use mpbond_units::{BitRate, Timestamp};

const MIB: u64 = 1 << 20;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn link(name: &str, mbps: f64, delay: Duration) -> TwoWay {
    let rate = Rate::Constant(BitRate::from_mbps(mbps));
    TwoWay::symmetric(name, LinkConfig::new(rate).with_delay(delay))
}

/// A helper with a link of its own, and pipes of these rates in Mbit/s to it.
fn pipes(hs_mbps: f64, hs_delay: Duration, pipes_mbps: &[f64]) -> Scenario {
    let mut links = vec![link("hs", hs_mbps, hs_delay)];
    let mut routes = Vec::new();
    for (i, mbps) in pipes_mbps.iter().enumerate() {
        let name = format!("pipe{i}");
        links.push(link(&name, *mbps, ms(1)));
        routes.push(Route::through(&name, HelperId(0), i + 1, 0));
    }
    Scenario {
        has_bounds: false,
        ..Scenario::new(links, routes)
    }
}

/// A download, of whose pipes the first one has no carrier from `lost` to `back` after
/// its start; the longest pause from this time after the start.
fn longest_pause(
    mut scenario: Scenario,
    exchange: Exchange,
    [lost, back]: [Duration; 2],
    from: Duration,
) -> Duration {
    for (place, route) in scenario.routes.iter_mut().enumerate() {
        route.place = Some(place);
    }
    scenario.keeps_log = true;
    let mut fault = |after, what| {
        scenario.faults.push(Fault {
            when: When::AfterStart(0, after),
            what,
        });
    };
    let pipe = |change: LinkChange| Happening::Link {
        link: 1,
        up: Some(change.clone()),
        down: Some(change),
    };
    let length = back - lost;
    fault(lost, pipe(LinkChange::down()));
    fault(lost, Happening::Unplug { route: 0, length });
    fault(back, pipe(LinkChange::up()));
    let outcome = World::new(scenario.with_exchange(exchange)).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let arrivals = &outcome.exchanges[0].arrivals;
    let times = arrivals.windows(2).filter(|pair| pair[1].0 > from);
    times.map(|pair| pair[1].0 - pair[0].0).max().unwrap()
}

/// 10 MiB at 16 Mbit/s through a helper with pipes of 20 and 10 Mbit/s, of which the first one has
/// no carrier for a time, and a link of this delay behind it; the longest pause since then.
fn migration(variant: u32, hs_delay: Duration) -> Duration {
    let scenario = pipes(100.0, hs_delay, &[20.0, 10.0]).varied(variant);
    let mut exchange = Exchange::download(When::At(ms(2_000)), 10 * MIB);
    exchange.origin.pace = Some(Pace {
        bytes: 20_000,
        every: ms(10),
    });
    let lost = ms(1_000 + 17 * u64::from(variant));
    let back = lost + ms(900 + 13 * u64::from(variant));
    longest_pause(scenario, exchange, [lost, back], lost)
}

/// Without a bound of the queue at the helper (ADR 0053), eleven of twenty do behind 25 ms.
#[test]
fn a_download_pauses_for_at_most_200_ms_when_its_pipe_is_lost_and_comes_back() {
    for behind in [ms(1), ms(25)] {
        let pauses: Vec<_> = (0..20).map(|variant| migration(variant, behind)).collect();
        assert!(pauses.iter().all(|pause| *pause <= ms(200)), "{pauses:?}");
    }
}

/// Bluetooth's rate in Mbit/s while it is Active, and that of WiFi (ADR 0023).
const BLUETOOTH_MBPS: f64 = 1.267;
const WIFI_MBPS: f64 = 10.0;

/// 10 MiB through a phone with WiFi of 20 Mbit/s, which has no carrier for 2 s, and a pipe of
/// Bluetooth's rate: the longest pause once WiFi works again.
fn way_back(variant: u32) -> Duration {
    let scenario = pipes(40.0, ms(25), &[20.0, BLUETOOTH_MBPS]).varied(variant);
    let exchange = Exchange::download(When::At(ms(2_000)), 10 * MIB);
    let lost = ms(1_500 + 17 * u64::from(variant));
    let back = lost + ms(2_000);
    longest_pause(scenario, exchange, [lost, back], back)
}

/// What waits at the phone for the slow pipe is sent again behind what WiFi was given in its trial.
/// Where each trial took a second, the pauses were 0.9 s.
#[test]
fn a_download_that_returns_to_a_fast_pipe_pauses_for_less_than_400_ms() {
    let pauses: Vec<_> = (0..10).map(way_back).collect();
    assert!(pauses.iter().all(|pause| *pause < ms(400)), "{pauses:?}");
}

/// 3 KB each 160 ms through a phone, to which a watch has Bluetooth and WiFi, while it walks away
/// at 1.2 m/s: the longest pause, and whether the primary sees the signal. Bluetooth carries less
/// the weaker its signal is, and nothing from -90 dBm on.
fn walk(seed: u64, sees: bool) -> Duration {
    let mut scenario = pipes(100.0, ms(25), &[BLUETOOTH_MBPS, WIFI_MBPS]);
    scenario.seed = seed;
    let walk = Walk {
        from: Timestamp::from_millis(3_000),
        speed: 1.2,
    };
    for (place, route) in scenario.routes.iter_mut().enumerate() {
        route.place = Some(place);
        route.walk = Some(walk).filter(|_| sees && place == 0);
    }
    for step in 0..40 {
        let after = ms(3_000 + 500 * step);
        let carried = 1.0 - packet_loss(walk.dbm(Timestamp::ZERO + after));
        let change = match carried > 0.0 {
            true => LinkChange::rate(Rate::Constant(BitRate::from_mbps(BLUETOOTH_MBPS * carried))),
            false => LinkChange::down(),
        };
        scenario.faults.push(Fault {
            when: When::At(after),
            what: Happening::Link {
                link: 1,
                up: Some(change.clone()),
                down: Some(change),
            },
        });
    }
    let mut exchange = Exchange::download(When::At(ms(1_000)), 3_000 * 150);
    exchange.origin.pace = Some(Pace {
        bytes: 3_000,
        every: ms(160),
    });
    let outcome = World::new(scenario.with_exchange(exchange)).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    outcome.exchanges[0].longest_stall
}

#[test]
fn a_watch_that_walks_out_of_range_pauses_for_less_than_300_ms_as_it_sees_the_signal() {
    for seed in 1..=10 {
        // 160 ms are the interval of the chunks.
        assert!(walk(seed, true) < ms(300));
        assert!(walk(seed, false) > ms(400));
    }
}

/// 3 KB each 160 ms for 300 s through a phone, whose Bluetooth has a weak signal, but would carry
/// all: the subflows that were joined, and the bytes of Bluetooth.
fn weak(seed: u64) -> (usize, u64) {
    let mut scenario = pipes(100.0, ms(25), &[BLUETOOTH_MBPS, WIFI_MBPS]);
    scenario.seed = seed;
    for (place, route) in scenario.routes.iter_mut().enumerate() {
        route.place = Some(place);
    }
    // Below -66 dBm from the first second on.
    scenario.routes[0].walk = Some(Walk {
        from: Timestamp::ZERO,
        speed: 14.0,
    });
    let mut exchange = Exchange::download(When::At(ms(1_000)), 3_000 * 1_875);
    exchange.origin.pace = Some(Pace {
        bytes: 3_000,
        every: ms(160),
    });
    let outcome = World::new(scenario.with_exchange(exchange)).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let shares = &outcome.exchanges[0].shares;
    let bluetooth = shares.iter().find(|share| share.route == "pipe0");
    (outcome.joins, bluetooth.map_or(0, |share| share.bytes))
}

/// Its signal is told only while something moves there. Where it was forgotten otherwise, the pipe
/// was left each 8 s.
#[test]
fn a_pipe_that_stays_weak_is_left_once() {
    for seed in 1..=5 {
        let (joins, bytes) = weak(seed);
        assert_eq!(joins, 3, "two, and one again");
        assert!(bytes < 60_000, "{bytes}");
    }
}

/// Bytes of Bluetooth and of WiFi in a download at this rate for 20 s, by the energy of a watch's
/// and a phone's radios, with Bluetooth at this place in the configuration.
fn by_energy(seed: u64, mbps: f64, place: usize) -> [u64; 2] {
    let named = |near, far| PipeRadios {
        near: radio(near).unwrap(),
        far: radio(far),
    };
    let mut scenario = pipes(100.0, ms(25), &[BLUETOOTH_MBPS, 20.0]);
    scenario.seed = seed;
    let radios = [
        named("watch-bt", "phone-bt"),
        named("watch-wifi", "wifi-s4"),
    ];
    for (i, route) in scenario.routes.iter_mut().enumerate() {
        route.place = Some(i ^ place);
        route.radios = Some(radios[i]);
    }
    let every = ms(160);
    let bytes = BitRate::from_mbps(mbps).bytes_in(every);
    let mut exchange = Exchange::download(When::At(ms(1_000)), bytes * 125);
    exchange.origin.pace = Some(Pace { bytes, every });
    let outcome = World::new(scenario.with_exchange(exchange)).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let shares = &outcome.exchanges[0].shares;
    ["pipe0", "pipe1"].map(|name| {
        let share = shares.iter().find(|share| share.route == name);
        share.map_or(0, |share| share.bytes)
    })
}

/// Bluetooth's radios need 0.32 W, those of WiFi 1.03 W.
#[test]
fn bluetooth_carries_150_kbit_per_s_and_wifi_nine_tenths_of_5_mbit_per_s_in_either_order() {
    for seed in 1..=5 {
        for place in [0, 1] {
            let [bluetooth, wifi] = by_energy(seed, 0.15, place);
            assert_eq!((bluetooth, wifi), (375_000, 0));
            let [bluetooth, wifi] = by_energy(seed, 5.0, place);
            assert!(wifi > 9 * bluetooth, "{bluetooth} {wifi}");
        }
    }
}

/// 10 MiB through a helper with pipes of 20 and 10 Mbit/s, of which the first one falls to 1 Mbit/s
/// about 1.5 s after the start: its time.
fn falls_to_a_low_rate(variant: u32) -> Duration {
    let mut scenario = pipes(40.0, ms(25), &[20.0, 10.0]).varied(variant);
    for (place, route) in scenario.routes.iter_mut().enumerate() {
        route.place = Some(place);
    }
    let change = LinkChange::rate(Rate::Constant(BitRate::from_mbps(1.0)));
    scenario.faults.push(Fault {
        when: When::AfterStart(0, ms(1_500 + 17 * u64::from(variant))),
        what: Happening::Link {
            link: 1,
            up: Some(change.clone()),
            down: Some(change),
        },
    });
    let exchange = Exchange::download(When::At(ms(2_000)), 10 * MIB);
    let outcome = World::new(scenario.with_exchange(exchange)).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    outcome.exchanges[0].took.unwrap()
}

/// Bytes that wait there would take longer than they are waited for: they are sent again at once,
/// or after 2 s. Where the helper's last report counted for 300 ms only, two of thirty took 14 and
/// 20 s.
#[test]
fn a_pipe_that_falls_to_a_low_rate_is_not_waited_for() {
    let times: Vec<_> = (0..30).map(falls_to_a_low_rate).collect();
    assert!(times.iter().all(|time| *time < ms(9_000)), "{times:?}");
}
