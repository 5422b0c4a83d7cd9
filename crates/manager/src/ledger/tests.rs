//! A link in virtual time whose own traffic and relays share it.

use proptest::prelude::*;

use super::*;

/// Rates in Mbit/s on the wire, and what relays had of them in the last interval.
struct World {
    ledger: LinkLedger,
    now: Timestamp,
    passed: Passed,
    link: f64,
    own: f64,
    lent: f64,
    limit: Option<BitRate>,
    /// Intervals until a limit has its effect, and the limits meanwhile.
    delay: usize,
    waiting: VecDeque<Option<BitRate>>,
    /// What own traffic and relays had in the last interval.
    had: (f64, f64),
}

const GREEDY: f64 = 1e6;

impl World {
    /// A link of 20 Mbit/s whose relays always have something to carry.
    fn new() -> Self {
        Self {
            ledger: LinkLedger::default(),
            now: Timestamp::from_millis(1_700),
            passed: Passed::default(),
            link: 20.0,
            own: 0.0,
            lent: GREEDY,
            limit: None,
            delay: 0,
            waiting: VecDeque::new(),
            had: (0.0, 0.0),
        }
    }

    /// An interval. Transfers without end grow into what is free, and share the link equally.
    fn step(&mut self) {
        self.waiting.push_back(self.limit);
        let mut limit = None;
        while self.waiting.len() > self.delay {
            limit = self.waiting.pop_front().flatten();
        }
        let may = limit.map_or(GREEDY, |l| l.mbps() / PAYLOAD_PERCENT as f64 * 100.0);
        let lent = self.lent.min(may);
        let own = self.own.min(self.had.0 * 1.5 + self.link / 10.0);
        let own = own.min((self.link - lent).max(self.link / 2.0));
        let lent = lent.min(self.link - own);
        let bytes = |mbps: f64| (mbps * 1e6 / 8.0 * READ_EVERY.as_secs_f64()) as u64;
        self.passed.all_bytes += bytes(own + lent);
        self.passed.lent_bytes += bytes(lent);
        self.now += READ_EVERY;
        self.limit = self.ledger.handle_reading(self.now, self.passed);
        self.had = (own, lent);
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 5 {
            self.step();
        }
    }

    /// Means of own and lent traffic over a time from now.
    fn mean(&mut self, seconds: u64) -> (f64, f64) {
        let (mut own, mut lent) = (0.0, 0.0);
        for _ in 0..seconds * 5 {
            self.step();
            (own, lent) = (own + self.had.0, lent + self.had.1);
        }
        let steps = (seconds * 5) as f64;
        (own / steps, lent / steps)
    }

    /// Seconds until it is true.
    fn until(&mut self, is: impl Fn(&Self) -> bool) -> f64 {
        let begun = self.now;
        while !is(self) {
            self.step();
            assert!(self.now.since(begun) < Duration::from_secs(1_000));
        }
        self.now.since(begun).as_secs_f64()
    }
}

#[test]
fn an_own_download_has_95_percent_with_its_releases() {
    for delay in 0..=2 {
        let mut world = World::new();
        world.delay = delay;
        world.run(5);
        world.own = GREEDY;
        let after = world.until(|w| w.had.0 >= 0.95 * w.link);
        assert!(after <= 4.0, "{after} s");
        let (own, lent) = world.mean(600);
        assert!(own >= 0.95 * world.link, "{own}");
        assert!(lent >= 0.01 * world.link, "relays do not fail: {lent}");
        // And relays alone have all of it again.
        world.own = 0.0;
        let after = world.until(|w| w.limit.is_none());
        assert!(after <= 1.0, "{after} s");
        world.run(1);
        assert_eq!(world.mean(60).1, world.link);
    }
}

/// It competes with relays of the same right.
#[test]
fn own_traffic_that_wants_most_of_the_link_has_it() {
    for own in [0.65, 0.8, 0.93] {
        for delay in [0, 2, 5] {
            let mut world = World::new();
            (world.own, world.delay) = (own * world.link, delay);
            let (own, _) = world.mean(600);
            assert!(own >= 0.94 * world.own, "{own} of {}, {delay}", world.own);
        }
    }
}

