//! Silent connections: when another one is made beside them, and which of the two is kept.

use std::time::Duration;

use mpbond_manager::{
    Action, Admission, Config, DialId, Link, LinkId, LinkState, SubflowFacts, Target,
};
use mpbond_session::{HelperId, IDLE_LONG, SubflowId};

use crate::bench::{Bench, ms};

const DROPPED: &str = "silent; a new connection answers";

/// Own paths that work.
fn paths<const N: usize>() -> (Bench, [SubflowId; N]) {
    let names: Vec<Link> = (0..N).map(|n| Link::path(&format!("own{n}"))).collect();
    let mut b = Bench::new(Config::new(names));
    let actions = b.actions();
    let ids = std::array::from_fn(|n| match actions[n] {
        Action::Dial { dial, .. } => b.joined(dial),
        _ => panic!("{actions:?}"),
    });
    b.pass(ms(60_000));
    (b, ids)
}

/// One pipe whose relay works.
fn pipe() -> (Bench, SubflowId) {
    let mut b = Bench::new(Config::new(vec![Link::pipe("helper", HelperId(0))]));
    let (_, subflow) = b.pipe_up();
    b.pass(ms(60_000));
    (b, subflow)
}

/// Attempts among actions.
fn dialled(actions: &[Action]) -> Vec<DialId> {
    let dial = |action: &Action| match action {
        Action::Dial { dial, .. } => Some(*dial),
        _ => None,
    };
    actions.iter().filter_map(dial).collect()
}

#[test]
fn the_only_path_is_dialled_anew_as_soon_as_it_is_silent_and_kept_until_that_answers() {
    for idle in [ms(0), ms(30_000)] {
        let (mut b, [old]) = paths();
        b.silent_after(old, idle);
        let (dial, target) = b.dial();
        assert_eq!(target, Target::Proxy { link: LinkId(0) });
        assert_eq!(b.manager.links().next(), Some(LinkState::Connecting(None)));
        b.pass(ms(50));
        let new = SubflowId(9);
        b.manager.handle_dialled(b.now, dial, new, None);
        // A connection alone is no answer.
        assert_eq!(b.actions(), []);
        b.pass(ms(25));
        b.manager.handle_subflow_up(b.now, new);
        let drop = Action::Drop {
            subflow: old,
            reason: DROPPED,
        };
        assert_eq!(b.actions(), [drop]);
        assert_eq!(b.manager.admission(b.now), Admission::Session);
        assert_eq!(b.manager.links().next(), Some(LinkState::Up));
        // Its end is known already.
        b.closed(old);
        assert_eq!(b.pass(ms(60_000)), []);
    }
}

#[test]
fn beside_another_path_only_one_that_was_idle_for_5_s_is_dialled_anew() {
    assert_eq!(IDLE_LONG, ms(5_000));
    let (mut b, [one, _]) = paths();
    b.silent_after(one, ms(4_999));
    assert_eq!(b.pass(ms(10_000)), []);
    b.fact(one, false, None);
    b.silent_after(one, ms(5_000));
    assert_eq!(b.dial().1, Target::Proxy { link: LinkId(0) });
    // With the other one the host loses all.
    let (mut b, [one, two]) = paths();
    b.silent_after(one, ms(0));
    assert_eq!(b.actions(), []);
    b.silent_after(two, ms(0));
    let dials = b.actions();
    assert_eq!(dials.len(), 2, "{dials:?}");
}

#[test]
fn a_silent_path_that_answers_first_is_kept_and_the_attempt_is_dropped() {
    let (mut b, [old]) = paths();
    b.silent_after(old, ms(30_000));
    let (dial, _) = b.dial();
    b.pass(ms(50));
    b.fact(old, false, None);
    assert_eq!(b.actions(), [Action::Abandon { dial }]);
    assert_eq!(b.manager.links().next(), Some(LinkState::Up));
    assert_eq!(b.pass(ms(60_000)), []);

    // The new connection is up, and has not answered either.
    b.silent_after(old, ms(30_000));
    let (dial, _) = b.dial();
    let new = SubflowId(9);
    b.manager.handle_dialled(b.now, dial, new, None);
    b.pass(ms(50));
    b.fact(old, false, None);
    let drop = Action::Drop {
        subflow: new,
        reason: "no longer needed",
    };
    assert_eq!(b.actions(), [drop]);
    b.closed(new);
    assert_eq!(b.pass(ms(60_000)), []);
}

