//! The ledger's answers to counts and round-trip times, without a network. Downloads over links in
//! virtual time are in the simulator's tests (`crates/sim/tests/lending.rs`).

use proptest::prelude::*;

use super::*;

const RELAY: u64 = 3;
const BASE: Duration = Duration::from_millis(40);
const LONG: Duration = Duration::from_millis(80);

/// A link whose loads are given for each interval.
#[derive(Default)]
struct World {
    ledger: LinkLedger,
    now: Timestamp,
    reading: Reading,
}

fn mbps(mbps: f64) -> BitRate {
    BitRate::from_mbps(mbps)
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        world.pass([(0.0, 0.0); 2], Some(BASE), false);
        world
    }

    /// An interval with these rates, own and lent, down and up.
    fn pass(&mut self, rates: [(f64, f64); 2], round_trip: Option<Duration>, held_back: bool) {
        self.now += READ_EVERY;
        let passed = [&mut self.reading.down, &mut self.reading.up];
        for (passed, (own, lent)) in passed.into_iter().zip(rates) {
            passed.all_bytes += mbps(own + lent).bytes_in(READ_EVERY);
            passed.lent_bytes += mbps(lent).bytes_in(READ_EVERY);
            passed.held_back += u64::from(held_back);
        }
        self.reading.round_trips = round_trip.map(|rtt| (RELAY, rtt)).into_iter().collect();
        self.ledger.handle_reading(self.now, &self.reading);
    }

    /// The same for downloads, with their acknowledgements.
    fn down(&mut self, own: f64, lent: f64, round_trip: Option<Duration>, held_back: bool) {
        let rates = [(own, lent), (own / 40.0, lent / 40.0)];
        self.pass(rates, round_trip, held_back);
    }

    fn capacity(&self) -> Option<f64> {
        self.ledger.capacity(Way::Down).map(BitRate::mbps)
    }

    fn lent(&self) -> Option<f64> {
        self.ledger.lent_rate(Way::Down).map(BitRate::mbps)
    }

    /// A link that has been full at 20 Mbit/s.
    fn of_20_mbps() -> Self {
        let mut world = Self::new();
        for _ in 0..2 {
            world.down(0.0, 20.0, Some(LONG), false);
        }
        world
    }
}

/// As a part of the capacity, in payload.
fn part(part: f64) -> f64 {
    part * 0.95 * 20.0
}

#[test]
fn nothing_is_limited_until_there_is_a_queue_or_own_traffic() {
    let mut world = World::new();
    for lent in [1.0, 5.0, 20.0] {
        world.down(0.0, lent, Some(BASE), true);
        assert_eq!((world.capacity(), world.lent()), (None, None));
        assert_eq!(world.ledger.window_bytes(RELAY, 1.0), None);
    }
    // One long round trip may be a pause of the sender.
    world.down(0.0, 20.0, Some(LONG), false);
    assert_eq!(world.lent(), None);
    world.down(0.0, 20.0, Some(LONG), false);
    assert_eq!(world.capacity(), Some(20.0));
    let draining = 0.97 * 0.85 * 20.0;
    assert!((world.lent().unwrap() - draining).abs() < 0.01);
    world.down(0.0, 17.0, None, false);
    assert!((world.lent().unwrap() - part(0.97)).abs() < 0.01);
    assert_eq!(world.ledger.lent_rate(Way::Up), None, "only acknowledges");
    assert_eq!(world.ledger.capacity(Way::Up), None);
}

#[test]
fn the_window_is_what_the_rate_takes_in_a_round_trip() {
    let world = World::of_20_mbps();
    let rate = mbps(world.lent().unwrap());
    let window = |part| world.ledger.window_bytes(RELAY, part).unwrap();
    let whole = rate.bytes_in(BASE + WINDOW_SLACK);
    assert!(window(1.0).abs_diff(whole) <= 1 && window(7.0) == window(1.0));
    assert!(window(0.5).abs_diff(whole / 2) <= 1);
    assert_eq!(window(0.0), LEAST_WINDOW_BYTES);
    assert_eq!(world.ledger.window_bytes(RELAY + 1, 1.0), None);
    let mut ledger = world.ledger;
    ledger.retain_relays(|relay| relay == RELAY);
    assert!(ledger.window_bytes(RELAY, 1.0).is_some());
    ledger.retain_relays(|_| false);
    assert_eq!(ledger.window_bytes(RELAY, 1.0), None);
}

