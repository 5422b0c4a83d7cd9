//! Prices of helpers with radios of this crate.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mpbond_price::{
    EnergyMode, Estimate, PipeRadios, PricedHelper, PricedLink, RADIOS, RadioCost, radio,
};
use mpbond_radio::{Account, Direction, Packet, Phase, Placement, Profiles, Radio, radio_cost};
use mpbond_units::{BitRate, Timestamp};

const BALANCED: f64 = EnergyMode::Balanced.joules_per_second();

/// At rest.
const RESTS: Duration = Duration::from_secs(60);

/// Rates in Mbit/s of own link, helper's link and pipe.
fn helper(wwan: &str, [own, hs, pipe]: [f64; 3]) -> PricedHelper {
    let profiles = Profiles::shipped().unwrap();
    let cost = |name, direction| radio_cost(profiles.radio(name).unwrap(), direction);
    let link = |rate| PricedLink {
        radio: cost(wwan, Direction::Down),
        rate: BitRate::from_mbps(rate),
    };
    PricedHelper {
        own: link(own),
        helper: link(hs),
        pipe: [
            cost("wifi-s4", Direction::Down),
            cost("wifi-s4", Direction::Up),
        ],
        pipe_rate: BitRate::from_mbps(pipe),
        store_bytes: 4 << 20,
    }
}

/// The figures of the design leave out the bound of the helper's store, promotions and tails of
/// the pipe and, as far as can be told from them, the time of 5G in `RRC_INACTIVE` (4.8 s at
/// 66 mW).
fn as_designed(wwan: &str, rates: [f64; 3]) -> PricedHelper {
    let mut helper = PricedHelper {
        store_bytes: u64::MAX,
        ..helper(wwan, rates)
    };
    if wwan == "5g-sa-2020" {
        helper.own.radio.tail_joules -= 4.8 * 0.066;
        helper.helper.radio.tail_joules -= 4.8 * 0.066;
    }
    for end in &mut helper.pipe {
        (end.promotion_joules, end.tail_joules) = (0.0, 0.0);
    }
    helper
}

fn near(value: f64, expected: f64, within: f64) {
    let error = (value / expected - 1.0).abs();
    assert!(error <= within, "{value} is not {expected}");
}

/// The figures of the design, which has them with two digits.
#[test]
fn break_even_sizes_are_those_of_the_design() {
    let figures = [
        ("lte-2012", 39.0, 1.1),
        ("lte-2020-tmobile", 2.0, 0.12),
        ("5g-sa-2020", 22.0, 0.7),
    ];
    for (wwan, slow_pipe, slow_link) in figures {
        for (rates, mb) in [
            ([8.0, 10.0, 5.0], slow_pipe),
            ([2.0, 18.0, 20.0], slow_link),
        ] {
            let helper = as_designed(wwan, rates);
            let size = helper.break_even(BALANCED, RESTS).unwrap();
            near(size as f64 / 1e6, mb, 0.06);
        }
    }
}

#[test]
fn a_burst_at_rest_takes_the_time_and_energy_of_the_design() {
    let figures = [
        ("lte-2012", 15.8, 29.4),
        ("lte-2020-tmobile", 1.4, 2.9),
        ("5g-sa-2020", 7.9, 15.1),
    ];
    for (wwan, alone, with) in figures {
        let helper = as_designed(wwan, [8.0, 10.0, 5.0]);
        near(helper.alone(1_900_000).seconds, 1.90, 0.003);
        near(helper.alone(1_900_000).joules, alone, 0.02);
        near(helper.with_helper(1_900_000, RESTS).seconds, 1.27, 0.003);
        near(helper.with_helper(1_900_000, RESTS).joules, with, 0.02);
    }
}

