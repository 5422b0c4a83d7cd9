//! Segments of links over which only small packets pass.

use std::collections::HashSet;
use std::net::IpAddr;

use mpbond_manager::{
    Action, Config, DialId, ENOUGH_BYTES, Link, LinkId, Notice, RequestId, SEGMENT_BYTES,
};
use mpbond_session::{HelperId, SubflowId};

use crate::bench::{Bench, ms, notices};

const PATH: LinkId = LinkId(0);

fn one_path() -> (Bench, SubflowId) {
    let mut b = Bench::new(Config::new(vec![Link::path("own")]));
    let (dial, _) = b.dial();
    let subflow = b.joined(dial);
    b.pass(ms(60_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
    (b, subflow)
}

/// The connection falls silent and is dialled anew; the attempt.
fn again(b: &mut Bench, stuck: SubflowId, octets: u64, idle_s: u64) -> (DialId, Vec<Notice>) {
    b.stuck_after(stuck, octets, ms(idle_s * 1_000));
    let actions = b.actions();
    let dial = actions.iter().find_map(|a| match a {
        Action::Dial { dial, .. } => Some(*dial),
        _ => None,
    });
    (dial.unwrap(), notices(&actions))
}

#[test]
fn connections_that_fall_silent_before_64_kib_get_1220_then_536_octets_then_no_limit_again() {
    let (mut b, mut subflow) = one_path();
    for limit in [Some(1_220), Some(536), None, Some(1_220)] {
        let (dial, told) = again(&mut b, subflow, ENOUGH_BYTES - 1, 5);
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
        let notice = limit.map(|bytes| Notice::SmallerSegments { link: PATH, bytes });
        assert_eq!(told, Vec::from_iter(notice));
        subflow = b.joined(dial);
        // Longer than the pause between replacements.
        b.pass(ms(6_000));
    }
    assert_eq!(SEGMENT_BYTES, [1_220, 536]);
}

#[test]
fn two_handshakes_in_a_row_with_536_octets_alone_set_that_limit_until_the_network_changes() {
    let bytes = 536;
    let mut b = Bench::new(Config::new(vec![Link::path("own")]));
    let (mut dial, _) = b.dial();
    // An outage can look like this once.
    for (least, limit, is_new) in [
        (true, None, false),
        (false, None, false),
        (true, None, false),
        (true, Some(bytes), true),
        (false, Some(bytes), false),
    ] {
        if least {
            b.manager.handle_least_segments(b.now, PATH);
        }
        let told = notices(&b.actions());
        let notice = Notice::SmallerSegments { link: PATH, bytes };
        assert_eq!(told, Vec::from_iter(is_new.then_some(notice)));
        let subflow = b.joined(dial);
        b.pass(ms(60_000));
        b.closed(subflow);
        let actions = b.pass(ms(60_000));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
        let again = actions.iter().find_map(|a| match a {
            Action::Dial { dial, .. } => Some(*dial),
            _ => None,
        });
        dial = again.unwrap();
    }
    b.manager.handle_slept(b.now, ms(60_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}

#[test]
fn a_limit_with_which_more_arrives_is_kept_until_the_network_changes() {
    let (mut b, subflow) = one_path();
    let (dial, _) = again(&mut b, subflow, 3_000, 0);
    let subflow = b.joined(dial);
    b.pass(ms(60_000));
    let (dial, told) = again(&mut b, subflow, ENOUGH_BYTES, 0);
    assert_eq!(told, []);
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(1_220));
    b.joined(dial);
    b.pass(ms(60_000));
    b.manager.handle_slept(b.now, ms(60_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}

/// A proxy that gets no processor time looks like a path that drops large packets, until it answers
/// over the connection that there was.
#[test]
fn a_silent_connection_that_goes_on_takes_its_limit_back() {
    let (mut b, mut subflow) = one_path();
    for limit in [None, Some(1_220)] {
        let (dial, told) = again(&mut b, subflow, 3_000, 0);
        assert_eq!(told.len(), 1, "{told:?}");
        b.pass(ms(50));
        b.fact(subflow, false, None);
        assert_eq!(b.actions(), [Action::Abandon { dial }]);
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
        // The next time it does not go on.
        b.pass(ms(60_000));
        let (dial, _) = again(&mut b, subflow, 3_000, 0);
        subflow = b.joined(dial);
        b.pass(ms(60_000));
    }
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(536));
    // The same for a relay.
    let (mut b, relay) = one_relay();
    b.stuck_after(relay, 3_000, ms(0));
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(1_220));
    b.pass(ms(50));
    b.fact(relay, false, None);
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}

/// As well where the new connection is answered first. Meanwhile nothing has passed at all, of
/// whatever size.
#[test]
fn a_limit_is_taken_back_when_the_new_connection_is_answered_after_over_three_seconds() {
    for (wait, limit) in [(ms(3_000), Some(1_220)), (ms(3_001), None)] {
        let (mut b, subflow) = one_path();
        let (dial, _) = again(&mut b, subflow, 3_000, 0);
        b.pass(wait);
        b.joined(dial);
        b.pass(ms(1));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit, "{wait:?}");
    }
}

/// On some paths every handshake takes that long.
#[test]
fn a_limit_is_taken_back_once_in_a_row_where_all_connections_are_late() {
    let (mut b, mut subflow) = one_path();
    for (octets, limit) in [
        (3_000, None),
        (3_000, Some(1_220)),
        // With 1220 octets much has arrived: what follows is another matter.
        (ENOUGH_BYTES, Some(1_220)),
        (3_000, Some(1_220)),
        (3_000, Some(536)),
    ] {
        let (dial, _) = again(&mut b, subflow, octets, 0);
        b.pass(ms(3_001));
        subflow = b.joined(dial);
        b.pass(ms(60_000));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit, "{octets}");
    }
}

/// Such a handshake takes long.
#[test]
fn a_limit_that_two_handshakes_have_shown_is_kept_although_the_connection_is_late() {
    let (mut b, mut subflow) = one_path();
    for limit in [None, Some(536)] {
        let (dial, _) = again(&mut b, subflow, 3_000, 0);
        b.pass(ms(10_000));
        b.manager.handle_least_segments(b.now, PATH);
        subflow = b.joined(dial);
        b.pass(ms(60_000));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
    }
}

#[test]
fn what_a_nat_forgets_says_nothing_about_segments() {
    let (mut b, subflow) = one_path();
    let (_, told) = again(&mut b, subflow, 3_000, 10);
    assert_eq!(told, []);
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}

#[test]
fn a_path_that_the_proxy_gives_up_before_64_kib_is_joined_with_smaller_segments() {
    for (octets, limit) in [(ENOUGH_BYTES, None), (ENOUGH_BYTES - 1, Some(1_220))] {
        let (mut b, subflow) = one_path();
        b.manager.handle_subflow_cut(b.now, subflow, octets);
        b.closed(subflow);
        b.pass(ms(100));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
    }
}

/// A path at 192.0.2.1 with smaller segments.
fn limited() -> (Bench, SubflowId) {
    let mut b = Bench::new(Config::new(vec![Link::path("own")]));
    let (dial, _) = b.dial();
    let subflow = b.joined_from(dial, Some(address(1)));
    b.pass(ms(60_000));
    let (dial, _) = again(&mut b, subflow, 3_000, 0);
    let subflow = b.joined_from(dial, Some(address(1)));
    b.pass(ms(6_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(1_220));
    (b, subflow)
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[test]
fn another_network_has_no_limit_whatever_the_path_was_doing_when_it_changed() {
    let other = HashSet::from([address(9)]);
    // While its connection was up.
    let (mut b, _) = limited();
    b.manager.handle_addresses(b.now, &other);
    assert_eq!(b.manager.max_segment_bytes(PATH), None, "up");
    // While another one was made beside it, which is made anew from the new address.
    let (mut b, subflow) = limited();
    let (old, _) = again(&mut b, subflow, ENOUGH_BYTES, 0);
    b.manager.handle_addresses(b.now, &other);
    assert_eq!(b.manager.max_segment_bytes(PATH), None, "replaced");
    let actions = b.actions();
    assert!(
        actions.contains(&Action::Abandon { dial: old }),
        "{actions:?}"
    );
    assert!(
        matches!(actions[..], [.., Action::Dial { .. }]),
        "{actions:?}"
    );
    // After the silent one went on, while the other one, from another address, was dropped.
    let (mut b, subflow) = limited();
    let (new, _) = again(&mut b, subflow, ENOUGH_BYTES, 0);
    let new = b.unanswered_from(new, Some(address(2)));
    b.pass(ms(50));
    b.fact(subflow, false, None);
    b.manager
        .handle_addresses(b.now, &HashSet::from([address(2)]));
    let dropped = b.actions().into_iter().filter_map(|a| match a {
        Action::Drop { subflow, .. } => Some(subflow),
        _ => None,
    });
    assert_eq!(Vec::from_iter(dropped), [new, subflow]);
    assert_eq!(b.manager.max_segment_bytes(PATH), None, "resumed");
    // While it waited for another attempt.
    let (mut b, subflow) = limited();
    b.closed(subflow);
    b.manager.handle_addresses(b.now, &other);
    assert_eq!(b.manager.max_segment_bytes(PATH), None, "waiting");
    // Another link's address says nothing about it.
    let (mut b, subflow) = limited();
    b.closed(subflow);
    b.manager
        .handle_addresses(b.now, &HashSet::from([address(1)]));
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(1_220));
}

/// A relay of a pipe from 192.0.2.1 that is up, and has been for a minute.
fn one_relay() -> (Bench, SubflowId) {
    let mut b = Bench::new(Config::new(vec![Link::pipe("helper", HelperId(0))]));
    let (control, _) = b.dial();
    let own = Some(address(1));
    b.manager.handle_control_up(b.now, control, own);
    let subflow = relay(&mut b);
    b.pass(ms(60_000));
    (b, subflow)
}

/// A relay that is asked for, granted and joined.
fn relay(b: &mut Bench) -> SubflowId {
    let asked = b.actions();
    let dial = grant(b, &asked);
    b.joined_from(dial, Some(address(1)))
}

/// Grants the relay that is asked for by one of these actions; the attempt to join it.
fn grant(b: &mut Bench, actions: &[Action]) -> DialId {
    b.manager.handle_ticket(b.now, PATH, asked(actions));
    b.dial().0
}

/// The request for a relay among these actions.
fn asked(actions: &[Action]) -> RequestId {
    let request = actions.iter().find_map(|a| match a {
        Action::AskRelay { request, .. } => Some(*request),
        _ => None,
    });
    request.unwrap()
}

#[test]
fn relays_that_fall_silent_before_64_kib_are_asked_for_with_smaller_segments_on_both_hops() {
    let (mut b, mut subflow) = one_relay();
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
    for limit in [Some(1_220), Some(536), None] {
        b.stuck_after(subflow, ENOUGH_BYTES - 1, ms(0));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
        subflow = relay(&mut b);
        b.pass(ms(6_000));
    }
    // The proxy gives one up.
    let (mut b, subflow) = one_relay();
    b.manager.handle_subflow_cut(b.now, subflow, 3_000);
    b.closed(subflow);
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(1_220));
    // Another network, while the relay waits.
    b.manager
        .handle_addresses(b.now, &HashSet::from([address(9)]));
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}

/// As for an own path, where another handshake is made beside the one that stalls.
#[test]
fn a_relay_whose_handshake_has_stalled_is_asked_for_with_536_octets_and_twice_in_a_row_for_good() {
    let bytes = 536;
    let (mut b, mut subflow) = one_relay();
    let notice = Notice::SmallerSegments { link: PATH, bytes };
    // An outage can look like this once.
    for (stalls, limit, is_new) in [
        (true, Some(bytes), false),
        (false, None, false),
        (true, Some(bytes), false),
        (true, Some(bytes), true),
        (false, Some(bytes), false),
    ] {
        b.closed(subflow);
        let mut actions = b.pass(ms(4_000));
        if stalls {
            assert_ne!(b.manager.max_segment_bytes(PATH), Some(bytes));
            let dial = grant(&mut b, &actions);
            b.manager.handle_stalled_handshake(b.now, PATH);
            b.fails(dial);
            actions = b.pass(ms(4_000));
        }
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
        let dial = grant(&mut b, &actions);
        subflow = b.joined_from(dial, Some(address(1)));
        let told = notices(&b.actions());
        assert_eq!(told.contains(&notice), is_new, "{told:?}");
        b.pass(ms(60_000));
    }
    // Neither passes: the next attempt is one of the usual kind.
    let (mut b, subflow) = one_relay();
    b.closed(subflow);
    for limit in [None, Some(bytes), None] {
        let actions = b.pass(ms(4_000));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
        let dial = grant(&mut b, &actions);
        b.manager.handle_stalled_handshake(b.now, PATH);
        b.fails(dial);
    }
}

/// The attempt after a handshake that has stalled, which is one with 536 octets.
fn trial(b: &mut Bench, subflow: SubflowId) -> Vec<Action> {
    b.closed(subflow);
    let actions = b.pass(ms(4_000));
    let dial = grant(b, &actions);
    b.manager.handle_stalled_handshake(b.now, PATH);
    b.fails(dial);
    let actions = b.pass(ms(4_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(536));
    actions
}

#[test]
fn a_relay_with_536_octets_after_a_stall_that_falls_silent_is_followed_by_one_without_a_limit() {
    let (mut b, subflow) = one_relay();
    let actions = trial(&mut b, subflow);
    let dial = grant(&mut b, &actions);
    let subflow = b.joined_from(dial, Some(address(1)));
    b.pass(ms(6_000));
    b.stuck_after(subflow, 3_000, ms(0));
    let told = notices(&b.actions());
    assert_eq!(told, []);
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
    // It goes on: it still is the one with 536 octets.
    b.pass(ms(50));
    b.fact(subflow, false, None);
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(536));
}

#[test]
fn a_refusal_after_a_stall_leaves_536_octets_to_the_next_request() {
    let (mut b, subflow) = one_relay();
    let mut actions = trial(&mut b, subflow);
    for _ in 0..2 {
        let request = asked(&actions);
        let reason = "the proxy's name is not known yet";
        b.manager.handle_refusal(b.now, PATH, request, reason);
        actions = b.pass(ms(4_000));
        assert_eq!(b.manager.max_segment_bytes(PATH), Some(536));
    }
    // Its handshake passes, and the connection after it is one of the usual kind.
    let dial = grant(&mut b, &actions);
    let subflow = b.joined_from(dial, Some(address(1)));
    b.pass(ms(60_000));
    b.closed(subflow);
    b.pass(ms(4_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}
