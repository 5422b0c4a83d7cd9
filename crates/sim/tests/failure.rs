//! What goes wrong with paths, addresses and hosts, one kind at a time: every byte still arrives,
//! and applications wait no longer than docs/failure.md states. Times there are of these tests.

#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::time::Duration;

use mpbond_session::FarReport;
use mpbond_sim::link::LinkChange;
use mpbond_sim::world::{
    Daemon, Exchange, ExchangeOutcome, Fault, Happening, Lasting, Nat, Outcome, Scenario,
    StreamEnd, When, WithoutProxy, World,
};
use mpbond_units::BitRate;

const MIB: u64 = 1 << 20;
const BYTES: u64 = 8 * MIB;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two own paths of 8 and 10 Mbit/s, 25 ms each way.
fn two_paths() -> Scenario {
    Scenario::multihomed(&[(8.0, ms(25)), (10.0, ms(25))])
}

/// One of 10 Mbit/s.
fn one_path() -> Scenario {
    Scenario::multihomed(&[(10.0, ms(25))])
}

/// A PS-Path of 8, and a helper with 10 behind a pipe of 5 Mbit/s.
fn helper() -> Scenario {
    Scenario::bonded(8.0, &[(10.0, 5.0)], ms(25), ms(2))
}

/// A fault so long after the first exchange began.
fn after(start_ms: u64, what: Happening) -> Fault {
    Fault {
        when: When::AfterStart(0, ms(start_ms)),
        what,
    }
}

fn link(link: usize, up: Option<LinkChange>, down: Option<LinkChange>) -> Happening {
    Happening::Link { link, up, down }
}

fn sever(route: usize, nearer: bool, told: [bool; 2]) -> Happening {
    Happening::Sever {
        route,
        nearer,
        told,
    }
}

/// Downloads and uploads through `faults`; both have to arrive whole.
fn live(scenario: &Scenario, faults: &[Fault]) -> [(Outcome, ExchangeOutcome); 2] {
    let start = When::At(Duration::from_secs(2));
    let both = [
        Exchange::download(start, BYTES),
        Exchange::upload(start, BYTES),
    ];
    both.map(|exchange| {
        let mut scenario = scenario.clone().with_exchange(exchange);
        scenario.faults = faults.to_vec();
        let mut outcome = World::new(scenario).run().unwrap_or_else(|f| panic!("{f}"));
        let x = outcome.exchanges.remove(0);
        assert_eq!(x.client_saw, Some(StreamEnd::Finished), "{x:?}");
        assert_eq!(x.origin_saw, Some(StreamEnd::Finished), "{x:?}");
        assert_eq!(x.up_bytes.max(x.down_bytes), BYTES);
        (outcome, x)
    })
}

fn longest_stall(scenario: &Scenario, faults: &[Fault]) -> Duration {
    let [(_, down), (_, up)] = live(scenario, faults);
    down.longest_stall.max(up.longest_stall)
}

#[test]
fn a_path_that_carries_one_direction_only_is_left() {
    for link_at in [0, 1] {
        for up in [true, false] {
            let down = Some(LinkChange::down());
            let dead = if up { (down, None) } else { (None, down) };
            let fault = after(1_000, link(link_at, dead.0, dead.1));
            let stall = longest_stall(&two_paths(), &[fault]);
            assert!(stall < ms(1_000), "link {link_at}, up {up}: {stall:?}");
        }
    }
}

#[test]
fn a_pipe_and_an_hs_path_that_fall_silent_are_left() {
    for (link_at, name) in [(1, "pipe"), (2, "HS-Path")] {
        let silent = Some(LinkChange::down());
        let fault = after(1_000, link(link_at, silent.clone(), silent));
        let stall = longest_stall(&helper(), &[fault]);
        assert!(stall < ms(1_500), "{name}: {stall:?}");
    }
}

