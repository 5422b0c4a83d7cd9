//! Own paths: pauses between attempts, and sessions that follow each other.

use std::time::Duration;

use mpbond_manager::{Action, Config, Link, LinkId, LinkState, Notice, Target};

use crate::bench::{Bench, ms, notices};

fn one_path() -> Bench {
    Bench::new(Config::new(vec![Link::path("own")]))
}

/// Skips what belongs to the outage: the announcement that no path works.
fn dials(actions: &[Action]) -> usize {
    let dial = |a: &&Action| matches!(a, Action::Dial { .. });
    actions.iter().filter(dial).count()
}

#[test]
fn a_path_that_cannot_be_joined_is_tried_after_pauses_up_to_ten_seconds() {
    let mut b = one_path();
    let (mut dial, target) = b.dial();
    assert_eq!(target, Target::Proxy { link: LinkId(0) });
    // The outage is announced between the attempts; let that pass first.
    b.pass(ms(2_000));
    for pause in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
        b.fails(dial);
        assert_eq!(
            notices(&b.actions()),
            [Notice::PathNotJoined {
                link: LinkId(0),
                reason: "connection refused".to_owned()
            }]
        );
        let waiting = LinkState::Waiting(Some("connection refused"));
        assert_eq!(b.manager.links().next(), Some(waiting));
        let actions = b.due_after(ms(pause));
        let [Action::Dial { dial: next, .. }] = actions[..] else {
            panic!("{actions:?}");
        };
        dial = next;
    }
}

#[test]
fn a_path_that_lasted_over_five_seconds_is_joined_again_after_the_shortest_pause() {
    for (lasts, pause) in [(5_000, 400), (5_001, 100)] {
        let mut b = one_path();
        let (mut dial, _) = b.dial();
        for pause in [100, 200] {
            b.fails(dial);
            b.actions();
            let [Action::Dial { dial: next, .. }] = b.due_after(ms(pause))[..] else {
                panic!("nothing is dialled");
            };
            dial = next;
        }
        let subflow = b.joined(dial);
        assert_eq!(b.manager.links().next(), Some(LinkState::Up));
        b.pass(ms(lasts));
        b.closed(subflow);
        assert_eq!(dials(&b.due_after(ms(pause))), 1);
    }
}

#[test]
fn another_session_is_opened_after_200_ms_and_every_path_is_dialled_at_once() {
    let mut b = Bench::new(Config::new(vec![Link::path("one"), Link::path("two")]));
    let actions = b.actions();
    let [
        Action::Dial { dial: one, .. },
        Action::Dial { dial: two, .. },
    ] = actions[..]
    else {
        panic!("{actions:?}");
    };
    b.joined(one);
    b.manager.handle_session_lost(b.now);
    // The result of the attempt that is under way is ignored.
    assert_eq!(b.action(), Action::Abandon { dial: two });
    assert_eq!(b.due_after(ms(200)), [Action::OpenSession]);
    b.manager.handle_session_opened(b.now);
    assert_eq!(dials(&b.actions()), 2);
    // A result that comes all the same is not used.
    let late = b.joined(two);
    let drop = Action::Drop {
        subflow: late,
        reason: "no longer needed",
    };
    assert!(b.actions().contains(&drop));
}

/// The subflows stay with the session that retires: none is dropped.
#[test]
fn when_a_session_retires_the_next_one_is_opened_and_dialled_at_once() {
    let mut b = one_path();
    let (dial, _) = b.dial();
    b.joined(dial);
    b.pass(Duration::from_secs(1));
    b.manager.handle_session_retired(b.now);
    assert_eq!(b.action(), Action::OpenSession);
    b.manager.handle_session_opened(b.now);
    let (dial, _) = b.dial();
    b.joined(dial);
    // A proxy that retires every session is asked five times a second, no more often.
    b.manager.handle_session_retired(b.now);
    assert_eq!(b.due_after(ms(200)), [Action::OpenSession]);
}

#[test]
fn a_link_that_is_down_is_not_dialled_and_one_that_comes_up_is_at_once() {
    let mut b = one_path();
    let (dial, _) = b.dial();
    b.manager.handle_link(b.now, LinkId(0), false);
    b.fails(dial);
    assert_eq!(dials(&b.pass(Duration::from_secs(60))), 0);
    b.manager.handle_link(b.now, LinkId(0), true);
    b.dial();
}

#[test]
fn a_proxy_that_does_not_trust_this_device_is_told_once_a_session() {
    let mut b = one_path();
    let (dial, _) = b.dial();
    b.manager.handle_not_trusted(b.now);
    b.manager.handle_not_trusted(b.now);
    assert_eq!(b.action(), Action::Tell(Notice::NotTrusted));
    assert!(b.manager.is_not_trusted());
    b.joined(dial);
    assert!(!b.manager.is_not_trusted());
    b.manager.handle_not_trusted(b.now);
    assert_eq!(b.action(), Action::Tell(Notice::NotTrusted));
}
