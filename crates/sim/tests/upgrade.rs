//! Upgrade of the proxy while a session is in use: nothing that is open notices it, as long as it
//! ends before the old process does.

use std::time::Duration;

use mpbond_sim::link::{LinkChange, Rate};
use mpbond_sim::world::{
    Exchange, Failure, Fault, Happening, Lasting, Outcome, Pause, Scenario, StreamEnd, When, World,
};
use mpbond_units::BitRate;

const WWAN: Duration = Duration::from_millis(25);
const PIPE: Duration = Duration::from_millis(2);
const MIB: u64 = 1 << 20;

const START: Duration = Duration::from_secs(2);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn fault(after_start: Duration, what: Happening) -> Fault {
    let when = When::AfterStart(0, after_start);
    Fault { when, what }
}

/// Over an own path and a helper, a download that starts at 2 s, and takes some 5 s.
fn download() -> Scenario {
    let mut scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)
        .with_exchange(Exchange::download(When::At(START), 8 * MIB));
    scenario.lasting = Some(Lasting {
        repeat_after: Duration::from_secs(1),
        ..Lasting::default()
    });
    scenario
}

fn run(scenario: Scenario) -> Result<Outcome, Failure> {
    World::new(scenario).run()
}

/// Whether an exchange was served by its first attempt.
fn is_first(outcome: &Outcome, e: usize, start: Duration) -> bool {
    let x = &outcome.exchanges[e];
    assert_eq!(x.client_saw, Some(StreamEnd::Finished), "{x:?}");
    x.started.as_secs_f64() == start.as_secs_f64()
}

#[test]
fn a_download_does_not_notice_that_its_proxy_is_upgraded() {
    let before = run(download()).unwrap();
    for at in [ms(0), ms(100), ms(1_000), ms(4_000)] {
        let mut scenario = download();
        scenario.faults.push(fault(at, Happening::Upgrade));
        let outcome = run(scenario).unwrap();
        assert!(is_first(&outcome, 0, START), "{at:?}: {outcome:?}");
        let [with, without] = [&outcome, &before].map(|o| &o.exchanges[0]);
        let later = with.took.unwrap().as_secs_f64() / without.took.unwrap().as_secs_f64();
        assert!(later < 1.02, "{at:?}: {with:?} {without:?}");
        assert!(
            with.longest_stall < without.longest_stall + ms(50),
            "{at:?}: {with:?}"
        );
        assert_eq!(outcome.client.streams_total, 0, "another session is in use");
        assert!(outcome.joins > before.joins, "it has its own subflows");
    }
    // A process that is stopped and started again is noticed.
    let mut scenario = download();
    scenario.faults.push(fault(ms(1_000), Happening::Restart));
    assert!(!is_first(&run(scenario).unwrap(), 0, START));
}

#[test]
fn new_connections_go_to_the_new_process() {
    let mut scenario = download();
    for after in [ms(1_000), ms(1_020), ms(1_500), ms(2_000)] {
        let small = Exchange::download(When::AfterStart(0, after), 1_000);
        scenario.exchanges.push(small);
    }
    scenario.faults.push(fault(ms(1_000), Happening::Upgrade));
    let outcome = run(scenario).unwrap();
    assert!(is_first(&outcome, 0, START), "{outcome:?}");
    // The first ones come before GO_AWAY has arrived, and are served by the old process.
    assert_eq!(outcome.client.streams_total, 2, "{outcome:?}");
    for x in &outcome.exchanges[1..] {
        let took = x.took.unwrap();
        assert!(took < ms(600), "{x:?}");
    }
}

/// All connections break after one upgrade, and after two.
#[test]
fn a_session_of_an_old_process_is_joined_again_through_the_new_one() {
    for upgrades in [1, 2] {
        let mut scenario = download();
        for n in 0..upgrades {
            let at = ms(500 + 500 * n);
            scenario.faults.push(fault(at, Happening::Upgrade));
        }
        for route in [0, 1] {
            let at = ms(1_500);
            scenario.faults.push(fault(at, Happening::Kill { route }));
        }
        let outcome = run(scenario).unwrap();
        assert!(is_first(&outcome, 0, START), "{upgrades}: {outcome:?}");
        let x = &outcome.exchanges[0];
        assert!(x.longest_stall < ms(1_000), "{upgrades}: {x:?}");
    }
}

/// An origin that answers after 590 s is waited for, one that answers after 610 s is not: the
/// request is repeated.
#[test]
fn an_old_process_serves_what_is_open_for_ten_minutes() {
    let waits = |s: u64| {
        let mut scenario = download();
        scenario.exchanges[0].origin.thinks = Duration::from_secs(s);
        scenario.limit = Duration::from_secs(3_600);
        scenario.stall_limit = scenario.limit;
        scenario.faults.push(fault(ms(1_000), Happening::Upgrade));
        let outcome = run(scenario).unwrap();
        (is_first(&outcome, 0, START), outcome)
    };
    let (is_first, outcome) = waits(590);
    assert!(is_first, "{outcome:?}");
    let (is_first, outcome) = waits(610);
    let x = &outcome.exchanges[0];
    let reset = START + Duration::from_secs(601);
    let after = x.started.as_secs_f64() - reset.as_secs_f64();
    assert!(!is_first && (1.0..1.1).contains(&after), "{x:?}");
}