#[test]
fn a_connection_over_which_records_come_is_not_replaced_until_250_ms_after_the_last() {
    let (mut b, [old]) = paths();
    let heard = b.now;
    let fact = SubflowFacts {
        id: old,
        silent: true,
        last_moved: None,
        octets: 1 << 20,
        heard,
        progress: b.now.before(ms(500)),
        idle_before: ms(0),
        idle_survived: ms(0),
    };
    b.manager.handle_subflows(b.now, [fact]);
    assert_eq!(dialled(&b.pass(ms(249))), []);
    assert_eq!(dialled(&b.pass(ms(1))).len(), 1);
}

#[test]
fn late_news_of_a_silent_path_that_the_new_one_brings_does_not_keep_it() {
    let (mut b, [old]) = paths();
    b.silent_after(old, ms(30_000));
    let (dial, _) = b.dial();
    let (new, news) = (SubflowId(9), b.now);
    b.manager.handle_dialled(b.now, dial, new, None);
    b.pass(ms(50));
    // Its count has advanced, and nothing has come over it since.
    let fact = SubflowFacts {
        id: old,
        silent: false,
        last_moved: None,
        octets: 0,
        heard: news,
        progress: b.now.before(ms(500)),
        idle_before: ms(30_000),
        idle_survived: ms(0),
    };
    b.manager.handle_subflows(b.now, [fact]);
    assert_eq!(b.actions(), []);
    b.manager.handle_subflow_up(b.now, new);
    let drop = Action::Drop {
        subflow: old,
        reason: DROPPED,
    };
    assert_eq!(b.actions(), [drop]);
}

#[test]
fn a_replacement_that_fails_is_tried_again_after_pauses_that_double() {
    let (mut b, [old]) = paths();
    b.silent_after(old, ms(30_000));
    let (mut dial, _) = b.dial();
    for pause in [100, 200, 400, 800] {
        b.fails(dial);
        b.actions();
        assert_eq!(dialled(&b.pass(ms(pause - 1))), []);
        let dials = dialled(&b.pass(ms(1)));
        assert_eq!(dials.len(), 1, "after {pause} ms");
        dial = dials[0];
    }
    // The session gives the silent one up meanwhile: the attempt goes on.
    b.closed(old);
    assert_eq!(b.actions(), []);
    b.joined(dial);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
}

#[test]
fn connections_that_fall_silent_one_after_the_other_are_replaced_ever_more_rarely() {
    let (mut b, [mut old]) = paths();
    b.silent_after(old, ms(0));
    let (mut dial, _) = b.dial();
    for pause in [100, 200, 400, 800, 1_600, 3_200] {
        let new = b.joined(dial);
        let drop = Action::Drop {
            subflow: old,
            reason: DROPPED,
        };
        assert!(b.actions().contains(&drop));
        old = new;
        b.silent_after(old, ms(0));
        assert_eq!(dialled(&b.pass(ms(pause - 1))), []);
        let dials = dialled(&b.pass(ms(1)));
        assert_eq!(dials.len(), 1, "after {pause} ms");
        dial = dials[0];
    }
    // One that has lasted for more than 5 s is replaced at once.
    old = b.joined(dial);
    b.pass(ms(5_001));
    b.silent_after(old, ms(0));
    b.dial();
}

#[test]
fn another_relay_is_asked_for_beside_a_silent_one() {
    let (mut b, old) = pipe();
    b.silent_after(old, ms(30_000));
    let (request, _) = b.ask();
    b.manager.handle_ticket(b.now, LinkId(0), request);
    let (dial, _) = b.dial();
    b.joined(dial);
    let drop = Action::Drop {
        subflow: old,
        reason: DROPPED,
    };
    assert_eq!(b.actions(), [drop]);
    b.closed(old);
    assert_eq!(b.pass(ms(60_000)), []);
}

#[test]
fn another_relay_beside_one_that_may_sleep_is_asked_for_when_it_had_the_time_to_wake() {
    let asked = |actions: &[Action]| {
        let ask = |action: &&Action| matches!(action, Action::AskRelay { .. });
        actions.iter().filter(ask).count()
    };
    for idle in [ms(0), ms(30_000)] {
        let mut b = Bench::new(Config::new(vec![Link {
            pause: ms(1_000),
            ..Link::pipe("helper", HelperId(0))
        }]));
        let (_, old) = b.pipe_up();
        b.pass(ms(60_000));
        b.silent_after(old, idle);
        assert_eq!(asked(&b.pass(ms(499))), 0);
        assert_eq!(asked(&b.pass(ms(1))), 1);
    }
}

