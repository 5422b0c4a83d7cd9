//! Random worlds: for any behaviour of links, subflows and applications, every byte arrives once
//! and in order, both ends learn how each stream ended, and the run ends.
//!
//! `SIMULATION_SEED=17 cargo test -p mpbond-sim --test worlds` replays one world;
//! `SIMULATION_WORLDS=5000` runs more of them.

use std::time::Duration;

use mpbond_session::{HelperId, SchedulerKind};
use mpbond_sim::ideal::Direction;
use mpbond_sim::link::LinkChange;
use mpbond_sim::world::{
    Before, Ending, Exchange, Fault, Happening, Manner, Outcome, Pause, Route, Scenario, StreamEnd,
    When, World,
};

const WWAN: Duration = Duration::from_millis(25);
const PIPE: Duration = Duration::from_millis(2);
const MIB: u64 = 1 << 20;

/// Worlds in which a session once hung: what only one end knew to be lost, hellos that nobody
/// answered, signals and windows that waited on silent subflows.
const ONCE_FAILED: [u64; 8] = [258, 1_000, 1_540, 1_871, 2_597, 2_630, 6_711, 12_971];

/// The same with harsher faults: a NAT that forgot while an origin took its time, connections cut
/// as the session was opened, a first hello that came when the session was long in use, an answer
/// that was lost in a long silence after the primary had asked, an express for which subflows long
/// gone left no place, helpers filled with copies that were recalled from one another, a join and
/// a CUT that a proxy read together, a subflow on whose way back nothing came while the peer's
/// acknowledgements came on another; and, though it never failed, the world with the longest wait,
/// for an ACK that was lost.
const ONCE_FAILED_HARSH: [u64; 9] = [
    13_115,
    27_344,
    36_796,
    702_247,
    5_015_142,
    50_018_869,
    200_071_356,
    23_283,
    74_306,
];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    assert!(number.is_some(), "{variable} is \"{text}\", not a number");
    number
}

#[test]
fn random_worlds_end_well() {
    let seeds: Vec<u64> = match number("SIMULATION_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("SIMULATION_WORLDS").unwrap_or(300)).collect(),
    };
    end_well(&seeds, Scenario::random);
}

#[test]
fn worlds_that_once_failed_end_well() {
    end_well(&ONCE_FAILED, Scenario::random_mild);
    end_well(&ONCE_FAILED_HARSH, Scenario::random);
}