#[test]
fn delays_of_seconds_are_worked_around_and_come_to_an_end() {
    let slow = |delay| {
        let change = LinkChange {
            delay: Some(delay),
            ..LinkChange::default()
        };
        link(0, Some(change.clone()), Some(change))
    };
    let faults = [after(1_000, slow(ms(5_000))), after(2_500, slow(ms(25)))];
    let stall = longest_stall(&two_paths(), &faults);
    assert!(stall < ms(1_500), "with another path: {stall:?}");
    // Alone, one waits for what is on its way.
    let stall = longest_stall(&one_path(), &faults);
    assert!(stall < ms(12_000), "alone: {stall:?}");
}

#[test]
fn a_flapping_path_costs_no_more_than_its_gaps() {
    let change = |change: LinkChange| link(0, Some(change.clone()), Some(change));
    let faults: Vec<Fault> = (0..12)
        .flat_map(|n| {
            let at = 500 + n * 400;
            [
                after(at, change(LinkChange::down())),
                after(at + 200, change(LinkChange::up())),
            ]
        })
        .collect();
    let stall = longest_stall(&two_paths(), &faults);
    assert!(stall < ms(1_500), "with another path: {stall:?}");
    let stall = longest_stall(&one_path(), &faults);
    assert!(stall < ms(12_000), "alone: {stall:?}");
}

/// One end keeps a connection that the other end has lost.
#[test]
fn half_open_connections_are_found_out() {
    for told in [[true, false], [false, true]] {
        let stall = longest_stall(&two_paths(), &[after(1_000, sever(0, true, told))]);
        assert!(stall < ms(1_500), "told {told:?}: {stall:?}");
    }
    // A helper's network drops its HS-Path without a message.
    let stall = longest_stall(&helper(), &[after(1_000, sever(1, false, [false; 2]))]);
    assert!(stall < ms(1_500), "{stall:?}");
}

/// The NAT before a path forgets its connections in the midst of a transfer: a new one is made when
/// the old one turns out to be silent. A reader asks after 5 s.
#[test]
fn a_nat_that_forgets_costs_one_rejoin() {
    let faults = [after(1_000, sever(0, true, [false; 2]))];
    let stall = longest_stall(&two_paths(), &faults);
    assert!(stall < ms(1_500), "with another path: {stall:?}");
    let [(down_outcome, down), (up_outcome, up)] = live(&one_path(), &faults);
    for outcome in [down_outcome, up_outcome] {
        assert_eq!(outcome.joins, 2, "the old one and a new one");
    }
    assert!(down.longest_stall < ms(6_500), "{down:?}");
    assert!(up.longest_stall < ms(1_500), "{up:?}");
}

/// What a NAT forgets is idle: the next request finds it out, is answered over a new connection
/// within 1.5 s, and does not go past the proxy.
#[test]
fn a_request_after_a_nat_has_forgotten_the_only_path_is_answered_within_1500_ms() {
    let pipe_only = |delay| {
        let mut scenario = Scenario::bonded(8.0, &[(10.0, 20.0)], delay, ms(2));
        scenario.routes.remove(0);
        scenario
    };
    for delay in [ms(5), ms(25), ms(50)] {
        let direct = Scenario::multihomed(&[(10.0, delay)]);
        // The helper's own network forgets its HS-Path.
        for (scenario, nearer) in [(direct, true), (pipe_only(delay), false)] {
            for without_proxy in [WithoutProxy::Direct, WithoutProxy::Refuse] {
                let mut scenario = direct_at(scenario.clone(), &[2_000, 32_000]);
                scenario.without_proxy = without_proxy;
                scenario.faults.push(Fault {
                    when: When::At(ms(20_000)),
                    what: sever(0, nearer, [false; 2]),
                });
                let outcome = World::new(scenario).run().unwrap();
                let took = outcome.exchanges[1].took;
                let row = format!("{delay:?}, nearer {nearer}, {without_proxy:?}: {took:?}");
                eprintln!("figure: {row}");
                assert!(took.is_some_and(|t| t < ms(1_500)), "{row}");
                assert_eq!(outcome.went_direct, [], "{row}");
            }
        }
    }
}

