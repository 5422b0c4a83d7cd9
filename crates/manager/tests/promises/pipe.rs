//! Pipes to helpers: control connection, relay and express.

use std::time::Duration;

use mpbond_manager::{
    Action, Config, Held, Link, LinkId, Notice, Purpose, RequestId, Target, WORTH_OPENING,
};
use mpbond_session::{HelperId, Role, StreamId, SubflowId};
use mpbond_units::BitRate;

use crate::bench::{Bench, ms, notices};

const PIPE: LinkId = LinkId(0);

fn one_pipe() -> Bench {
    Bench::new(Config::new(vec![Link::pipe("phone", HelperId(0))]))
}

/// A pipe whose relay works.
fn relayed() -> (Bench, RequestId, SubflowId) {
    let mut b = one_pipe();
    let (request, subflow) = b.pipe_up();
    assert_eq!(b.actions(), []);
    (b, request, subflow)
}

/// The same with an express that is up.
fn with_express() -> (Bench, RequestId, SubflowId, SubflowId) {
    let (mut b, request, subflow) = relayed();
    assert_eq!(b.report(PIPE, request, 1, WORTH_OPENING), Some(subflow));
    let (asked, purpose) = b.ask();
    assert_eq!(purpose, Purpose::Express);
    b.manager.handle_ticket(b.now, PIPE, asked);
    let (dial, target) = b.dial();
    let expected = Target::Relay {
        link: PIPE,
        request: asked,
        express: true,
    };
    assert_eq!(target, expected);
    assert_eq!(b.manager.setup(&target).role, Role::Express);
    let express = b.joined(dial);
    (b, request, subflow, express)
}

#[test]
fn the_first_subflow_opens_the_session_and_others_join_it() {
    let links = vec![
        Link::pipe("phone", HelperId(0)),
        Link::pipe("tablet", HelperId(1)),
    ];
    let mut b = Bench::new(Config::new(links));
    let actions = b.actions();
    let [
        Action::Dial { dial: one, .. },
        Action::Dial { dial: two, .. },
    ] = actions[..]
    else {
        panic!("{actions:?}");
    };
    b.manager.handle_control_up(b.now, one, None);
    let (request, purpose) = b.ask();
    assert_eq!(purpose, Purpose::Open);
    b.manager.handle_ticket(b.now, PIPE, request);
    let (relay, _) = b.dial();
    b.joined(relay);
    b.manager.handle_control_up(b.now, two, None);
    assert_eq!(b.ask().1, Purpose::Join);
}

#[test]
fn a_helper_that_does_not_answer_within_ten_seconds_is_dialled_anew() {
    let mut b = one_pipe();
    let (control, _) = b.dial();
    b.manager.handle_control_up(b.now, control, None);
    b.ask();
    b.pass(ms(9_999));
    let actions = b.pass(ms(1));
    let reason = "the helper does not answer".to_owned();
    let lost = Notice::HelperLost { link: PIPE, reason };
    assert_eq!(actions, [Action::HangUp { link: PIPE }, Action::Tell(lost)]);
    // The control connection had lasted: the pause is the shortest.
    let actions = b.due_after(ms(100));
    assert!(matches!(actions[..], [Action::Dial { .. }]), "{actions:?}");
}

#[test]
fn a_refusal_puts_the_relay_off_and_leaves_the_control_connection() {
    let mut b = one_pipe();
    let (control, _) = b.dial();
    b.manager.handle_control_up(b.now, control, None);
    let (mut request, _) = b.ask();
    b.pass(ms(2_000));
    for pause in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
        b.manager
            .handle_refusal(b.now, PIPE, request, "budget spent");
        let reason = "the helper says: budget spent".to_owned();
        let refused = Notice::NoRelay { link: PIPE, reason };
        assert_eq!(notices(&b.actions()), [refused]);
        let actions = b.due_after(ms(pause));
        let [Action::AskRelay { request: next, .. }] = actions[..] else {
            panic!("{actions:?}");
        };
        assert_ne!(next, request);
        request = next;
    }
}