fn end_well(seeds: &[u64], scenario: impl Fn(u64) -> Scenario) {
    let failures: Vec<String> = seeds
        .iter()
        .filter_map(|seed| {
            let failure = World::new(scenario(*seed)).run().err()?;
            Some(format!("SIMULATION_SEED={seed}: {failure}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_seed_gives_the_same_world_twice() {
    // In some of these, many streams are woken or helped at one instant.
    for seed in [3, 12, 14, 15, 147, 425, 438, 553, 590] {
        let run = || format!("{:?}", World::new(Scenario::random(seed)).run());
        assert_eq!(run(), run(), "SIMULATION_SEED={seed}");
    }
}

fn at(ms: u64) -> When {
    When::At(Duration::from_millis(ms))
}

/// 8/10/5 with two helpers, and a download that starts at 2 s.
fn bonded(bytes: u64) -> Scenario {
    Scenario::bonded(8.0, &[(10.0, 5.0); 2], WWAN, PIPE)
        .with_exchange(Exchange::download(at(2_000), bytes))
}

#[test]
fn a_killed_helper_costs_no_more_than_its_part() {
    let mut scenario = bonded(4 * MIB);
    scenario.faults.push(Fault {
        when: When::AfterStart(0, Duration::from_millis(800)),
        what: Happening::Kill { route: 1 },
    });
    let outcome = World::new(scenario).run().unwrap();
    let x = &outcome.exchanges[0];
    assert_eq!(x.client_saw, Some(StreamEnd::Finished));
    assert_eq!(x.down_bytes, 4 * MIB);
    assert_eq!(outcome.joins, 6, "three, one anew, and two expresses");
    assert!(x.took.unwrap() < Duration::from_secs(4), "{x:?}");
    assert!(x.longest_stall < Duration::from_secs(1), "{x:?}");
}

#[test]
fn a_silent_link_is_worked_around() {
    let mut scenario = bonded(4 * MIB);
    scenario.faults.push(Fault {
        when: When::AfterStart(0, Duration::from_millis(800)),
        what: Happening::Link {
            link: 0,
            up: Some(LinkChange::down()),
            down: Some(LinkChange::down()),
        },
    });
    let outcome = World::new(scenario).run().unwrap();
    let x = &outcome.exchanges[0];
    assert_eq!(x.down_bytes, 4 * MIB);
    // Copies pass by what the helpers hold; and no time is lost, for they go on, and hand nothing
    // to each other.
    assert!(x.longest_stall < Duration::from_millis(800), "{x:?}");
    assert!(x.ratio().unwrap() < 1.1, "{x:?}");
    assert!(x.redundant_share() < 0.02, "{x:?}");
}

/// With a direct path left, the application waits for as long as silence needs to be noticed, and
/// for a copy behind what that path has under way: less than a quarter of a second together, where
/// it was nearly a whole one before subflows were doubted. Where only a helper is left, the copies
/// pass by what it holds; behind that they took 1.3 s.
#[test]
fn a_path_that_falls_silent_is_hardly_felt() {
    let after = Duration::from_secs(2);
    let pipe = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)
        .measuring(Before::Joined, Direction::Down, 4 * MIB)
        .silencing("pipe1", after);
    let direct = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)
        .measuring(Before::Joined, Direction::Down, 10 * MIB)
        .silencing("ps", after);
    let two = Scenario::multihomed(&[(8.0, WWAN), (10.0, WWAN)]).measuring(
        Before::Joined,
        Direction::Down,
        6 * MIB,
    );
    let first = two.links[0].name.clone();
    for scenario in [pipe, direct, two.silencing(&first, after)] {
        let mut stalls: Vec<Duration> = (0..9)
            .map(|variant| {
                let world = World::new(scenario.clone().varied(variant));
                let x = world.run().unwrap().exchanges.pop().unwrap();
                assert!(x.took.unwrap() > after, "it was over before");
                x.longest_stall
            })
            .collect();
        stalls.sort();
        assert!(stalls[4] < Duration::from_millis(260), "{stalls:?}");
    }
}

/// Before a count has shown at which intervals it advances, the round trip of TCP tells how long
/// to wait (ADR 0079). Without that it took 0.8 s.
#[test]
fn a_path_that_falls_silent_in_its_first_round_trips_is_hardly_felt() {
    let delay = Duration::from_millis(40);
    let two = Scenario::multihomed(&[(46.0, delay), (30.0, delay)]);
    let two = two.measuring(Before::Joined, Direction::Down, 4 * MIB);
    let first = two.links[0].name.clone();
    for after in [100, 200, 300].map(Duration::from_millis) {
        let silent = two.clone().silencing(&first, after);
        let mut stalls: Vec<Duration> = (0..9)
            .map(|variant| {
                let world = World::new(silent.clone().varied(variant));
                let x = world.run().unwrap().exchanges.pop().unwrap();
                assert!(x.redundant_share() < 0.01, "{x:?}");
                x.longest_stall
            })
            .collect();
        stalls.sort();
        assert!(stalls[4] < Duration::from_millis(300), "{stalls:?}");
    }
}

/// A faultless transfer is as it would be without expresses, though one is opened.
#[test]
fn an_express_costs_nothing_where_nothing_fails() {
    let world = |express_at| {
        let mut scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE).measuring(
            Before::Joined,
            Direction::Down,
            10 * MIB,
        );
        scenario.express_at = express_at;
        World::new(scenario).run().unwrap()
    };
    let (with, without) = (world(Scenario::new(vec![], vec![]).express_at), world(None));
    assert_eq!(with.joins, without.joins + 1, "none was opened");
    let took = |o: &Outcome| o.exchanges[0].took.unwrap().as_secs_f64();
    assert!(took(&with) < took(&without) * 1.01, "{with:?} {without:?}");
    assert!(with.exchanges[0].redundant_share() < 0.005, "{with:?}");
}

#[test]
fn a_session_without_any_path_is_taken_up_again() {
    for direction in [Direction::Down, Direction::Up] {
        let exchange = match direction {
            Direction::Down => Exchange::download(at(2_000), 4 * MIB),
            Direction::Up => Exchange::upload(at(2_000), 4 * MIB),
        };
        let mut scenario =
            Scenario::bonded(8.0, &[(10.0, 5.0); 2], WWAN, PIPE).with_exchange(exchange);
        for route in 0..3 {
            scenario.faults.push(Fault {
                when: at(2_700 + route as u64 * 10),
                what: Happening::Leave {
                    route,
                    length: Duration::from_secs(50),
                },
            });
        }
        let outcome = World::new(scenario).run().unwrap();
        let x = &outcome.exchanges[0];
        let took = x.took.unwrap();
        let away = Duration::from_secs(50)..Duration::from_secs(56);
        assert!(away.contains(&took), "{direction:?}: {x:?}");
        assert_eq!(x.client_saw, Some(StreamEnd::Finished));
    }
}

#[test]
fn a_session_without_any_path_for_too_long_is_lost_with_a_reason() {
    let mut scenario = bonded(4 * MIB);
    for route in 0..3 {
        scenario.faults.push(Fault {
            when: at(2_700),
            what: Happening::Leave {
                route,
                length: Duration::from_secs(70),
            },
        });
    }
    let failure = World::new(scenario).run().unwrap_err();
    assert!(failure.what.contains("no path"), "{failure}");
}

#[test]
fn resets_stops_and_refusals_are_seen_for_what_they_are() {
    let with = |client: Ending, origin: Ending| {
        let manner = |ending| Manner {
            ending,
            ..Manner::default()
        };
        let exchange = Exchange {
            up_bytes: 200_000,
            client: manner(client),
            origin: manner(origin),
            at_once: true,
            ..Exchange::download(at(1_000), 300_000)
        };
        let scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE).with_exchange(exchange);
        World::new(scenario).run().unwrap().exchanges.remove(0)
    };
    let reset = |end: Option<StreamEnd>| matches!(end, Some(StreamEnd::Reset(_)));

    let x = with(Ending::Finish, Ending::ResetAfter(100_000));
    assert!(reset(x.client_saw) && x.down_bytes <= 300_000, "{x:?}");
    assert_eq!(x.origin_saw, Some(StreamEnd::Finished));
    assert_eq!(x.up_bytes, 200_000);

    let x = with(Ending::StopAfter(50_000), Ending::Finish);
    assert_eq!(x.client_saw, Some(StreamEnd::Stopped));
    assert_eq!(x.up_bytes, 200_000);

    let x = with(Ending::Finish, Ending::Refuse);
    assert!(reset(x.client_saw), "{x:?}");
    assert_eq!((x.down_bytes, x.up_bytes), (0, 0));
}