/// An origin that answers at once and does not read: its primary's stream is over before the
/// session ends. It gets the rest if it reads again within four minutes, else a repetition.
#[test]
fn the_rest_of_an_upload_is_kept_for_four_minutes_after_its_session() {
    for (pause, is_kept) in [(235, true), (250, false)] {
        let mut scenario = download();
        let x = &mut scenario.exchanges[0];
        (x.up_bytes, x.down_bytes, x.at_once) = (300_000, 100, true);
        x.origin.pause = Some(Pause {
            after_bytes: 100_000,
            length: Some(Duration::from_secs(pause)),
        });
        scenario.limit = Duration::from_secs(3_600);
        scenario.stall_limit = scenario.limit;
        scenario.faults.push(fault(ms(2_000), Happening::Upgrade));
        let outcome = run(scenario).unwrap();
        assert_eq!(is_first(&outcome, 0, START), is_kept, "{outcome:?}");
        assert_eq!(outcome.exchanges[0].up_bytes, 300_000);
    }
}

/// As a daemon counts for each connection: that another origin reads on is no reason to wait.
#[test]
fn an_origin_that_reads_lengthens_the_four_minutes_of_no_other() {
    let mut scenario = download();
    scenario.exchanges.clear();
    for pause in [250, 200] {
        let mut x = Exchange::download(When::At(START), 100);
        (x.up_bytes, x.at_once) = (300_000, true);
        x.origin.pause = Some(Pause {
            after_bytes: 100_000,
            length: Some(Duration::from_secs(pause)),
        });
        scenario.exchanges.push(x);
    }
    scenario.limit = Duration::from_secs(3_600);
    scenario.stall_limit = scenario.limit;
    let at = When::At(START + ms(2_000));
    let what = Happening::Upgrade;
    scenario.faults.push(Fault { when: at, what });
    let outcome = run(scenario).unwrap();
    assert!(!is_first(&outcome, 0, START), "{outcome:?}");
    assert!(is_first(&outcome, 1, START), "{outcome:?}");
}

/// A random world with faults of all kinds, in which the proxy is upgraded once or twice.
fn random(seed: u64) -> Scenario {
    let mut scenario = Scenario::random(seed);
    scenario.lasting = Some(Lasting::default());
    for n in 0..=seed % 2 {
        let when = When::At(ms(1_000 + seed * 73 % 5_000 + n * 3_000));
        let what = Happening::Upgrade;
        scenario.faults.push(Fault { when, what });
    }
    scenario
}

#[test]
fn two_hundred_random_worlds_with_upgrades_end_well() {
    let failures: Vec<String> = (1..=200)
        .filter_map(|seed| {
            let failure = run(random(seed)).err()?;
            Some(format!("{seed}: {failure}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The connection through the helper is forgotten, and no packet passes the other link any more:
/// as for the session in use, at most a second later. What is sent up is missed at once, what comes
/// down is asked for after 5 s.
#[test]
fn a_session_that_retires_goes_on_over_another_link_than_the_dead_one_as_the_one_in_use_does() {
    for (up_bytes, down_bytes) in [(8 * MIB, 0), (0, 8 * MIB)] {
        let stall = |retires: bool| {
            let mut scenario = download();
            let x = &mut scenario.exchanges[0];
            (x.up_bytes, x.down_bytes) = (up_bytes, down_bytes);
            if retires {
                scenario.faults.push(fault(ms(500), Happening::Upgrade));
            }
            let dead = Some(LinkChange {
                rate: Some(Rate::Constant(BitRate::ZERO)),
                ..LinkChange::default()
            });
            let link = Happening::Link {
                link: 0,
                up: dead.clone(),
                down: dead,
            };
            let connection = Happening::Sever {
                route: 1,
                nearer: true,
                told: [false; 2],
            };
            for what in [link, connection] {
                scenario.faults.push(fault(ms(1_500), what));
            }
            let outcome = run(scenario).unwrap();
            assert!(is_first(&outcome, 0, START), "{outcome:?}");
            outcome.exchanges[0].longest_stall
        };
        let (in_use, retires) = (stall(false), stall(true));
        assert!(retires < in_use + ms(1_000), "{retires:?}, {in_use:?}");
    }
}

/// In these the session that retires loses all of its paths, and some routes stay dead. Joined over
/// one route after the other, once its last subflow is given up, it has no new byte for 30 s.
#[test]
fn seven_random_worlds_with_dead_links_and_upgrades_have_no_gap_of_six_seconds() {
    for seed in [1_583, 4_411, 5_245, 5_964, 6_616, 7_551, 8_394] {
        let outcome = run(random(seed)).unwrap();
        let gap = outcome.longest_gap;
        assert!(gap < Duration::from_secs(6), "{seed}: {gap:?}");
    }
}

/// An origin answers 8 s after the request. A second before that, when the primary has just asked
/// whether its paths work, a NAT forgets all connections. The primary asks again 10 s later: of a
/// session in use as of one that retires.
#[test]
fn an_answer_that_is_lost_with_all_paths_is_there_when_the_primary_asks_after_15_s() {
    for retires in [false, true] {
        let mut scenario = download();
        let x = &mut scenario.exchanges[0];
        (x.down_bytes, x.origin.thinks) = (1_000, Duration::from_secs(8));
        if retires {
            scenario.faults.push(fault(ms(500), Happening::Upgrade));
        }
        for route in [0, 1] {
            let told = [false; 2];
            let nearer = true;
            let what = Happening::Sever {
                route,
                nearer,
                told,
            };
            scenario.faults.push(fault(ms(7_000), what));
        }
        let outcome = run(scenario).unwrap();
        assert!(is_first(&outcome, 0, START), "{retires}: {outcome:?}");
        let took = outcome.exchanges[0].took.unwrap().as_secs();
        assert!((15..18).contains(&took), "{retires}: {outcome:?}");
    }
}