#[test]
fn own_traffic_leaves_the_rest_and_the_floor() {
    let mut world = World::of_20_mbps();
    for (own, rest) in [(4.0, 0.72), (16.0, 0.02), (20.0, 0.02), (0.0, 0.97)] {
        // It counts by 4 % more in each interval, and no more at once.
        let mut before = world.lent().unwrap();
        for _ in 0..20 {
            world.down(own, 20.0 - own, None, false);
            let lent = world.lent().unwrap();
            assert!(
                before - lent <= part(0.05) + 0.01,
                "{own}: {before}, {lent}"
            );
            before = lent;
        }
        assert_eq!(world.capacity(), Some(20.0), "{own}");
        world.down(own, 20.0 - own, None, false);
        let lent = world.lent().unwrap();
        assert!((lent - part(rest)).abs() < 0.01, "{own}: {lent}");
        assert_eq!(world.ledger.own_rate(Way::Down).mbps().round(), own);
    }
}

#[test]
fn the_capacity_grows_while_relays_are_held_back_without_a_queue() {
    let mut world = World::of_20_mbps();
    for grown in [1.01, 1.0201, 1.0303, 1.0509, 1.0719, 1.0934, 1.1371] {
        world.down(0.0, 18.0, Some(BASE), true);
        let capacity = world.capacity().unwrap() / 20.0;
        assert!((capacity - grown).abs() < 0.001, "{capacity} {grown}");
    }
    for (round_trip, held_back) in [
        (None, true),
        (Some(BASE), false),
        (Some(BASE + Duration::from_millis(10)), true),
    ] {
        let before = world.capacity();
        world.down(0.0, 18.0, round_trip, held_back);
        assert_eq!(world.capacity(), before, "{round_trip:?} {held_back}");
    }
    // A queue shows it, and it is lowered step by step.
    world.down(0.0, 20.0, Some(LONG), false);
    let before = world.capacity().unwrap();
    world.down(0.0, 5.0, Some(LONG), false);
    assert!((world.capacity().unwrap() - 0.75 * before).abs() < 0.01);
    for _ in 0..7 {
        world.down(0.0, 5.0, Some(LONG), false);
    }
    assert!(world.capacity().unwrap() < 6.0, "{:?}", world.capacity());
}

#[test]
fn beside_own_traffic_the_total_is_the_capacity_until_it_is_known() {
    let mut world = World::new();
    world.down(0.0, 20.0, Some(BASE), false);
    world.down(5.0, 15.0, Some(BASE), false);
    assert_eq!(world.capacity(), Some(20.0));
    // Acknowledgements of a download are not beside own traffic.
    assert_eq!(world.ledger.lent_rate(Way::Up), None);
    world.down(0.0, 3.0, Some(BASE), false);
    assert_eq!(world.capacity(), None, "without a queue, it is forgotten");
}

#[test]
fn a_gain_at_the_cost_of_own_traffic_ends_the_growth() {
    let mut world = World::new();
    world.down(10.0, 10.0, Some(BASE), true);
    for _ in 0..3 {
        world.down(10.0, 10.0, Some(BASE), true);
    }
    let before = world.capacity().unwrap();
    world.down(9.0, 11.0, Some(BASE), true);
    let capacity = world.capacity().unwrap();
    assert!(before > 20.9 && capacity < before, "{before} {capacity}");
    // One that own traffic has left, or that the link had left, does not.
    for (own, lent) in [(4.0, 11.5), (4.0, 14.0)] {
        let before = world.capacity().unwrap();
        world.down(own, lent, Some(BASE), true);
        assert!(world.capacity().unwrap() > before);
    }
}

#[test]
fn a_queue_that_stays_although_less_is_carried_is_none() {
    let mut world = World::of_20_mbps();
    for lent in [19.0, 17.0, 17.0] {
        world.down(0.0, lent, Some(LONG), true);
        assert_eq!(world.capacity(), Some(20.0));
    }
    world.down(0.0, 17.0, Some(LONG), true);
    assert_eq!(world.capacity(), Some(20.0), "that of before");
    world.down(0.0, 18.0, Some(LONG), true);
    assert!(world.capacity().unwrap() > 20.0, "no queue any more");
    // A shorter round trip is a base again.
    world.down(0.0, 18.0, Some(BASE), true);
    let before = world.capacity().unwrap();
    for _ in 0..2 {
        world.down(0.0, 18.0, Some(LONG), false);
    }
    assert!(world.capacity().unwrap() < before);
}