/// A link that carries both, although totals do not grow: their application, or a hop elsewhere,
/// limits them.
#[test]
fn relays_of_a_link_that_is_not_full_are_not_starved() {
    for delay in 0..=5 {
        for (own, lent) in [
            (4.0, 1.0),
            (1.0, 4.0),
            (4.0, 4.0),
            (0.5, 30.0),
            (50.0, 11.0),
        ] {
            let mut world = World::new();
            (world.link, world.own, world.lent) = (100.0, own, lent);
            world.delay = delay;
            let (_, had) = world.mean(600);
            // Trials are tried once in 32 s, with half for 2 s.
            assert!(had >= 0.95 * lent, "{had} of {lent} beside {own}, {delay}");
        }
    }
}

/// Own traffic that changes by itself, beside relays of a link that carries both.
#[test]
fn own_traffic_that_varies_costs_relays_little() {
    // Video that comes in parts, for so many of so many intervals, and one of a varying rate.
    for (on, of, least) in [
        (10, 50, 0.0),
        (25, 50, 0.0),
        (5, 10, 0.0),
        (10, 20, 0.7),
        (4, 7, 0.5),
    ] {
        for (own, lent) in [(30.0, 5.0), (4.0, 1.0), (10.0, 10.0)] {
            let mut world = World::new();
            (world.link, world.lent) = (100.0, lent);
            let mut had = 0.0;
            for n in 0..5 * 1_200 {
                world.own = if n % of < on { own } else { least * own };
                world.step();
                had += world.had.1 / 6_000.0;
            }
            assert!(
                had >= 0.6 * lent,
                "{had} of {lent} beside {own}, {on} of {of}"
            );
        }
    }
}

#[test]
fn beside_own_traffic_that_is_not_harmed_relays_have_what_it_leaves() {
    for own in [0.06, 0.2, 0.4, 0.5] {
        let mut world = World::new();
        world.own = own * world.link;
        let (had, lent) = world.mean(600);
        assert!(had >= 0.99 * world.own);
        let left = (1.0 - own) * world.link;
        assert!(lent >= 0.95 * left, "{lent} of {left}");
    }
}

#[test]
fn a_link_without_much_own_traffic_has_no_limit() {
    let mut world = World::new();
    world.own = 0.04 * world.link;
    for _ in 0..2_000 {
        world.step();
        assert_eq!(world.limit, None);
    }
}

/// Relays begin, or get more to carry, beside own traffic that had the link.
#[test]
fn relays_that_begin_later_are_limited() {
    let mut world = World::new();
    (world.own, world.lent) = (GREEDY, 0.1);
    world.run(3);
    world.lent = 4.5;
    world.run(5);
    world.lent = GREEDY;
    let after = world.until(|w| w.had.0 >= 0.95 * w.link);
    assert!(after <= 5.0, "{after} s");
}

#[test]
fn a_link_that_becomes_faster_is_found_within_32_s() {
    // From any phase of the releases, and also beside own traffic that is limited elsewhere.
    for wait in 0..31 {
        for own in [3.0, 4.9] {
            let mut world = World::new();
            (world.link, world.own) = (5.0, own);
            world.run(40 + wait);
            world.link = 50.0;
            let after = world.until(|w| w.had.1 >= 40.0);
            assert!(after <= 33.0, "{after} s");
            let (_, lent) = world.mean(300);
            assert!(lent >= 0.95 * (50.0 - own), "{lent}");
        }
    }
}

/// The largest total is forgotten, and own traffic has its part of what is left.
#[test]
fn a_link_that_becomes_slower_is_found() {
    let mut world = World::new();
    world.own = GREEDY;
    world.run(40);
    world.link = 5.0;
    world.run(70);
    let (own, _) = world.mean(600);
    assert!(own >= 0.93 * world.link, "{own}");
}

/// A radio whose rate halves every other second.
#[test]
fn a_rate_that_alternates_lowers_nothing() {
    for (own, part) in [(0.3, 0.999), (2.0, 0.95), (4.0, 0.95)] {
        let mut world = World::new();
        world.own = own;
        let (mut lent, mut there) = (0.0, 0.0);
        for n in 0..5 * 600 {
            world.link = if n / 5 % 2 == 0 { 20.0 } else { 10.0 };
            world.step();
            lent += world.had.1;
            there += world.link - own;
        }
        assert!(lent >= part * there, "{lent} of {there} beside {own}");
    }
}