/// A connection that dies just when it was to open the session does not keep the others from it.
#[test]
fn a_path_that_falls_silent_while_the_session_is_opened_delays_no_other() {
    for at_ms in (100..300).step_by(10) {
        let exchange = Exchange::download(When::At(ms(0)), MIB);
        let mut scenario = two_paths().with_exchange(exchange);
        // The other one connects a little later, and waits.
        scenario.routes[1].joins_at = ms(20);
        scenario.faults.push(Fault {
            when: When::At(ms(at_ms)),
            what: sever(0, true, [false; 2]),
        });
        let outcome = World::new(scenario).run().unwrap();
        let x = &outcome.exchanges[0];
        assert!(x.took.unwrap() < Duration::from_secs(8), "{at_ms}: {x:?}");
    }
}

/// The primary's own system reports that its address is gone: every path is replaced at once.
#[test]
fn a_new_address_that_the_primary_knows_costs_a_join() {
    let all = [0, 1].map(|route| after(1_000, sever(route, true, [true, false])));
    let stall = longest_stall(&two_paths(), &all);
    assert!(stall < ms(2_000), "{stall:?}");
}

/// A proxy does not notice addresses that are gone; the subflows that it keeps count against its
/// limit, and must not keep new ones out.
#[test]
fn addresses_that_change_all_the_time_leave_nothing_behind() {
    let faults: Vec<Fault> = (0..30)
        .flat_map(|n| [0, 1].map(|route| after(200 + n * 900, sever(route, true, [true, false]))))
        .collect();
    for (outcome, _) in live(
        &Scenario::multihomed(&[(1.0, ms(25)), (1.0, ms(25))]),
        &faults,
    ) {
        assert!(outcome.joins > 32, "{}", outcome.joins);
    }
}

#[test]
fn a_daemon_that_stands_still_goes_on_where_it_was() {
    for who in [Daemon::Primary, Daemon::Proxy] {
        for length in [ms(3_000), ms(25_000)] {
            let fault = after(1_000, Happening::Freeze { who, length });
            let stall = longest_stall(&two_paths(), &[fault]);
            assert!(stall < length + ms(3_000), "{who:?} {length:?}: {stall:?}");
        }
    }
}

#[test]
fn a_clock_that_jumps_is_taken_for_silence_and_no_more() {
    for who in [Daemon::Primary, Daemon::Proxy] {
        for by in [ms(1_000), Duration::from_secs(3_600)] {
            let jump = after(1_000, Happening::ClockJump { who, by });
            let stall = longest_stall(&two_paths(), &[jump]);
            assert!(stall < ms(2_000), "{who:?} {by:?}: {stall:?}");
        }
    }
}

#[test]
fn a_session_without_paths_is_kept_for_as_long_as_configured() {
    let away = |length| Happening::Leave { route: 0, length };
    let mut scenario = one_path();
    for seconds in [5, 150] {
        scenario.client.resume_for = Duration::from_secs(seconds);
        scenario.server.resume_for = Duration::from_secs(seconds);
        let almost = Duration::from_secs(seconds) - ms(1_500);
        live(&scenario, &[after(1_000, away(almost))]);
        let mut late = scenario.clone();
        let start = When::At(Duration::from_secs(2));
        late = late.with_exchange(Exchange::download(start, BYTES));
        late.faults
            .push(after(1_000, away(Duration::from_secs(seconds + 2))));
        let failure = World::new(late).run().map(drop).unwrap_err();
        assert!(failure.what.contains("no path"), "{failure}");
    }
}

/// A world whose connections may go direct, with small downloads that start at these instants.
fn direct_at(mut scenario: Scenario, starts_ms: &[u64]) -> Scenario {
    scenario.without_proxy = WithoutProxy::Direct;
    for start in starts_ms {
        let exchange = Exchange::download(When::At(ms(*start)), 10_000);
        scenario = scenario.with_exchange(exchange);
    }
    scenario
}

