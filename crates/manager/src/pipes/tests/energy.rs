//! The choice among pipes whose radios are named.

use mpbond_price::{PipeRadios, radio};
use mpbond_session::HelperId;

use super::super::facts::PIPES_EVERY;
use super::super::why::{PipeUse, Why};
use super::{FIRST, LinkId, SECOND, World, mbps, seconds};
use crate::config;

/// Radios of a pipe, that of the helper behind a slash.
pub(super) fn radios(names: &str) -> Option<PipeRadios> {
    let mut ends = names.split('/').map(|name| radio(name).unwrap());
    ends.next().map(|near| PipeRadios {
        near,
        far: ends.next(),
    })
}

/// Pipes of these rates in Mbit/s with these radios, and a source.
fn world(pipes: &[(f64, &str)], source: f64) -> World {
    let rates: Vec<f64> = pipes.iter().map(|(rate, _)| *rate).collect();
    World::with(&rates, source, |i| config::Link {
        radios: Some(pipes[i].1)
            .filter(|names| !names.is_empty())
            .and_then(radios),
        ..config::Link::pipe("pipe", HelperId(0))
    })
}

const BLUETOOTH: (f64, &str) = (1.267, "watch-bt/phone-bt");
const WIFI: (f64, &str) = (20.0, "watch-wifi/wifi-s4");

#[test]
fn a_low_demand_is_carried_by_bluetooth_and_a_high_one_by_wifi_in_either_order() {
    for (pipes, bluetooth, wifi) in [
        ([BLUETOOTH, WIFI], FIRST, SECOND),
        ([WIFI, BLUETOOTH], SECOND, FIRST),
    ] {
        let mut world = world(&pipes, 0.15);
        let choice = world.choice.of(bluetooth).unwrap();
        assert_eq!(
            (choice.state, choice.why),
            (PipeUse::Used, Why::FewestJoules)
        );
        world.run(seconds(60));
        assert_eq!((world.used(), world.tried), (bluetooth, 0));
        assert_eq!((&world.chosen[..], &world.asked[..]), (&[][..], &[][..]));
        // 117.2 and 200 mW; 378.5 and 654 mW.
        let milliwatts = |link| world.choice.of(link).unwrap().milliwatts;
        assert_eq!(
            (milliwatts(bluetooth), milliwatts(wifi)),
            (Some(317), Some(1_032))
        );
        world.source = mbps(5.0);
        world.run(seconds(10));
        let (_, link, why) = world.chosen[0];
        assert_eq!((link, why), (wifi, Why::TooSlow(bluetooth)));
        assert_eq!(world.used(), wifi);
        world.source = mbps(0.15);
        let before = world.ms();
        world.run(seconds(20));
        let (at, link, why) = world.chosen[1];
        assert_eq!((link, why), (bluetooth, Why::FewerJoules(wifi)));
        assert!((5_000..10_000).contains(&(at - before)), "{}", at - before);
        assert_eq!((world.used(), world.chosen.len()), (bluetooth, 2));
    }
}

/// 0.8 W and 94.8 nJ a bit; 1.105 W.
#[test]
fn the_order_is_that_of_the_demand_and_less_than_a_quarter_is_no_reason_for_a_change() {
    let lte = (20.0, "lte-2020-tmobile/lte-2020-tmobile");
    let wifi = (20.0, "wifi-s4/wifi-s4");
    let mut world = world(&[wifi, lte], 0.5);
    world.run(seconds(10));
    assert_eq!((world.used(), world.chosen.len()), (SECOND, 0));
    let mut used = Vec::new();
    // In mW: 1084, 1464, 895, 1084, 847, 990.
    for source in [3.0, 7.0, 1.0, 3.0, 0.5, 2.0] {
        world.source = mbps(source);
        world.run(seconds(15));
        used.push(world.used());
    }
    assert_eq!(used, [SECOND, FIRST, FIRST, FIRST, SECOND, SECOND]);
    let why: Vec<Why> = world.chosen.iter().map(|(.., why)| *why).collect();
    assert_eq!(why, [Why::FewerJoules(SECOND), Why::FewerJoules(FIRST)]);
}

