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
            had: (0.0, 0.0),
        }
    }

    /// An interval. Transfers without end grow into what is free, and share the link equally.
    fn step(&mut self) {
        let may = self
            .limit
            .map_or(GREEDY, |l| l.mbps() / PAYLOAD_PERCENT as f64 * 100.0);
        let lent = self.lent.min(may);
        let own = self.own.min(self.had.0 * 1.5 + self.link / 10.0);
        let own = own.min((self.link - lent).max(self.link / 2.0));
        let lent = lent.min(self.link - own);
        let bytes = |mbps: f64| (mbps * 1e6 / 8.0 * READ_EVERY.as_secs_f64()) as u64;
        self.passed.all_bytes += bytes(own + lent);
        self.passed.lent_bytes += bytes(lent);
        self.passed.backlogged = self.lent > lent;
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
fn an_own_download_has_95_percent_with_its_trials() {
    let mut world = World::new();
    world.run(5);
    world.own = GREEDY;
    let after = world.until(|w| w.had.0 >= 0.95 * w.link);
    assert!(after <= 3.0, "{after} s");
    let (own, lent) = world.mean(10 * 31);
    assert!(own >= 0.95 * world.link, "{own}");
    assert!(lent >= 0.01 * world.link, "relays do not fail: {lent}");
    // And relays alone have all of it again.
    world.own = 0.0;
    let after = world.until(|w| w.limit.is_none());
    assert!(after <= 1.0, "{after} s");
    assert_eq!(world.mean(60).1, world.link);
}

/// Own traffic of a constant rate has room for a quarter more.
#[test]
fn beside_own_traffic_relays_have_what_it_leaves() {
    for own in [0.06, 0.2, 0.4, 0.6] {
        let mut world = World::new();
        world.own = own * world.link;
        world.run(70);
        let (_, lent) = world.mean(62);
        let left = (0.97 - 1.25 * own) * world.link;
        assert!(
            (0.93 * left..1.1 * left).contains(&lent),
            "{lent} of {left}"
        );
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

/// Nothing shows how much the link carries, and it carries both.
#[test]
fn relays_that_have_little_to_carry_have_no_limit() {
    let mut world = World::new();
    for (own, lent) in [(1.0, 2.0), (5.0, 0.1), (3.0, 3.0)] {
        (world.own, world.lent) = (own, lent);
        for _ in 0..2_000 {
            world.step();
            assert_eq!(world.limit, None, "{own} {lent}");
        }
    }
}

#[test]
fn a_total_counts_for_a_minute() {
    let mut world = World::new();
    world.run(5);
    (world.link, world.own) = (5.0, 1.0);
    world.run(2);
    let limit = world.limit.unwrap().mbps();
    assert!(
        (limit - 0.95 * (0.97 * 20.0 - 1.25)).abs() < 1e-3,
        "{limit}"
    );
    let after = world.until(|w| w.limit.is_some_and(|l| l.mbps() < 5.0));
    assert!((57.0..60.0).contains(&after), "{after} s");
}

#[test]
fn a_link_that_becomes_faster_is_found_within_31_s() {
    // From any phase of the trials.
    for wait in 0..31 {
        let mut world = World::new();
        world.link = 5.0;
        world.run(70 + wait);
        world.own = 3.0;
        world.run(10);
        world.link = 50.0;
        let full = 0.95 * (0.97 * 50.0 - 1.25 * 3.0);
        let after = world.until(|w| w.limit.is_some_and(|l| l.mbps() >= 0.99 * full));
        assert!(after <= 32.0, "{after} s");
        // The limit stays there.
        let (_, lent) = world.mean(300);
        assert!(lent >= 0.9 * full, "{lent} of {full}");
    }
}

/// Own traffic that had nearly all of the link, and is limited elsewhere.
#[test]
fn a_link_that_becomes_faster_is_found_beside_a_full_one() {
    let mut world = World::new();
    world.link = 5.0;
    world.run(70);
    world.own = 4.9;
    world.run(62);
    assert!(world.had.0 >= 4.8, "{:?}", world.had);
    world.link = 50.0;
    let full = 0.95 * (0.97 * 50.0 - 1.25 * 4.9);
    let after = world.until(|w| w.limit.is_some_and(|l| l.mbps() >= 0.99 * full));
    assert!((31.0..=63.0).contains(&after), "by two trials: {after} s");
}

/// A radio whose rate halves every other second.
#[test]
fn a_rate_that_alternates_lowers_nothing() {
    for (own, part) in [(0.3, 1.0), (2.0, 0.9)] {
        let mut world = World::new();
        world.own = own;
        let (mut lent, mut there) = (0.0, 0.0);
        for n in 0..5 * 600 {
            world.link = if n / 5 % 2 == 0 { 20.0 } else { 10.0 };
            world.step();
            lent += world.had.1;
            there += world.link - own;
        }
        assert!(lent >= part * 0.98 * there, "{lent} of {there}");
    }
}

/// A queue that is filled, at the beginning of a transfer, takes more than the link carries.
#[test]
fn a_burst_does_not_count() {
    let mut world = World::new();
    world.run(3);
    world.passed.all_bytes += 500_000;
    world.passed.lent_bytes += 500_000;
    world.own = 5.0;
    world.run(3);
    let limit = world.limit.unwrap().mbps();
    assert!(
        (limit - 0.95 * (0.97 * 20.0 - 1.25 * 5.0)).abs() < 1e-3,
        "{limit}"
    );
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
        passed.backlogged = true;
        let limit = ledger.handle_reading(at(2_000 + 200 * n), passed);
        assert_eq!(limit.is_some(), n >= INTERVALS as u64, "{n}");
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

    /// Whatever was before: a minute and two trials later relays have what constant own traffic
    /// leaves.
    #[test]
    fn what_relays_have_never_ratchets_down(
        before in prop::collection::vec((0.1..60.0_f64, 0.0..60.0_f64, 0.0..60.0_f64), 0..20),
        own in 0.0..0.6_f64,
        link in 0.5..100.0_f64,
    ) {
        let mut world = World::new();
        for (link, own, lent) in before {
            (world.link, world.own, world.lent) = (link, own, lent);
            world.run(3);
        }
        (world.link, world.own, world.lent) = (link, own * link, GREEDY);
        world.run(93);
        let left = (0.97 - 1.25 * own) * link;
        for _ in 0..3 {
            let (_, lent) = world.mean(31);
            prop_assert!(lent >= 0.9 * left, "{lent} of {left}");
        }
    }

    /// Every limit leaves at least what the largest total of the last minute did.
    #[test]
    fn a_limit_is_never_below_what_was_measured_in_the_last_minute(
        steps in prop::collection::vec(
            (0_u64..4_000_000, 0_u64..4_000_000, any::<bool>()),
            10..400,
        ),
    ) {
        let mut ledger = LinkLedger::default();
        let mut passed = Passed::default();
        let mut all = Vec::new();
        for (n, (own, lent, backlogged)) in steps.into_iter().enumerate() {
            passed.all_bytes += own + lent;
            passed.lent_bytes += lent;
            passed.backlogged = backlogged;
            // The first reading is the beginning of an interval.
            if n > 0 {
                all.push((own + lent, backlogged));
            }
            let now = Timestamp::from_millis(2_000 + 200 * n as u64);
            let Some(limit) = ledger.handle_reading(now, passed) else { continue };
            let minute = &all[all.len().saturating_sub(300)..];
            let totals = minute.windows(3).filter(|w| w.iter().all(|(_, b)| *b));
            let most = totals.map(|w| w.iter().map(|(bytes, _)| bytes).min()).max().unwrap();
            let most = *most.unwrap() as f64 * 8.0 / 0.2e6;
            prop_assert!(limit.mbps() >= 0.0189 * most, "{limit} with {most} Mbit/s");
        }
    }
}