/// Nothing is under way when the path falls silent: only a new connection can find out, in 0.6 s.
/// From then on it waits as connections do that find no path at all, while another one is tried.
#[test]
fn a_connection_into_a_silence_at_rest_goes_direct_1500_ms_after_the_silence_shows() {
    let stands_still = Happening::Freeze {
        who: Daemon::Proxy,
        length: Duration::from_secs(60),
    };
    let down = Some(LinkChange::down());
    let cut_off = link(0, down.clone(), down);
    for what in [stands_still, cut_off] {
        // The one before is answered: the session is joined, and at rest.
        let mut scenario = direct_at(one_path(), &[2_000, 10_000]);
        scenario.faults.push(Fault {
            when: When::At(ms(8_000)),
            what: what.clone(),
        });
        let outcome = World::new(scenario).run().unwrap();
        let [(1, waited)] = outcome.went_direct[..] else {
            panic!("{:?}", outcome.went_direct);
        };
        assert!(
            (ms(1_900)..ms(2_200)).contains(&waited),
            "{what:?}: {waited:?}"
        );
    }
}

#[test]
fn connections_wait_until_no_path_has_worked_for_1500_ms_and_then_go_direct_at_once() {
    let mut scenario = direct_at(one_path(), &[2_000, 5_400, 7_500, 16_000]);
    scenario.faults.push(Fault {
        when: When::At(ms(5_000)),
        what: Happening::Leave {
            route: 0,
            length: ms(10_000),
        },
    });
    let outcome = World::new(scenario).run().unwrap();
    assert_eq!(outcome.went_direct, [(1, ms(1_100)), (2, ms(0))]);
    // The last one finds the path back.
    let last = outcome.exchanges.last().unwrap();
    assert_eq!(
        last.started.since(mpbond_units::Timestamp::ZERO),
        ms(16_000)
    );
    assert_eq!(last.client_saw, Some(StreamEnd::Finished));
}

/// A NAT that forgets after 100 s and then resets: the kernel's keep-alive meets a reset 240 s
/// after the last PING. From then on the path is kept alive, and the answer is not lost on the
/// way.
#[test]
fn an_answer_after_700_s_passes_a_nat_that_resets_what_it_has_forgotten() {
    let mut exchange = Exchange::download(When::At(ms(2_000)), 300);
    exchange.origin.thinks = Duration::from_secs(700);
    let mut scenario = one_path().with_exchange(exchange);
    let nat = Nat {
        timeout: Duration::from_secs(100),
        resets: true,
    };
    scenario.lasting = Some(Lasting {
        keepalive: Some(Duration::from_secs(240)),
        nats: vec![Some(nat)],
        repeat_after: ms(1_000),
    });
    scenario.limit = Duration::from_secs(3_000);
    scenario.stall_limit = scenario.limit;
    let outcome = World::new(scenario).run().unwrap();
    let took = outcome.exchanges[0].took.unwrap();
    assert!(took < ms(701_000), "{took:?}");
}

/// What a helper says of its queues and rates is used for scheduling alone. Whatever it says, all
/// bytes arrive, and no later than without that helper.
#[test]
fn a_helper_that_reports_falsely_costs_no_byte_and_no_more_time_than_its_absence() {
    let alone = live(&Scenario::multihomed(&[(8.0, ms(25))]), &[]);
    for (mbps, rtt_ms, level_bytes) in [
        (0.0, 0, 0),
        (0.001, 60_000, 0),
        (0.001, 60_000, u64::from(u32::MAX)),
        (100_000.0, 0, 0),
        (100_000.0, 0, u64::from(u32::MAX)),
        (0.001, 0, 1 << 60),
    ] {
        let mut scenario = helper();
        scenario.routes[1].false_reports = Some(FarReport {
            throughput: BitRate::from_mbps(mbps),
            rtt: ms(rtt_ms),
            level_bytes,
            age: Duration::ZERO,
            sojourn: Some(ms(rtt_ms)),
            held_back: false,
        });
        for ((_, with), (_, without)) in live(&scenario, &[]).iter().zip(&alone) {
            let most = without.took.unwrap().mul_f64(1.01);
            assert!(with.took.unwrap() < most, "{mbps} Mbit/s: {with:?}");
        }
    }
}

