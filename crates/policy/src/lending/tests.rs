//! Relays beside four kinds of own traffic, in virtual time.

use super::*;

const MS: u64 = 10;
const STEP: Duration = Duration::from_millis(MS);
/// What a relay that is not read receives before its sender stops.
const BUFFER_BYTES: f64 = 2e6;

const STATED: BitRate = BitRate::from_bps(20_000_000);

/// A link of this rate, and one relay that always has something to carry.
struct World {
    lending: Lending,
    /// In Mbit/s.
    link: f64,
    now_ms: u64,
    rate: Option<BitRate>,
    own_bytes: f64,
    lent_bytes: f64,
    held_bytes: f64,
}

/// Mbit/s in an interval.
#[derive(Clone, Copy, Debug)]
struct Carried {
    own: f64,
    lent: f64,
}

impl World {
    fn new(link: f64) -> Self {
        Self {
            lending: Lending::new(STATED),
            link,
            now_ms: 0,
            rate: None,
            own_bytes: 0.0,
            lent_bytes: 0.0,
            held_bytes: 0.0,
        }
    }

    /// Plays `ms` with the own demand, in Mbit/s, that `demand` gives for each instant. Own traffic
    /// and relay share the link half and half where it is full, as TCP does.
    fn play(&mut self, ms: u64, demand: impl Fn(u64) -> f64) -> Carried {
        let seconds = STEP.as_secs_f64();
        let bytes = |mbps: f64| mbps * 1e6 / 8.0 * seconds;
        let before = (self.own_bytes, self.lent_bytes);
        for _ in 0..ms / MS {
            if self.now_ms.is_multiple_of(200) {
                let passed = Passed {
                    all_bytes: (self.own_bytes + self.lent_bytes) as u64,
                    pipe_bytes: 0,
                    lent_bytes: self.lent_bytes as u64,
                };
                let now = Timestamp::from_nanos(self.now_ms * 1_000_000);
                self.rate = self.lending.handle_reading(now, passed, 1);
            }
            // In bytes on the wire.
            let read = self.rate.map_or(f64::INFINITY, |r| bytes(r.mbps() / 0.95));
            let relay = (BUFFER_BYTES - self.held_bytes + read).min(bytes(self.link));
            let wanted = bytes(demand(self.now_ms));
            let own = wanted.min((bytes(self.link) / 2.0).max(bytes(self.link) - relay));
            let lent = relay.min(bytes(self.link) - own);
            self.own_bytes += own;
            self.lent_bytes += lent;
            self.held_bytes = (self.held_bytes + lent - read).max(0.0);
            self.now_ms += MS;
        }
        let mbps = |now: f64, before: f64| (now - before) * 8e-3 / ms as f64;
        Carried {
            own: mbps(self.own_bytes, before.0),
            lent: mbps(self.lent_bytes, before.1),
        }
    }
}

#[test]
fn an_idle_lender_lends_all_and_so_it_does_beside_a_call() {
    let mut world = World::new(20.0);
    for call in [0.0, 0.1] {
        for _ in 0..200 {
            let carried = world.play(200, |_| call);
            assert_eq!(world.rate, None);
            assert!(carried.lent >= 0.97 * 20.0, "{call} {carried:?}");
        }
    }
}

#[test]
fn an_own_download_has_95_percent_within_5_s_and_relays_all_within_1_s_of_its_end() {
    let mut world = World::new(20.0);
    world.play(5_000, |_| 0.0);
    world.play(5_000, |_| 100.0);
    for _ in 0..60 {
        let carried = world.play(1_000, |_| 100.0);
        assert!(carried.own >= 0.95 * 20.0, "{carried:?}");
        assert!(carried.lent >= 0.015 * 20.0, "{carried:?}");
    }
    world.play(1_000, |_| 0.0);
    assert_eq!(world.rate, None);
}