#[test]
fn an_upload_of_the_owner_is_not_the_queue_of_a_download() {
    let mut world = World::of_20_mbps();
    for _ in 0..2 {
        world.pass([(0.1, 2.0), (5.0, 0.1)], Some(LONG), false);
    }
    assert_eq!(world.ledger.capacity(Way::Up), Some(mbps(5.1)));
    let down = world.capacity().unwrap();
    for _ in 0..5 {
        world.pass([(0.1, 10.0), (5.0, 0.1)], Some(LONG), true);
    }
    assert!(world.capacity().unwrap() > down, "it grows meanwhile");
    let window = world.ledger.window_bytes(RELAY, 1.0).unwrap();
    let rate = mbps(world.lent().unwrap());
    assert!(window.abs_diff(rate.bytes_in(LONG + WINDOW_SLACK)) <= 1);
    for _ in 0..20 {
        world.pass([(0.1, 10.0), (5.0, 0.1)], Some(LONG), true);
    }
    let up = world.ledger.lent_rate(Way::Up).unwrap();
    assert!(up.mbps() < 0.2, "{up}: the upload goes first");
}

#[test]
fn after_a_rest_the_first_reading_begins_an_interval() {
    let mut world = World::of_20_mbps();
    world.ledger.handle_idle();
    world.down(100.0, 0.0, None, false);
    assert_eq!(world.ledger.own_rate(Way::Down), BitRate::ZERO);
    // So does one that comes late.
    world.now += MAX_INTERVAL;
    world.down(100.0, 0.0, None, false);
    assert_eq!(world.ledger.own_rate(Way::Down), BitRate::ZERO);
    world.down(8.0, 0.0, None, false);
    assert_eq!(world.ledger.own_rate(Way::Down).mbps().round(), 8.0);
}

#[derive(Debug, Clone)]
struct Any {
    counts: [u64; 6],
    round_trip: Option<u64>,
    after_ms: u64,
}

fn any_reading() -> impl Strategy<Value = Any> {
    let counts = prop::array::uniform6(prop_oneof![Just(u64::MAX), 0..1_u64 << 40, 0..9_u64]);
    let round_trip = prop::option::of(0..2_000_u64);
    (counts, round_trip, 0..1_500_u64).prop_map(|(counts, round_trip, after_ms)| Any {
        counts,
        round_trip,
        after_ms,
    })
}

proptest! {
    /// Also where counters sink, as with another interface of the same name.
    #[test]
    fn what_is_lent_is_between_the_floor_and_97_percent(
        readings in prop::collection::vec(any_reading(), 1..40),
    ) {
        let (mut ledger, mut now) = (LinkLedger::default(), Timestamp::ZERO);
        for Any { counts, round_trip, after_ms } in readings {
            now += Duration::from_millis(after_ms);
            let passed = |at: usize| Passed {
                all_bytes: counts[at],
                lent_bytes: counts[at + 1],
                held_back: counts[at + 2],
            };
            let round_trips = round_trip.map(|ms| (RELAY, Duration::from_millis(ms)));
            let reading = Reading {
                down: passed(0),
                up: passed(3),
                round_trips: round_trips.into_iter().collect(),
            };
            ledger.handle_reading(now, &reading);
            for way in [Way::Down, Way::Up] {
                let capacity = ledger.capacity(way).filter(|c| *c > BitRate::ZERO);
                let lent = ledger.lent_rate(way);
                prop_assert_eq!(capacity.is_some(), lent.is_some());
                if let (Some(capacity), Some(lent)) = (capacity, lent) {
                    let part = lent.bps() as f64 / (capacity.bps() as f64 * 0.95);
                    let is_tiny = capacity.bps() < 1_000;
                    prop_assert!(is_tiny || (0.015..=0.971).contains(&part), "{}", part);
                }
            }
            if let Some(window) = ledger.window_bytes(RELAY, 1.0) {
                prop_assert!(window >= LEAST_WINDOW_BYTES);
            }
        }
    }
}