#[test]
fn a_silent_relay_that_answers_first_is_kept_with_its_reports() {
    let mut b = Bench::new(Config::new(vec![Link::pipe("helper", HelperId(0))]));
    let (first, old) = b.pipe_up();
    assert_eq!(b.report(LinkId(0), first, 7, ms(0)), Some(old));
    b.pass(ms(60_000));
    b.silent_after(old, ms(30_000));
    let (second, _) = b.ask();
    assert_eq!(b.report(LinkId(0), first, 8, ms(0)), None);
    b.pass(ms(50));
    b.fact(old, false, None);
    // A ticket that comes now is not used.
    b.manager.handle_ticket(b.now, LinkId(0), second);
    assert_eq!(b.actions(), []);
    assert_eq!(b.report(LinkId(0), first, 9, ms(0)), Some(old));
    assert_eq!(b.manager.links().next(), Some(LinkState::Up));
}

#[test]
fn a_silent_relay_goes_with_its_control_connection() {
    let (mut b, old) = pipe();
    b.silent_after(old, ms(30_000));
    b.ask();
    b.manager.handle_control_closed(b.now, LinkId(0), "reset");
    let drop = Action::Drop {
        subflow: old,
        reason: "no control connection",
    };
    assert!(b.actions().contains(&drop));
    // All is made anew after the pause.
    b.pass(ms(100));
    assert_eq!(
        b.manager.links().next(),
        Some(LinkState::Connecting(Some("reset")))
    );
}

/// The keep-alive that the next connection of the path gets.
fn keep_alive(b: &Bench) -> Option<Duration> {
    let target = Target::Proxy { link: LinkId(0) };
    b.manager.setup(&target).keep_alive
}

#[test]
fn a_path_that_was_forgotten_after_300_s_is_kept_alive_every_150_s_from_then_on() {
    let (mut b, [old]) = paths();
    assert_eq!(keep_alive(&b), None);
    b.silent_after(old, ms(300_000));
    let (dial, _) = b.dial();
    b.pass(ms(2_999));
    assert_eq!(keep_alive(&b), Some(ms(150_000)));
    b.joined(dial);
    assert_eq!(keep_alive(&b), Some(ms(150_000)));
    // Another network may remember for longer.
    b.manager.handle_slept(b.now, ms(60_000));
    assert_eq!(keep_alive(&b), None);
}

#[test]
fn a_network_that_was_away_or_woke_up_late_has_forgotten_nothing() {
    let (mut b, [old]) = paths();
    b.silent_after(old, ms(300_000));
    let (dial, _) = b.dial();
    b.pass(ms(3_001));
    b.joined(dial);
    assert_eq!(keep_alive(&b), None);

    let (mut b, [old]) = paths();
    b.silent_after(old, ms(300_000));
    b.dial();
    b.pass(ms(50));
    b.fact(old, false, None);
    assert_eq!(keep_alive(&b), None);
}

#[test]
fn a_session_that_is_lost_leaves_nothing_to_replace() {
    let (mut b, [old]) = paths();
    b.silent_after(old, ms(30_000));
    let (dial, _) = b.dial();
    b.manager.handle_session_lost(b.now);
    assert!(b.actions().contains(&Action::Abandon { dial }));
    b.pass(ms(200));
    b.manager.handle_session_opened(b.now);
    let (dial, _) = b.dial();
    b.joined(dial);
    assert_eq!(b.pass(ms(60_000)), []);
}

/// The kernel asks after 4 minutes, and the network resets what it has forgotten.
#[test]
fn a_path_that_was_reset_after_240_s_is_kept_alive_every_120_s_from_then_on() {
    let mut b = Bench::new(Config::new(vec![Link::path("wifi")]));
    let (dial, target) = b.dial();
    let id = b.joined(dial);
    b.fact(id, false, Some(b.now));
    assert_eq!(b.manager.setup(&target).keep_alive, None);
    assert_eq!(b.pass(ms(300_000)), []);
    b.closed(id);
    let actions = b.pass(ms(100));
    let [Action::Dial { dial, .. }] = actions[..] else {
        panic!("{actions:?}");
    };
    let keep_alive = Some(Duration::from_secs(120));
    assert_eq!(b.manager.setup(&target).keep_alive, keep_alive);
    b.joined(dial);
    assert_eq!(b.manager.setup(&target).keep_alive, keep_alive);
}

#[test]
fn a_reset_says_nothing_of_a_network_that_was_away_or_of_a_proxy_that_was_restarted() {
    for session_is_lost in [false, true] {
        let mut b = Bench::new(Config::new(vec![Link::path("wifi")]));
        let (dial, target) = b.dial();
        let id = b.joined(dial);
        b.fact(id, false, Some(b.now));
        b.pass(ms(300_000));
        b.closed(id);
        if session_is_lost {
            b.manager.handle_session_lost(b.now);
        } else {
            let actions = b.pass(ms(3_100));
            let [Action::Dial { dial, .. }, ..] = actions[..] else {
                panic!("{actions:?}");
            };
            b.joined(dial);
        }
        assert_eq!(b.manager.setup(&target).keep_alive, None);
    }
}
