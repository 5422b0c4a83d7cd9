//! Links that the configuration gains and loses while the primary runs.

use mpbond_manager::{
    Action, Admission, Config, Link, LinkId, LinkState, NOT_CONFIGURED, Notice, Target,
    WAIT_FOR_PATH, WithoutProxy,
};
use mpbond_session::{HelperId, StreamId, SubflowId};

use crate::bench::{Bench, ms, notices};

fn drop_of(subflow: SubflowId) -> Action {
    let reason = NOT_CONFIGURED;
    Action::Drop { subflow, reason }
}

/// One own path, on which the proxy has answered.
fn joined() -> (Bench, SubflowId) {
    let mut b = Bench::new(Config::new(vec![Link::path("own")]));
    let (dial, _) = b.dial();
    let subflow = b.joined(dial);
    assert_eq!(b.actions(), []);
    (b, subflow)
}

#[test]
fn a_path_that_is_added_is_dialled_at_once_and_others_stay() {
    let (mut b, own) = joined();
    b.pass(ms(5_000));
    let link = b.manager.handle_link_added(b.now, Link::path("second"));
    assert_eq!(link, LinkId(1));
    let (dial, target) = b.dial();
    assert_eq!(target, Target::Proxy { link });
    assert_eq!(b.manager.setup(&target).name, "second");
    let second = b.joined(dial);
    assert_eq!(b.actions(), []);
    assert_eq!(b.manager.link(link), Some(LinkState::Up));
    assert_eq!(b.manager.link(LinkId(0)), Some(LinkState::Up));
    assert_ne!(own, second);
}

#[test]
fn a_helper_that_is_added_is_dialled_at_once_and_asked_to_join() {
    let (mut b, _) = joined();
    let pipe = Link::pipe("phone", HelperId(0));
    let link = b.manager.handle_link_added(b.now, pipe);
    let (control, target) = b.dial();
    assert_eq!(target, Target::Control { link });
    b.manager.handle_control_up(b.now, control, None);
    let (request, _) = b.ask();
    b.manager.handle_ticket(b.now, link, request);
    let (relay, _) = b.dial();
    b.joined(relay);
    assert_eq!(b.manager.link(link), Some(LinkState::Up));
}

#[test]
fn a_path_that_is_removed_is_dropped_and_never_dialled_again() {
    let (mut b, own) = joined();
    let second = b.manager.handle_link_added(b.now, Link::path("second"));
    let (dial, _) = b.dial();
    b.joined(dial);
    b.manager.handle_link_removed(b.now, LinkId(0));
    assert_eq!(b.actions(), [drop_of(own)]);
    b.closed(own);
    assert_eq!(b.manager.link(LinkId(0)), None);
    let left: Vec<_> = b.manager.links().collect();
    assert_eq!(left, [LinkState::Up]);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
    // Nothing comes of it later, and its number is not used again.
    assert_eq!(b.pass(ms(60_000)), []);
    let third = b.manager.handle_link_added(b.now, Link::path("third"));
    assert_eq!((second, third), (LinkId(1), LinkId(2)));
}

#[test]
fn an_attempt_of_a_path_that_is_removed_is_abandoned_and_a_late_result_is_dropped() {
    let mut b = Bench::new(Config::new(vec![Link::path("own")]));
    let (dial, _) = b.dial();
    b.manager.handle_link_removed(b.now, LinkId(0));
    assert_eq!(b.actions(), [Action::Abandon { dial }]);
    let late = b.unanswered_from(dial, None);
    let reason = "no longer needed";
    let subflow = late;
    assert_eq!(b.actions(), [Action::Drop { subflow, reason }]);
}

#[test]
fn a_helper_that_is_removed_is_hung_up_with_its_relay() {
    let (mut b, _) = joined();
    let pipe = Link::pipe("phone", HelperId(0));
    let link = b.manager.handle_link_added(b.now, pipe);
    let (request, relay) = b.pipe_up();
    b.manager.handle_link_removed(b.now, link);
    assert_eq!(b.actions(), [drop_of(relay), Action::HangUp { link }]);
    // Messages that were on the way.
    b.manager.handle_refusal(b.now, link, request, "late");
    b.manager.handle_control_closed(b.now, link, "late");
    assert_eq!(b.report(link, request, 1, ms(1_000)), None);
    b.closed(relay);
    assert_eq!(b.pass(ms(60_000)), []);
}

/// Without a control connection there is nothing to hang up.
#[test]
fn a_relay_that_has_lost_its_control_connection_goes_with_its_helper() {
    let (mut b, _) = joined();
    let pipe = Link::pipe("phone", HelperId(0));
    let link = b.manager.handle_link_added(b.now, pipe);
    let (_, relay) = b.pipe_up();
    b.manager.handle_control_closed(b.now, link, "reset");
    b.actions();
    b.manager.handle_link_removed(b.now, link);
    assert_eq!(b.actions(), [drop_of(relay)]);
}

#[test]
fn without_any_link_the_proxy_is_lost_until_one_is_added() {
    let (mut b, own) = joined();
    b.manager.handle_link_removed(b.now, LinkId(0));
    b.closed(own);
    b.actions();
    assert_eq!(notices(&b.pass(ms(10_000))), [Notice::ProxyLost]);
    b.manager.handle_link_added(b.now, Link::path("new"));
    let (dial, _) = b.dial();
    b.joined(dial);
    assert_eq!(notices(&b.actions()), [Notice::ProxyReached]);
}

/// A silent path counts only where connections are refused otherwise.
#[test]
fn another_policy_for_a_lost_proxy_holds_from_then_on() {
    let (mut b, own) = joined();
    b.manager.handle_without_proxy(b.now, WithoutProxy::Refuse);
    b.fact(own, true, None);
    b.pass(WAIT_FOR_PATH);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
    // Nobody is asked about streams that may not go direct.
    let stream = StreamId(0);
    b.manager.handle_opened(b.now, stream);
    assert!(!b.pass(ms(10_000)).contains(&Action::CheckStream { stream }));
    b.manager.handle_without_proxy(b.now, WithoutProxy::Direct);
    let until = Admission::Wait(b.now + WAIT_FOR_PATH);
    assert_eq!(b.manager.admission(b.now), until);
    b.manager.handle_opened(b.now, stream);
    let actions = b.pass(WAIT_FOR_PATH);
    assert!(
        actions.contains(&Action::CheckStream { stream }),
        "{actions:?}"
    );
    assert_eq!(b.manager.admission(b.now), Admission::WithoutProxy);
    b.manager.handle_stream(b.now, stream, false);
    assert!(b.actions().contains(&Action::GoDirect { stream }));
    b.manager.handle_without_proxy(b.now, WithoutProxy::Refuse);
    assert_eq!(b.manager.admission(b.now), Admission::Session);
}