/// Less than what own traffic leaves, less a tenth of the link, they have for 1 s at most.
#[test]
fn relays_have_what_own_traffic_leaves_less_10_percent() {
    type Demand = fn(u64) -> f64;
    let demands: [(&str, Demand); 6] = [
        ("call", |_| 0.1),
        ("constant", |_| 5.0),
        ("video, 4 s and 4 s of pause", |ms| {
            if ms % 8_000 < 4_000 { 10.0 } else { 0.0 }
        }),
        ("video, 1 s and 1 s of pause", |ms| {
            if ms % 2_000 < 1_000 { 8.0 } else { 0.0 }
        }),
        ("pages, 200 ms each 700 ms", |ms| {
            if ms % 700 < 200 { 20.0 } else { 0.0 }
        }),
        ("download", |_| 100.0),
    ];
    for (name, demand) in demands {
        let mut world = World::new(20.0);
        world.play(3_000, |_| 0.0);
        let steps: Vec<_> = (0..600).map(|_| world.play(100, demand)).collect();
        let least = |own: f64| (20.0 - own - 2.0).max(0.015 * 20.0);
        let held: Vec<_> = steps.iter().map(|c| c.lent < least(c.own)).collect();
        let held = held.split(|held| !held).map(<[bool]>::len).max().unwrap();
        let mean = |of: fn(&Carried) -> f64| steps.iter().map(of).sum::<f64>() / 600.0;
        let (own, lent) = (mean(|c| c.own), mean(|c| c.lent));
        println!("{name}: {own:.2} own, {lent:.2} lent, held back for {held} tenths of a second");
        assert!(held <= 10, "{name}: {held}");
        assert!(lent >= least(own), "{name}: {own} own, {lent} lent");
    }
}

/// Beside own traffic that fills the link.
#[test]
fn each_relay_has_16_kb_a_second_up_to_a_quarter_of_the_capacity() {
    for (mbps, relays, floor_kbps) in [
        (1.0, 0, 20),
        (1.0, 1, 128),
        (1.0, 2, 250),
        (1.0, usize::MAX, 250),
        (20.0, 1, 400),
        (20.0, 4, 512),
        (20.0, 64, 5_000),
        (1_000.0, 64, 20_000),
    ] {
        let capacity = BitRate::from_mbps(mbps);
        let mut lending = Lending::new(capacity);
        let mut rate = None;
        for n in 0..4 {
            let passed = Passed {
                all_bytes: capacity.bytes_in(READ_EVERY) * n,
                pipe_bytes: 0,
                lent_bytes: 0,
            };
            let now = Timestamp::from_nanos(n * 200_000_000);
            rate = lending.handle_reading(now, passed, relays);
        }
        let payload = BitRate::from_bps(floor_kbps * 950);
        assert_eq!(rate, Some(payload), "{mbps} Mbit/s, {relays} relays");
    }
}

/// A stated capacity that the link has not: own traffic has its share by TCP.
#[test]
fn beside_a_capacity_stated_too_high_own_traffic_is_not_protected() {
    let mut world = World::new(10.0);
    world.play(5_000, |_| 100.0);
    let carried = world.play(60_000, |_| 100.0);
    assert!((4.9..=5.1).contains(&carried.own), "{carried:?}");
    assert!((4.9..=5.1).contains(&carried.lent), "{carried:?}");
}

#[test]
fn beside_a_capacity_stated_too_low_relays_are_held_to_it_while_own_traffic_moves() {
    let mut world = World::new(40.0);
    world.play(5_000, |_| 5.0);
    let carried = world.play(60_000, |_| 5.0);
    assert!((4.9..=5.1).contains(&carried.own), "{carried:?}");
    let left = 0.94 * 20.0 - 5.0;
    assert!(
        (left - 0.5..=left + 0.5).contains(&carried.lent),
        "{carried:?}"
    );
    // More than what is stated leaves the floor, and none leaves all.
    world.play(5_000, |_| 30.0);
    let carried = world.play(10_000, |_| 30.0);
    assert!((0.3..=0.5).contains(&carried.lent), "{carried:?}");
    world.play(1_000, |_| 0.0);
    assert!(world.play(10_000, |_| 0.0).lent >= 39.9);
}