#[test]
fn at_the_break_even_size_both_ways_cost_the_same_and_beyond_it_the_helper_less() {
    for wwan in ["lte-2012", "lte-2020-tmobile", "5g-sa-2020"] {
        for rates in [[8.0, 10.0, 5.0], [2.0, 18.0, 20.0], [6.0, 6.0, 20.0]] {
            for mode in [EnergyMode::Balanced, EnergyMode::Saver] {
                for quiet in [Duration::from_secs(1), RESTS] {
                    let helper = helper(wwan, rates);
                    let price = mode.joules_per_second();
                    let cost = |e: Estimate| e.joules + price * e.seconds;
                    let gain =
                        |bytes| cost(helper.alone(bytes)) - cost(helper.with_helper(bytes, quiet));
                    match helper.break_even(price, quiet) {
                        Some(size) => {
                            let scale = cost(helper.alone(size));
                            assert!(gain(size).abs() < 1e-3 * scale, "{wwan} {rates:?}");
                            assert!(gain(size / 2) < 0.0);
                            // Small ones of a radio that is awake pay up to the store.
                            let larger = size + size / 10;
                            assert!(gain(larger) > 0.0, "{wwan} {rates:?} {quiet:?}");
                        }
                        None => {
                            for size in [1 << 10, 1 << 20, 22 << 20, 1 << 40] {
                                assert!(gain(size) < 0.0, "{wwan} {rates:?} {mode:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}

/// `docs/energy.md` has these sizes.
#[test]
fn sizes_in_the_document_are_those_computed() {
    let document = include_str!("../../../docs/energy.md");
    let rates = [[8.0, 10.0, 5.0], [6.0, 6.0, 20.0], [2.0, 18.0, 20.0]];
    let mut missing = Vec::new();
    for wwan in ["lte-2012", "lte-2020-tmobile", "5g-sa-2020"] {
        for mode in [EnergyMode::Balanced, EnergyMode::Saver] {
            let size = |rates| {
                let size = helper(wwan, rates).break_even(mode.joules_per_second(), RESTS);
                size.map_or("never".to_owned(), |size| {
                    format!("{:.2}", size as f64 / 1e6)
                })
            };
            let sizes = rates.map(size).join(" | ");
            let lambda = mode.joules_per_second();
            let row = format!("| `{wwan}` | {lambda} | {sizes} |");
            if !document.contains(&row) {
                missing.push(row);
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// At 8/10/5 a store of 4 MiB is full after 67 Mbit: from then on the helper's radio is up for
/// as long as at 5 Mbit/s.
#[test]
fn a_full_store_keeps_the_radio_of_the_helper_up() {
    let bounded = helper("lte-2012", [8.0, 10.0, 5.0]);
    let endless = PricedHelper {
        store_bytes: u64::MAX,
        ..bounded
    };
    let none = PricedHelper {
        store_bytes: 0,
        ..bounded
    };
    let joules = |h: &PricedHelper, bytes| h.with_helper(bytes, RESTS).joules;
    let watts = bounded.helper.radio.active_watts;
    // 174.5 Mbit, of which the helper carries 67, and 0.26 s before it begins.
    let full = 4 << 20;
    let knee = 22_000_000;
    assert_eq!(joules(&bounded, knee), joules(&endless, knee));
    // 100 Mbit more: 38.5 of them for the helper.
    let more = 13_000_000.0 * 8.0 * 5.0 / 13.0;
    let beyond = joules(&bounded, 35_100_000) - joules(&endless, 35_100_000);
    near(beyond, more * watts * (1.0 / 5e6 - 1.0 / 10e6), 0.02);
    // Without a store the helper's radio waits for the pipe from the first bit on.
    let first = joules(&none, full) - joules(&endless, full);
    let late = bounded.helper.radio.promotion.as_secs_f64() * 8e6;
    let share = (full as f64 * 8.0 - late) * 5.0 / 13.0;
    near(first, share * watts * (1.0 / 5e6 - 1.0 / 10e6), 1e-6);
    assert!(endless.break_even(BALANCED, RESTS).is_some());
    assert_eq!(bounded.break_even(BALANCED, RESTS), None);
    // A faster pipe never waits.
    let fast = helper("lte-2012", [2.0, 18.0, 20.0]);
    let no_store = PricedHelper {
        store_bytes: 0,
        ..fast
    };
    assert_eq!(
        fast.break_even(BALANCED, RESTS),
        no_store.break_even(BALANCED, RESTS)
    );
}

#[test]
fn modes_and_states_are_in_their_order() {
    let helper = helper("lte-2012", [2.0, 18.0, 20.0]);
    let size = |mode: EnergyMode, quiet| helper.break_even(mode.joules_per_second(), quiet);
    assert_eq!(size(EnergyMode::Fastest, RESTS), Some(0));
    let balanced = size(EnergyMode::Balanced, RESTS);
    let saver = size(EnergyMode::Saver, RESTS);
    assert!(balanced < saver, "{balanced:?} {saver:?}");
    // A tail that runs costs only what it is longer.
    let awake = size(EnergyMode::Balanced, Duration::from_secs(1));
    assert!(
        awake < balanced.map(|size| size / 8),
        "{awake:?} {balanced:?}"
    );
    let slow = PricedHelper {
        pipe_rate: BitRate::ZERO,
        ..helper
    };
    assert_eq!(slow.break_even(BALANCED, RESTS), None);
    let none = PricedHelper {
        own: PricedLink {
            rate: BitRate::ZERO,
            ..helper.own
        },
        ..helper
    };
    assert_eq!(none.break_even(0.0, RESTS), Some(0));
}

/// The figures that the daemons have are those of the state machines.
#[test]
fn named_radios_are_those_of_the_profiles() {
    let profiles = Profiles::shipped().unwrap();
    for radio in RADIOS {
        let profile = profiles.radio(radio.name).unwrap();
        for (ours, direction) in [(radio.down, Direction::Down), (radio.up, Direction::Up)] {
            let theirs = radio_cost(profile, direction);
            let same = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-4 * theirs;
            let fields = |r: RadioCost| {
                [
                    r.promotion.as_secs_f64(),
                    r.promotion_joules,
                    r.active_watts,
                    r.joules_per_bit,
                    r.tail.as_secs_f64(),
                    r.tail_joules,
                ]
            };
            let mut pairs = fields(ours).into_iter().zip(fields(theirs));
            assert!(
                pairs.all(|(ours, theirs)| same(ours, theirs)),
                "{} {direction:?}: {theirs:?}",
                radio.name
            );
        }
    }
}

/// Mean power of a pipe's radios, by their state machines, while packets of 1500 bytes come down at
/// this rate for 4 s.
fn measured(radios: &PipeRadios, kbps: u64) -> f64 {
    let profiles = Profiles::shipped().unwrap();
    let every = Duration::from_nanos(12_000_000_000 / kbps);
    let watts = |(name, direction): (&str, Direction)| {
        let mut radio = Radio::new(profiles.radio(name).unwrap(), Placement::Live);
        let mut sums = Account::default();
        let packet = Packet {
            direction,
            bytes: 1_500,
        };
        let first = radio.packet(Timestamp::ZERO, packet, &mut sums);
        let mut last = first;
        for n in 1..u32::try_from(kbps / 3).unwrap().max(100) {
            last = radio.packet(first + every * n, packet, &mut sums);
        }
        radio.finish(last, &mut sums);
        let sums = sums.summary();
        let before = sums.phases.iter();
        let before = before.filter(|sum| matches!(sum.phase, Phase::Idle | Phase::Promotion));
        let joules = sums.joules_without_last_tail - before.map(|sum| sum.joules).sum::<f64>();
        joules / last.since(first).as_secs_f64()
    };
    let far = radios.far.unwrap().name;
    watts((radios.near.name, Direction::Down)) + watts((far, Direction::Up))
}

/// Where full packets are at most 50 ms apart; the power is less where they are farther, of
/// Bluetooth and WiFi alike.
#[test]
fn power_of_a_pipe_is_that_of_the_state_machines_from_240_kbit_per_s_on() {
    let pipe = |near, far| PipeRadios {
        near: radio(near).unwrap(),
        far: radio(far),
    };
    let bluetooth = pipe("watch-bt", "phone-bt");
    let wifi = pipe("watch-wifi", "wifi-s4");
    let watts =
        |pipe: &PipeRadios, kbps: u64| pipe.watts(BitRate::from_bps(kbps * 1_000), BitRate::ZERO);
    for kbps in [250, 1_000, 10_000] {
        for pipe in [&bluetooth, &wifi, &pipe("lte-2012", "lte-2020-tmobile")] {
            near(measured(pipe, kbps), watts(pipe, kbps), 0.02);
        }
    }
    for kbps in [100, 200] {
        let [least, most] = [&bluetooth, &wifi].map(|pipe| measured(pipe, kbps));
        assert!(least < watts(&bluetooth, kbps) && most < watts(&wifi, kbps));
        assert!(most > 3.0 * least, "{least} {most}");
    }
    // Power per radio is not all that counts where packets are rare: WiFi sleeps in between.
    let [bluetooth, wifi] = [&bluetooth, &wifi].map(|pipe| measured(pipe, 2));
    assert!(wifi < bluetooth, "{wifi} {bluetooth}");
}