/// A queue that is filled, at the beginning of a transfer, takes more than the link carries.
#[test]
fn a_burst_does_not_count() {
    let mut world = World::new();
    world.run(3);
    world.passed.all_bytes += 500_000;
    world.passed.lent_bytes += 500_000;
    world.run(3);
    let most = world.ledger.totals.front().unwrap().1.mbps();
    assert!(most <= 20.01, "{most}");
}

/// TCP counts what comes after a lost segment once it has come again.
#[test]
fn a_relay_that_loses_packets_has_no_limit() {
    let mut world = World::new();
    for n in 0..2_000 {
        let before = world.passed.lent_bytes;
        world.step();
        assert_eq!(world.limit, None, "{n}");
        // The bytes of one interval in three come with the next one.
        if n % 3 == 0 {
            let late = (world.passed.lent_bytes - before) / 2;
            world.passed.lent_bytes -= late;
            let limit = world.ledger.handle_reading(world.now, world.passed);
            assert_eq!(limit, None);
            world.passed.lent_bytes += late;
        }
    }
}

/// Counts of before a rest, and a counter that begins anew, are no rates.
#[test]
fn a_rest_begins_anew() {
    let mut ledger = LinkLedger::default();
    let mut passed = Passed::default();
    let at = |ms| Timestamp::from_millis(ms);
    for n in 0..20 {
        passed.all_bytes += 500_000;
        passed.lent_bytes += 250_000;
        let limit = ledger.handle_reading(at(2_000 + 200 * n), passed);
        let is_trial = (INTERVALS as u64..=INTERVALS as u64 + 9).contains(&n);
        assert_eq!(limit.is_some(), is_trial, "{n}");
    }
    // 5 GB of own traffic meanwhile.
    passed.all_bytes += 5_000_000_000;
    for n in 0..10 {
        passed.lent_bytes += 500_000;
        passed.all_bytes += 500_000;
        assert_eq!(ledger.handle_reading(at(20_000 + 200 * n), passed), None);
    }
    let none = Passed::default();
    assert_eq!(ledger.handle_reading(at(22_000), none), None);
    assert!(
        ledger.totals.iter().all(|(_, t)| t.mbps() <= 20.1),
        "{ledger:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever was before, and however late limits have their effect: a minute and a half later,
    /// relays have what own traffic leaves, unless own traffic wants more than its part of a full
    /// link.
    #[test]
    fn what_relays_have_never_ratchets_down(
        before in prop::collection::vec((0.1..60.0_f64, 0.0..60.0_f64, 0.0..60.0_f64), 0..20),
        own in 0.0..0.5_f64,
        link in 0.5..100.0_f64,
        delay in 0_usize..=5,
    ) {
        let mut world = World::new();
        world.delay = delay;
        for (link, own, lent) in before {
            (world.link, world.own, world.lent) = (link, own, lent);
            world.run(3);
        }
        (world.link, world.own, world.lent) = (link, own * link, GREEDY);
        world.run(93);
        let left = (1.0 - own) * link;
        for _ in 0..3 {
            let (_, lent) = world.mean(32);
            prop_assert!(lent >= 0.9 * left, "{lent} of {left}");
        }
    }

    /// Own traffic that wants all has nearly all, for ten minutes.
    #[test]
    fn own_traffic_has_the_link(
        before in prop::collection::vec((0.1..60.0_f64, 0.0..60.0_f64, 0.0..60.0_f64), 0..20),
        link in 0.5..100.0_f64,
        delay in 0_usize..=3,
    ) {
        let mut world = World::new();
        world.delay = delay;
        for (link, own, lent) in before {
            (world.link, world.own, world.lent) = (link, own, lent);
            world.run(3);
        }
        (world.link, world.own, world.lent) = (link, GREEDY, GREEDY);
        world.run(93);
        let (own, _) = world.mean(600);
        prop_assert!(own >= 0.9 * link, "{own} of {link}");
    }
}
