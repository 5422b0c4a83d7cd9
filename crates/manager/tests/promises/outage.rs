//! Times without a proxy: how long new connections wait, and which go direct.

use mpbond_manager::{Action, Admission, Config, LOOK_EVERY, Link, Notice, WAIT_FOR_PATH};
use mpbond_manager::{REOPEN_AFTER, WithoutProxy};
use mpbond_session::{StreamId, SubflowId};

use crate::bench::{Bench, ms, notices};

/// One path that works.
fn joined(without_proxy: WithoutProxy) -> (Bench, SubflowId) {
    let mut b = Bench::new(Config {
        without_proxy,
        ..Config::new(vec![Link::path("own")])
    });
    let (dial, _) = b.dial();
    let subflow = b.joined(dial);
    assert_eq!(b.actions(), []);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
    (b, subflow)
}

#[test]
fn before_the_first_path_works_connections_wait_for_1500_ms() {
    let b = Bench::new(Config::new(vec![Link::path("own")]));
    let end = b.now + WAIT_FOR_PATH;
    assert_eq!((WAIT_FOR_PATH, LOOK_EVERY), (ms(1_500), ms(100)));
    assert_eq!(b.manager.admission(b.now), Admission::Wait(end));
    assert_eq!(b.manager.admission(end), Admission::WithoutProxy);
}

#[test]
fn connections_wait_until_no_path_has_worked_for_1500_ms_and_not_at_all_from_then_on() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    b.pass(ms(60_000));
    b.closed(subflow);
    let lost = b.now;
    let end = lost + ms(1_500);
    assert_eq!(b.manager.admission(lost), Admission::Wait(end));
    let told = b.pass(ms(1_499));
    assert_eq!(notices(&told), []);
    assert_eq!(b.manager.admission(b.now), Admission::Wait(end));
    assert_eq!(b.manager.outage_since(), None);
    assert_eq!(notices(&b.pass(ms(1))), [Notice::ProxyLost]);
    assert_eq!(b.manager.admission(b.now), Admission::WithoutProxy);
    assert_eq!(b.manager.outage_since(), Some(lost));
}

#[test]
fn a_path_that_comes_back_carries_new_connections_at_once() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    b.closed(subflow);
    let actions = b.pass(ms(5_000));
    let Some(Action::Dial { dial, .. }) = actions.iter().find(|a| matches!(a, Action::Dial { .. }))
    else {
        panic!("{actions:?}");
    };
    let id = SubflowId(7);
    b.manager.handle_dialled(b.now, *dial, id, None);
    // A connection alone is no answer of the proxy's.
    assert_eq!(b.manager.admission(b.now), Admission::WithoutProxy);
    b.manager.handle_subflow_up(b.now, id);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
    assert_eq!(notices(&b.actions()), [Notice::ProxyReached]);
}

#[test]
fn a_silent_path_is_none_where_connections_go_direct_and_one_where_they_are_refused() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    b.fact(subflow, true, None);
    assert!(matches!(b.manager.admission(b.now), Admission::Wait(_)));
    let (another, _) = b.dial();
    // The session does not report a recovery: the manager checks at intervals.
    let told = b.pass(ms(1_500));
    assert_eq!(notices(&told), [Notice::ProxyLost]);
    assert_eq!(b.due_after(LOOK_EVERY), []);
    b.fact(subflow, false, None);
    let actions = b.actions();
    assert_eq!(notices(&actions), [Notice::ProxyReached]);
    assert!(actions.contains(&Action::Abandon { dial: another }));
    assert_eq!(b.manager.poll_timeout(), None, "nothing is left to look at");

    let (mut b, subflow) = joined(WithoutProxy::Refuse);
    b.fact(subflow, true, None);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
    b.closed(subflow);
    assert!(matches!(b.manager.admission(b.now), Admission::Wait(_)));
}

#[test]
fn a_silent_path_over_which_records_come_is_no_outage_until_they_end() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    for _ in 0..30 {
        b.silent_but_heard(subflow);
        assert_eq!(notices(&b.pass(ms(100))), []);
        assert_eq!(b.manager.admission(b.now), Admission::Session);
    }
    // 250 ms after the last one, at the next look.
    b.pass(ms(200));
    assert_eq!(
        b.manager.admission(b.now),
        Admission::Wait(b.now + WAIT_FOR_PATH)
    );
    assert_eq!(notices(&b.pass(ms(1_499))), []);
    assert_eq!(notices(&b.pass(ms(1))), [Notice::ProxyLost]);
    b.silent_but_heard(subflow);
    assert_eq!(notices(&b.actions()), [Notice::ProxyReached]);
}