#[test]
fn applications_that_never_read_delay_no_other() {
    let mut scenario = bonded(2 * MIB);
    for _ in 0..8 {
        scenario.exchanges.push(Exchange {
            client: Manner {
                pause: Some(Pause {
                    after_bytes: 0,
                    length: None,
                }),
                ..Manner::default()
            },
            ..Exchange::download(at(1_000), 8 * MIB)
        });
    }
    // What the eight may leave unread takes its time on the links first.
    scenario.exchanges[0].start = at(15_000);
    let outcome = World::new(scenario).run().unwrap();
    let x = &outcome.exchanges[0];
    assert!(x.took.unwrap() < Duration::from_secs(2), "{x:?}");
    assert_eq!(outcome.exchanges[1].took, None);
}

/// All that the primary has sent for long is feedback, of which the kernel is not asked; then it
/// ends its stream, which has no bytes either.
#[test]
fn an_end_alone_goes_out_after_a_long_download() {
    for seconds in [5, 30] {
        let mut exchange = Exchange::download(When::AfterJoined(PIPE), 1 << 40);
        exchange.by_length = true;
        exchange.client.ending = Ending::StopAt(Duration::from_secs(seconds));
        let mut scenario =
            Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE).with_exchange(exchange);
        scenario.stall_limit = Duration::from_secs(10);
        let outcome = World::new(scenario).run().unwrap();
        let x = &outcome.exchanges[0];
        assert_eq!(x.took, Some(Duration::from_secs(seconds)));
        assert_eq!(x.client_saw, Some(StreamEnd::Stopped));
        let closed = outcome.ended - (x.started + x.took.unwrap());
        assert!(closed < Duration::from_secs(1), "{closed:?}");
    }
}

#[test]
fn two_pipes_to_one_helper_share_its_link() {
    let mut scenario = Scenario::bonded(8.0, &[(10.0, 8.0)], WWAN, PIPE);
    let mut second = scenario.links[1].clone();
    second.name = "bluetooth".to_owned();
    scenario.links.push(second);
    let route = Route::through("helper1 again", HelperId(0), 3, 2);
    scenario.routes.push(route);
    let scenario = scenario.measuring(Before::Used, Direction::Down, 8 * MIB);
    let outcome = World::new(scenario).run().unwrap();
    let x = outcome.exchanges.last().unwrap();
    // 8 and 10 Mbit/s, not 8 and 16.
    let ideal = x.ideal.unwrap().as_secs_f64();
    let share = (8 * MIB) as f64 * 8.0 * 1500.0 / 1448.0 / 18e6;
    assert!((share..share + 0.2).contains(&ideal), "{x:?}");
    assert!(x.ratio().unwrap() < 1.10, "{x:?}");
    assert!(x.shares.iter().all(|s| s.bytes > MIB), "{x:?}");
}

#[test]
fn every_scheduler_carries_both_ways() {
    for kind in [
        SchedulerKind::Mpbond,
        SchedulerKind::MinPad,
        SchedulerKind::MinRtt,
        SchedulerKind::RoundRobin,
        SchedulerKind::Redundant,
        SchedulerKind::FixedRatio { direct: 0.6 },
        SchedulerKind::Single,
    ] {
        let scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)
            .with_scheduler(kind)
            .with_exchange(Exchange {
                up_bytes: MIB,
                at_once: true,
                ..Exchange::download(at(500), MIB)
            });
        let outcome = World::new(scenario)
            .run()
            .unwrap_or_else(|f| panic!("{kind}: {f}"));
        let x = &outcome.exchanges[0];
        assert_eq!((x.down_bytes, x.up_bytes), (MIB, MIB), "{kind}");
        assert!(x.took.unwrap() < Duration::from_secs(6), "{kind}: {x:?}");
    }
}