#[test]
fn own_ends_are_compared_where_only_those_of_all_are_named() {
    // 451 and 378.5 mW.
    let pipes = [(20.0, "wifi-s4"), (20.0, "watch-wifi/wifi-s4")];
    let mut world = world(&pipes, 0.15);
    world.run(seconds(20));
    assert_eq!((world.used(), world.chosen.len()), (SECOND, 0));
}

/// Such as a backup that the API has put among those that are chosen from.
#[test]
fn those_without_radios_come_after_those_with_in_the_order_of_the_file() {
    const UNNAMED: (f64, &str) = (20.0, "");
    let mut world = world(&[UNNAMED, WIFI, UNNAMED, BLUETOOTH], 0.15);
    let (wifi, bluetooth) = (LinkId(1), LinkId(3));
    let choice = world.choice.of(FIRST).unwrap();
    assert_eq!((choice.state, choice.milliwatts), (PipeUse::Standby, None));
    world.run(seconds(20));
    assert_eq!((world.used(), world.chosen.len()), (bluetooth, 0));
    let mut without = |link: LinkId, expected: LinkId, why: Why| {
        world.pipes[link.0].carrier = false;
        world.run(PIPES_EVERY);
        let (_, used, reason) = *world.chosen.last().unwrap();
        assert_eq!((used, reason), (expected, why));
    };
    without(bluetooth, wifi, Why::Failed(bluetooth));
    without(wifi, FIRST, Why::Failed(wifi));
    without(FIRST, LinkId(2), Why::Failed(FIRST));
    world.pipes[1].carrier = true;
    world.run(seconds(6));
    let (_, used, why) = *world.chosen.last().unwrap();
    assert_eq!((used, why), (wifi, Why::Cheaper(LinkId(2))));
}

/// As after a reload of the configuration.
#[test]
fn radios_that_are_named_later_change_the_order() {
    let mut world = world(&[(20.0, ""), (1.267, "")], 0.15);
    world.run(seconds(20));
    let choice = world.choice.of(FIRST).unwrap();
    assert_eq!((choice.state, choice.why), (PipeUse::Used, Why::First));
    for (link, (_, names)) in [(FIRST, WIFI), (SECOND, BLUETOOTH)] {
        world.choice.set_radios(link, radios(names));
    }
    let before = world.ms();
    world.run(seconds(10));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::FewerJoules(FIRST)));
    assert!((5_000..5_500).contains(&(at - before)), "{}", at - before);
    assert_eq!(world.rejoined, []);
    for link in [FIRST, SECOND] {
        world.choice.set_radios(link, None);
    }
    // It is not used for its energy any more, and not the first one.
    assert_eq!(world.choice.of(SECOND).unwrap().why, Why::Kept);
    world.run(seconds(10));
    let (_, link, why) = world.chosen[1];
    assert_eq!((link, why), (FIRST, Why::Cheaper(SECOND)));
}

#[test]
fn without_radios_the_first_one_is_used_for_being_the_first() {
    let mut world = world(&[BLUETOOTH, WIFI], 0.15);
    world.run(seconds(5));
    assert_eq!(world.choice.of(FIRST).unwrap().why, Why::FewestJoules);
    for link in [FIRST, SECOND] {
        world.choice.set_radios(link, None);
    }
    assert_eq!(world.choice.of(FIRST).unwrap().why, Why::First);
}

#[test]
fn one_that_fails_or_comes_to_rest_gives_way_to_the_one_that_needs_the_fewest_joules() {
    let far = (20.0, "5g-sa-2020/5g-sa-2020");
    let mut world = world(&[far, WIFI, BLUETOOTH], 0.15);
    let bluetooth = LinkId(2);
    world.run(seconds(5));
    assert_eq!(world.used(), bluetooth);
    world.pipes[2].carrier = false;
    world.run(PIPES_EVERY);
    assert_eq!(world.chosen.last().unwrap().1, SECOND);
    // It is there again while nothing moves.
    world.pipes[2].carrier = true;
    world.source = mbps(0.0);
    world.run(seconds(2));
    let (_, link, why) = *world.chosen.last().unwrap();
    assert_eq!((link, why), (bluetooth, Why::FewerJoules(SECOND)));
}