#[test]
fn a_connection_of_which_the_proxy_never_heard_goes_direct_1500_ms_after_the_silence() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    let stream = StreamId(3);
    b.manager.handle_opened(b.now, stream);
    // The session notices the silence meanwhile, and another connection is tried from then on.
    b.pass(ms(400));
    b.fact(subflow, true, None);
    let (noticed, _) = (b.now, b.dial());
    for look in (1_100..1_500).step_by(100) {
        let actions = b.pass(noticed + ms(look) - b.now);
        assert_eq!(actions, [Action::CheckStream { stream }], "{look}");
        b.manager.handle_stream(b.now, stream, false);
    }
    let actions = b.pass(ms(100));
    assert!(actions.contains(&Action::CheckStream { stream }));
    b.manager.handle_stream(b.now, stream, false);
    assert_eq!(b.action(), Action::GoDirect { stream });
    assert_eq!(b.now, noticed + WAIT_FOR_PATH);
}

#[test]
fn nothing_goes_direct_while_the_connection_that_replaces_a_silent_one_answers_in_time() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    let stream = StreamId(3);
    b.manager.handle_opened(b.now, stream);
    b.pass(ms(400));
    b.silent_after(subflow, ms(30_000));
    let (dial, _) = b.dial();
    b.pass(ms(1_099));
    let admission = b.manager.admission(b.now);
    assert!(matches!(admission, Admission::Wait(_)), "{admission:?}");
    let newer = b.joined(dial);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
    let mut actions = b.actions();
    for _ in 0..100 {
        actions.extend(b.pass(ms(100)));
        if actions.contains(&Action::CheckStream { stream }) {
            b.manager.handle_stream(b.now, stream, false);
        }
    }
    assert!(!actions.contains(&Action::GoDirect { stream }));
    assert_ne!(newer, subflow);
}

#[test]
fn while_a_path_works_a_connection_that_is_not_answered_stays_with_the_session() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    let stream = StreamId(3);
    b.manager.handle_opened(b.now, stream);
    assert_eq!(b.due_after(WAIT_FOR_PATH), [Action::CheckStream { stream }]);
    b.manager.handle_stream(b.now, stream, false);
    for _ in 0..20 {
        assert_eq!(b.due_after(LOOK_EVERY), [Action::CheckStream { stream }]);
        b.manager.handle_stream(b.now, stream, false);
    }
    // It goes once no path has worked for long enough.
    b.fact(subflow, true, None);
    b.dial();
    let silent = b.now;
    loop {
        let actions = b.pass(LOOK_EVERY);
        assert!(actions.contains(&Action::CheckStream { stream }));
        b.manager.handle_stream(b.now, stream, false);
        let actions = b.actions();
        if actions == [Action::GoDirect { stream }] {
            break;
        }
        assert_eq!(actions, []);
    }
    assert_eq!(b.now, silent + WAIT_FOR_PATH);
}

#[test]
fn a_connection_that_the_proxy_has_heard_of_is_left_alone() {
    let (mut b, subflow) = joined(WithoutProxy::Direct);
    let stream = StreamId(3);
    b.manager.handle_opened(b.now, stream);
    assert_eq!(b.due_after(WAIT_FOR_PATH), [Action::CheckStream { stream }]);
    b.manager.handle_stream(b.now, stream, true);
    b.fact(subflow, true, None);
    b.dial();
    let actions = b.pass(ms(10_000));
    assert_eq!(actions, [Action::Tell(Notice::ProxyLost)]);
}

#[test]
fn connections_never_go_direct_where_they_are_refused() {
    let (mut b, subflow) = joined(WithoutProxy::Refuse);
    b.manager.handle_opened(b.now, StreamId(3));
    b.fact(subflow, true, None);
    b.dial();
    assert_eq!(b.pass(ms(60_000)), []);
}

#[test]
fn streams_of_a_lost_session_are_no_longer_looked_at() {
    let (mut b, _) = joined(WithoutProxy::Direct);
    b.manager.handle_opened(b.now, StreamId(3));
    b.manager.handle_session_lost(b.now);
    let actions = b.pass(REOPEN_AFTER + ms(5_000));
    assert!(!actions.contains(&Action::CheckStream {
        stream: StreamId(3)
    }));
}