/// Nothing of what was before counts: relays that begin again are not held.
#[test]
fn a_rest_of_relays_ends_the_limit() {
    let mut world = World::new(20.0);
    world.play(10_000, |_| 100.0);
    assert!(world.rate.is_some());
    let now = Timestamp::from_nanos((world.now_ms + 1_200) * 1_000_000);
    let passed = Passed {
        all_bytes: u64::MAX,
        pipe_bytes: 0,
        lent_bytes: 0,
    };
    assert_eq!(world.lending.handle_reading(now, passed, 1), None);
}

/// Segments out of order are counted when the missing one has come.
#[test]
fn bytes_of_relays_that_are_counted_late_are_no_own_traffic() {
    let mut lending = Lending::new(STATED);
    for n in 0..200_u64 {
        let all_bytes = n * 500_000;
        // Each second reading sees nothing of 500 kB, the next one all.
        let lent_bytes = n / 2 * 2 * 500_000;
        let now = Timestamp::from_nanos(n * 200_000_000);
        let passed = Passed {
            all_bytes,
            pipe_bytes: 0,
            lent_bytes,
        };
        let rate = lending.handle_reading(now, passed, 1);
        assert_eq!(rate, None, "{n}");
    }
}

#[test]
fn counts_that_run_backwards_or_are_huge_do_no_harm() {
    let mut lending = Lending::new(BitRate::from_bps(u64::MAX));
    for (n, bytes) in [0, u64::MAX, 7, 0, u64::MAX, u64::MAX]
        .into_iter()
        .enumerate()
    {
        let passed = Passed {
            all_bytes: bytes,
            pipe_bytes: 0,
            lent_bytes: bytes / 3,
        };
        lending.handle_reading(Timestamp::from_nanos(n as u64), passed, usize::MAX);
    }
}

/// The counter of an interface that comes back begins at 0; those of pipes go on.
#[test]
fn pipes_are_no_own_traffic_and_hide_none_after_the_interface_came_back() {
    for (own_bytes, pipe_bytes, is_limited) in [(0, 400_000, false), (400_000, 0, true)] {
        let mut lending = Lending::new(STATED);
        let rates = (0..5_u64).map(|n| {
            let passed = Passed {
                all_bytes: n * (own_bytes + pipe_bytes),
                pipe_bytes: 1_000_000_000 + n * pipe_bytes,
                lent_bytes: 0,
            };
            lending.handle_reading(Timestamp::from_nanos(n * 200_000_000), passed, 1)
        });
        assert_eq!(rates.last().unwrap().is_some(), is_limited);
    }
}

/// Beside 5 Mbit/s. In 200 ms 400 kB are more than relays may read; a page of so many each 0.8 s is
/// less.
#[test]
fn a_burst_does_not_slow_relays_down_and_a_lasting_excess_does() {
    let rates = |lent_bytes: fn(u64) -> u64| -> Vec<f64> {
        let mut lending = Lending::new(STATED);
        let (mut own, mut lent) = (0, 0);
        let rates = (0..20_u64).map(|n| {
            own += 125_000;
            lent += lent_bytes(n);
            let passed = Passed {
                all_bytes: own + lent,
                pipe_bytes: 0,
                lent_bytes: lent,
            };
            lending.handle_reading(Timestamp::from_nanos(n * 200_000_000), passed, 1)
        });
        let limited = rates.skip(INTERVALS);
        limited.map(|rate| rate.unwrap().mbps()).collect()
    };
    let left = 0.95 * (0.94 * 20.0 - 5.0);
    let pages = rates(|n| if n % 4 == 0 { 400_000 } else { 0 });
    assert!(
        pages.iter().all(|rate| (rate - left).abs() < 0.01),
        "{pages:?}"
    );
    let excess = rates(|_| 400_000);
    assert!(excess.iter().all(|rate| *rate < left / 2.0), "{excess:?}");
}
