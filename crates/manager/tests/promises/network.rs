//! Changes of the host's own addresses, and its sleep.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use mpbond_manager::{Action, Config, LONG_SLEEP, Link, LinkId, Notice, Target};
use mpbond_session::{HelperId, SubflowId};

use crate::bench::{Bench, ms, notices};

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// Two own paths, from 192.0.2.1 and .2.
fn two_paths() -> Bench {
    let mut b = Bench::new(Config::new(vec![Link::path("one"), Link::path("two")]));
    for (action, n) in b.actions().into_iter().zip(1..) {
        let Action::Dial { dial, .. } = action else {
            panic!("{action:?}");
        };
        let id = SubflowId(u32::from(n));
        b.manager.handle_dialled(b.now, dial, id, Some(address(n)));
        b.manager.handle_established(b.now);
        b.manager.handle_subflow_up(b.now, id);
    }
    b.pass(ms(3_000));
    b
}

fn dropped(actions: &[Action]) -> Vec<SubflowId> {
    let drop = |a: &Action| match a {
        Action::Drop { subflow, .. } => Some(*subflow),
        _ => None,
    };
    actions.iter().filter_map(drop).collect()
}

fn dialled(actions: &[Action]) -> Vec<Target> {
    let dial = |a: &Action| match a {
        Action::Dial { target, .. } => Some(*target),
        _ => None,
    };
    actions.iter().filter_map(dial).collect()
}

#[test]
fn a_path_whose_address_is_gone_is_joined_anew_at_once() {
    let mut b = two_paths();
    let own = HashSet::from([address(2), address(9)]);
    b.manager.handle_addresses(b.now, &own);
    let actions = b.actions();
    assert_eq!(dropped(&actions), [SubflowId(1)]);
    assert_eq!(dialled(&actions), [Target::Proxy { link: LinkId(0) }]);
    // The driver's own word on it, later, changes nothing.
    b.closed(SubflowId(1));
    assert_eq!(b.actions(), []);
}

#[test]
fn any_change_of_addresses_ends_all_waiting() {
    let mut b = Bench::new(Config::new(vec![Link::path("own")]));
    let (mut dial, _) = b.dial();
    b.pass(ms(2_000));
    for pause in [100, 200, 400, 800] {
        b.fails(dial);
        b.actions();
        let [Action::Dial { dial: next, .. }] = b.due_after(ms(pause))[..] else {
            panic!("nothing is dialled");
        };
        dial = next;
    }
    b.fails(dial);
    b.actions();
    b.manager.handle_addresses(b.now, &HashSet::new());
    let (dial, _) = b.dial();
    b.fails(dial);
    b.actions();
    assert_eq!(dialled(&b.due_after(ms(100))).len(), 1);
}

#[test]
fn after_a_long_sleep_every_path_is_joined_anew_at_once() {
    let mut b = two_paths();
    b.manager
        .handle_slept(b.now, LONG_SLEEP - Duration::from_nanos(1));
    assert_eq!(b.actions(), []);
    assert_eq!(LONG_SLEEP, Duration::from_secs(10));
    b.manager.handle_slept(b.now, LONG_SLEEP);
    let actions = b.actions();
    assert_eq!(notices(&actions), [Notice::Slept(LONG_SLEEP)]);
    assert_eq!(dropped(&actions), [SubflowId(1), SubflowId(2)]);
    assert_eq!(dialled(&actions).len(), 2);
}

/// A ticket would not arrive over a connection from an address that is gone.
#[test]
fn a_control_connection_whose_address_is_gone_is_replaced_at_once() {
    let mut b = Bench::new(Config::new(vec![Link::pipe("phone", HelperId(0))]));
    let (control, _) = b.dial();
    b.manager
        .handle_control_up(b.now, control, Some(address(1)));
    let (request, _) = b.ask();
    b.manager.handle_ticket(b.now, LinkId(0), request);
    let (relay, _) = b.dial();
    let subflow = b.joined(relay);
    b.manager.handle_addresses(b.now, &HashSet::new());
    let actions = b.actions();
    assert_eq!(dropped(&actions), [subflow]);
    assert!(actions.contains(&Action::HangUp { link: LinkId(0) }));
    assert_eq!(dialled(&actions), [Target::Control { link: LinkId(0) }]);
}