#[test]
fn a_helper_that_cannot_reach_the_proxy_ends_the_attempt() {
    let mut b = one_pipe();
    let (control, _) = b.dial();
    b.manager.handle_control_up(b.now, control, None);
    let (request, _) = b.ask();
    b.manager.handle_ticket(b.now, PIPE, request);
    let (dial, _) = b.dial();
    b.manager
        .handle_refusal(b.now, PIPE, request, "no route to host");
    assert_eq!(b.actions()[0], Action::Abandon { dial });
}

#[test]
fn a_helper_that_leaves_is_let_go_at_once() {
    let (mut b, _, subflow, express) = with_express();
    b.manager.handle_goodbye(b.now, PIPE, "the helper stops");
    let actions = b.actions();
    for id in [subflow, express] {
        let drops = |a: &&Action| matches!(a, Action::Drop { subflow, .. } if *subflow == id);
        assert_eq!(actions.iter().filter(drops).count(), 1, "{actions:?}");
    }
    let reason = "the helper leaves: the helper stops".to_owned();
    let lost = Notice::HelperLost { link: PIPE, reason };
    assert_eq!(notices(&actions), [lost]);
}

#[test]
fn a_relay_outlives_its_control_connection_until_it_is_idle() {
    let (mut b, _, subflow) = relayed();
    b.manager
        .handle_control_closed(b.now, PIPE, "closed by the helper");
    assert_eq!(notices(&b.actions()).len(), 1);
    // Bytes move: it works on.
    for _ in 0..10 {
        b.fact(subflow, false, Some(b.now + ms(500)));
        assert_eq!(b.due_after(ms(2_000)), []);
    }
    b.fact(subflow, false, Some(b.now));
    b.pass(ms(2_000));
    let actions = b.pass(ms(2_000));
    assert!(
        matches!(actions[0], Action::Drop { subflow: s, .. } if s == subflow),
        "{actions:?}"
    );
    let redialled = |a: &Action| matches!(a, Action::Dial { .. });
    assert!(b.pass(ms(100)).iter().chain(&actions).any(redialled));
}

/// Another process of the helper may have taken over, which passes the connection on.
#[test]
fn a_relay_that_is_being_joined_outlives_its_control_connection() {
    let joining = || {
        let mut b = one_pipe();
        let (control, _) = b.dial();
        b.manager.handle_control_up(b.now, control, None);
        let (request, _) = b.ask();
        b.manager.handle_ticket(b.now, PIPE, request);
        let (dial, _) = b.dial();
        b.manager
            .handle_control_closed(b.now, PIPE, "closed by the helper");
        let reason = "closed by the helper".to_owned();
        let lost = Notice::ControlLost { link: PIPE, reason };
        assert_eq!(b.actions(), [Action::Tell(lost)]);
        assert_eq!(b.pass(ms(1_000)), []);
        (b, dial)
    };
    let (mut b, dial) = joining();
    let subflow = b.joined(dial);
    b.fact(subflow, false, Some(b.now));
    assert_eq!(b.actions(), []);
    b.pass(ms(2_000));
    let actions = b.pass(ms(2_000));
    assert!(
        matches!(actions[0], Action::Drop { subflow: s, .. } if s == subflow),
        "{actions:?}"
    );

    let (mut b, dial) = joining();
    b.fails(dial);
    let reason = "connection refused".to_owned();
    let lost = Notice::HelperLost { link: PIPE, reason };
    assert_eq!(notices(&b.actions()), [lost]);
    let actions = b.due_after(ms(100));
    assert!(matches!(actions[..], [Action::Dial { .. }]), "{actions:?}");

    let (mut b, dial) = joining();
    b.manager.handle_link_removed(b.now, PIPE);
    assert_eq!(b.actions(), [Action::Abandon { dial }]);
}