/// A NAT forgets the only connection while the origin takes its time, and the answer is lost. The
/// primary learns it from the kernel's keep-alive, 4 minutes after the last packet.
#[test]
fn an_answer_that_a_nat_drops_waits_for_the_kernels_keep_alive_where_the_session_does() {
    for (resume_for, is_kept) in [(60, false), (240, true)] {
        let start = Duration::from_secs(2);
        let mut exchange = Exchange::download(When::At(start), 1_000);
        exchange.origin.thinks = Duration::from_secs(100);
        let mut scenario = one_path().with_exchange(exchange);
        for config in [&mut scenario.client, &mut scenario.server] {
            config.resume_for = Duration::from_secs(resume_for);
        }
        scenario.lasting = Some(Lasting {
            keepalive: Some(Duration::from_secs(240)),
            repeat_after: Duration::from_secs(1),
            ..Lasting::default()
        });
        scenario.limit = Duration::from_secs(3_600);
        scenario.stall_limit = scenario.limit;
        scenario.faults = vec![after(60_000, sever(0, true, [false; 2]))];
        let outcome = World::new(scenario).run().unwrap_or_else(|f| panic!("{f}"));
        let x = &outcome.exchanges[0];
        assert_eq!(x.client_saw, Some(StreamEnd::Finished), "{x:?}");
        let is_first = x.started.as_secs_f64() == start.as_secs_f64();
        assert_eq!(is_first, is_kept, "{resume_for}: {outcome:?}");
        if is_kept {
            let took = x.took.unwrap().as_secs();
            assert!((240..330).contains(&took), "{x:?}");
        }
    }
}

/// The primary's host sleeps during a download. The proxy keeps its connections for 60 s, and the
/// session for as long again.
#[test]
fn a_connection_goes_on_after_a_sleep_of_55_s_and_is_reset_after_one_of_130_s() {
    for (length, goes_on) in [(55, true), (130, false)] {
        let start = Duration::from_secs(2);
        let length = Duration::from_secs(length);
        let mut scenario = helper().with_exchange(Exchange::download(When::At(start), BYTES));
        scenario.lasting = Some(Lasting {
            repeat_after: Duration::from_secs(1),
            ..Lasting::default()
        });
        scenario.limit = Duration::from_secs(600);
        scenario.stall_limit = scenario.limit;
        scenario.faults = vec![after(1_000, Happening::Sleep { length })];
        let outcome = World::new(scenario).run().unwrap_or_else(|f| panic!("{f}"));
        let x = &outcome.exchanges[0];
        assert_eq!(x.client_saw, Some(StreamEnd::Finished), "{x:?}");
        let is_first = x.started.as_secs_f64() == start.as_secs_f64();
        assert_eq!(is_first, goes_on, "{length:?}: {x:?}");
        if goes_on {
            // Joined anew at once: it takes little more than without the sleep, some 5 s.
            assert!(x.took.unwrap() < length + ms(8_000), "{x:?}");
        }
    }
}

/// A path that sleeps between messages, as WiFi does to save power, is late with the first packets
/// of each. That is no silence: before an advance of the count shows that it is awake, it is not
/// probed (ADR 0079). Without that condition, nine of ten messages were sent twice.
#[test]
fn a_message_after_a_pause_is_not_sent_twice_where_the_path_wakes_slowly() {
    let late = |extra: u64| LinkChange {
        delay: Some(ms(20 + extra)),
        ..LinkChange::default()
    };
    let mut scenario = Scenario::multihomed(&[(20.0, ms(20)), (15.0, ms(25))]);
    for i in 0..20 {
        let start = When::At(Duration::from_secs(7) * (i as u32 + 1));
        let mut message = Exchange::upload(start, 700);
        message.origin.thinks = ms(150);
        scenario.exchanges.push(message);
        for (after, extra) in [(0, 100), (150, 0)] {
            scenario.faults.push(Fault {
                when: When::AfterStart(i, ms(after)),
                what: link(0, None, Some(late(extra))),
            });
        }
    }
    for variant in 0..2 {
        let outcome = World::new(scenario.clone().varied(variant)).run().unwrap();
        assert_eq!(outcome.exchanges.len(), 20);
        for x in &outcome.exchanges {
            assert_eq!((x.up_bytes, x.copies.probed), (700, 0), "{x:?}");
        }
    }
}