#[test]
fn an_express_is_opened_when_a_helper_holds_what_its_hop_takes_250_ms_for() {
    assert_eq!(WORTH_OPENING, ms(250));
    let (mut b, request, subflow) = relayed();
    assert_eq!(b.report(PIPE, request, 1, ms(249)), Some(subflow));
    assert_eq!(b.actions(), []);
    assert_eq!(b.report(PIPE, request, 1, ms(900)), None, "out of date");
    assert_eq!(b.actions(), []);
    b.report(PIPE, request, 2, ms(250));
    assert_eq!(b.ask().1, Purpose::Express);
    // One is enough.
    b.report(PIPE, request, 3, ms(900));
    assert_eq!(b.actions(), []);
}

/// A helper knows no throughput of a pipe over a Unix socket, but how long bytes have waited.
#[test]
fn without_a_throughput_an_express_is_opened_by_the_time_that_bytes_have_waited() {
    let (mut b, request, _) = relayed();
    let held = |bytes, waited| Held {
        bytes,
        throughput: BitRate::ZERO,
        sojourn: waited,
    };
    let early = [
        held(1_000_000, None),
        held(1_000_000, Some(ms(249))),
        // Of bytes that have left.
        held(0, Some(ms(900))),
    ];
    for (number, held) in (1..).zip(early) {
        b.report_held(PIPE, request, number, held);
        assert_eq!(b.actions(), [], "{held:?}");
    }
    b.report_held(PIPE, request, 4, held(1_000, Some(ms(250))));
    assert_eq!(b.ask().1, Purpose::Express);
}

#[test]
fn a_backup_pipe_and_a_manager_without_expresses_open_none() {
    let mut backup = Link::pipe("phone", HelperId(0));
    backup.backup = true;
    let none = Config {
        express_at: None,
        ..Config::new(vec![Link::pipe("phone", HelperId(0))])
    };
    for config in [Config::new(vec![backup]), none] {
        let mut b = Bench::new(config);
        let (request, subflow) = b.pipe_up();
        assert_eq!(b.report(PIPE, request, 1, ms(900)), Some(subflow));
        assert_eq!(b.actions(), []);
    }
}

#[test]
fn an_express_that_was_idle_for_over_a_minute_is_replaced_when_it_may_be_needed() {
    let (mut b, request, _, express) = with_express();
    let last = b.now + ms(10);
    b.pass(ms(60_010));
    b.fact(express, false, Some(last));
    b.report(PIPE, request, 2, WORTH_OPENING);
    assert_eq!(b.actions(), []);
    b.pass(ms(1));
    b.report(PIPE, request, 3, WORTH_OPENING);
    let actions = b.actions();
    assert!(
        matches!(
            actions[..],
            [
                Action::Drop { subflow, .. },
                Action::AskRelay {
                    purpose: Purpose::Express,
                    ..
                }
            ] if subflow == express
        ),
        "{actions:?}"
    );
}

#[test]
fn an_express_that_is_refused_or_fails_is_asked_for_again_after_ten_seconds() {
    let fail: [fn(&mut Bench, RequestId); 3] = [
        |b, request| b.manager.handle_refusal(b.now, PIPE, request, "too many"),
        |b, request| {
            b.manager.handle_ticket(b.now, PIPE, request);
            let (dial, _) = b.dial();
            b.fails(dial);
        },
        // No answer at all.
        |b, _| {
            b.now += ms(10_000);
            b.manager.handle_timeout(b.now);
        },
    ];
    for fail in fail {
        let (mut b, relay, _) = relayed();
        b.report(PIPE, relay, 1, WORTH_OPENING);
        let (request, _) = b.ask();
        fail(&mut b, request);
        assert!(matches!(
            notices(&b.actions())[..],
            [Notice::NoExpress { .. }]
        ));
        b.pass(ms(9_999));
        b.report(PIPE, relay, 2, WORTH_OPENING);
        assert_eq!(b.actions(), []);
        b.pass(ms(1));
        b.report(PIPE, relay, 3, WORTH_OPENING);
        assert_eq!(b.ask().1, Purpose::Express);
    }
}

#[test]
fn a_proxy_that_closes_an_express_at_once_is_asked_for_no_other() {
    let (mut b, relay, _, express) = with_express();
    b.pass(ms(4_999));
    b.closed(express);
    b.pass(Duration::from_secs(3_600));
    b.report(PIPE, relay, 2, WORTH_OPENING);
    assert_eq!(b.actions(), []);

    let (mut b, relay, _, express) = with_express();
    b.pass(ms(5_000));
    b.closed(express);
    b.pass(ms(10_000));
    b.report(PIPE, relay, 2, WORTH_OPENING);
    assert_eq!(b.ask().1, Purpose::Express);
}

#[test]
fn an_express_ends_with_its_relay() {
    let (mut b, _, subflow, express) = with_express();
    b.closed(subflow);
    assert!(matches!(b.action(), Action::Drop { subflow, .. } if subflow == express));
}

/// An own path and a pipe, both joined, on which stream bytes last moved `idle` ago.
fn joined_and_idle(idle: Duration) -> (Bench, SubflowId, SubflowId) {
    let links = vec![Link::path("wifi"), Link::pipe("phone", HelperId(0))];
    let mut b = Bench::new(Config::new(links));
    let actions = b.actions();
    let dial_of = |wanted: Target| {
        let mut dials = actions.iter().filter_map(|action| match action {
            Action::Dial { dial, target } if *target == wanted => Some(*dial),
            _ => None,
        });
        dials.next().unwrap()
    };
    let own = b.joined(dial_of(Target::Proxy { link: LinkId(0) }));
    let control = dial_of(Target::Control { link: LinkId(1) });
    b.manager.handle_control_up(b.now, control, None);
    let (request, _) = b.ask();
    b.manager.handle_ticket(b.now, LinkId(1), request);
    let (dial, _) = b.dial();
    let relay = b.joined(dial);
    b.fact(own, false, Some(b.now));
    assert_eq!(b.pass(idle), []);
    (b, own, relay)
}

fn asks(actions: &[Action]) -> usize {
    let ask = |a: &&Action| matches!(a, Action::AskRelay { .. });
    actions.iter().filter(ask).count()
}

#[test]
fn a_relay_that_is_lost_at_rest_is_joined_again_when_a_stream_is_opened() {
    let (mut b, _, relay) = joined_and_idle(ms(10_000));
    b.closed(relay);
    // The pause after the loss, and then nothing that is due.
    assert_eq!(b.pass(ms(100)), []);
    assert_eq!(b.manager.poll_timeout(), None);
    b.now += ms(600_000);
    b.manager.handle_opened(b.now, StreamId(7));
    assert_eq!(asks(&b.actions()), 1);
}

#[test]
fn a_relay_that_is_lost_at_rest_is_joined_again_when_bytes_of_an_old_stream_move() {
    let (mut b, _, relay) = joined_and_idle(ms(10_000));
    b.closed(relay);
    assert_eq!(b.pass(ms(60_000)), []);
    b.manager.handle_moving(b.now);
    assert_eq!(asks(&b.actions()), 1);
}

#[test]
fn a_resting_pipe_is_joined_at_once_when_nothing_else_works() {
    let (mut b, own, relay) = joined_and_idle(ms(10_000));
    b.closed(relay);
    assert_eq!(b.pass(ms(60_000)), []);
    b.closed(own);
    assert_eq!(asks(&b.actions()), 1);
}

#[test]
fn a_relay_that_is_lost_while_bytes_move_is_joined_again_after_the_shortest_pause() {
    let (mut b, _, relay) = joined_and_idle(ms(9_900));
    b.closed(relay);
    assert_eq!(asks(&b.pass(ms(100))), 1);
}

/// A helper that has left comes back without having been asked.
#[test]
fn a_pipe_whose_control_connection_is_lost_does_not_rest() {
    let (mut b, _, relay) = joined_and_idle(ms(10_000));
    b.closed(relay);
    b.manager
        .handle_control_closed(b.now, LinkId(1), "connection lost");
    let dials = b.pass(ms(1_000));
    let dial = |a: &Action| matches!(a, Action::Dial { .. });
    assert!(dials.iter().any(dial), "{dials:?}");
}
