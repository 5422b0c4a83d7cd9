//! Several pipes to one helper, of which the best one is used (ADR 0040).

use mpbond_manager::{
    Action, Config, Link, LinkId, Manager, Notice, PIPES_EVERY, PipeFacts, PipeUse, Target, Why,
};
use mpbond_price::{PipeRadios, radio};
use mpbond_session::{HelperId, Role, SubflowId};

use crate::bench::{Bench, ms, notices};

const WIFI: LinkId = LinkId(0);
const BLUETOOTH: LinkId = LinkId(1);

fn pipe(name: &str, place: usize) -> Link {
    Link {
        place: Some(place),
        ..Link::pipe(name, HelperId(0))
    }
}

/// A manager with two pipes to one helper, whose relays work.
fn both() -> (Bench, [SubflowId; 2]) {
    let mut b = Bench::new(Config::new(vec![pipe("wifi", 0), pipe("bluetooth", 1)]));
    let mut subflows = Vec::new();
    let dials = b.actions();
    for dial in dials {
        match dial {
            Action::Dial { dial, .. } => b.manager.handle_control_up(b.now, dial, None),
            Action::Roles => continue,
            other => panic!("{other:?}"),
        }
        subflows.push(relayed(&mut b));
    }
    let subflows = [subflows[0], subflows[1]];
    (b, subflows)
}

/// The relay that is asked for is there.
fn relayed(b: &mut Bench) -> SubflowId {
    let asks = b.actions();
    let ask = asks.iter().find_map(|action| match action {
        Action::AskRelay { link, request, .. } => Some((*link, *request)),
        _ => None,
    });
    let (link, request) = ask.unwrap();
    b.manager.handle_ticket(b.now, link, request);
    let (dial, _) = b.dial();
    b.joined(dial)
}

fn role(manager: &Manager, link: LinkId) -> Role {
    manager.setup(&Target::Proxy { link }).role
}

fn facts(b: &Bench, link: LinkId, subflow: SubflowId, bytes: u64, heard: bool) -> PipeFacts {
    PipeFacts {
        link,
        subflow,
        carrier: true,
        bytes: [bytes, 0],
        octets: bytes,
        waiting_bytes: 0,
        heard: match heard {
            true => b.now,
            false => b.now.before(ms(5_000)),
        },
        rtt: ms(40),
        signal: None,
    }
}

#[test]
fn the_first_one_is_used_and_the_others_join_as_backups() {
    let (mut b, _) = both();
    assert!(b.manager.chooses_pipes());
    assert_eq!(role(&b.manager, WIFI), Role::Regular);
    assert_eq!(role(&b.manager, BLUETOOTH), Role::Backup);
    assert_eq!(notices(&b.actions()), []);
    let choice = b.manager.pipe_choice(BLUETOOTH).unwrap();
    assert_eq!((choice.state, choice.why), (PipeUse::Standby, Why::First));
}

#[test]
fn another_one_takes_over_at_once_when_the_connection_of_the_used_one_is_gone() {
    let (mut b, [wifi, _]) = both();
    b.actions();
    b.closed(wifi);
    let why = Why::Failed(WIFI);
    let chosen = Notice::PipeChosen {
        link: BLUETOOTH,
        why,
    };
    let actions = b.actions();
    assert_eq!(actions, [Action::Roles, Action::Tell(chosen)]);
    assert!(b.manager.is_standby(WIFI) && !b.manager.is_standby(BLUETOOTH));
    // It comes back as a backup. As nothing moves, it is used again at once.
    assert_eq!(role(&b.manager, WIFI), Role::Backup);
    let asked = b.pass(ms(100));
    let [Action::AskRelay { request, .. }] = asked[..] else {
        panic!("{asked:?}");
    };
    b.manager.handle_ticket(b.now, WIFI, request);
    let (dial, _) = b.dial();
    b.joined(dial);
    let link = WIFI;
    let why = Why::Cheaper(BLUETOOTH);
    let back = Notice::PipeChosen { link, why };
    assert_eq!(b.actions(), [Action::Roles, Action::Tell(back)]);
    assert_eq!(role(&b.manager, WIFI), Role::Regular);
}

#[test]
fn a_silent_one_is_replaced_when_another_one_answers() {
    let (mut b, [wifi, bluetooth]) = both();
    b.actions();
    let mut bytes = 0;
    let mut seen = Vec::new();
    for look in 0..20 {
        b.now += PIPES_EVERY;
        let works = look < 5;
        bytes += u64::from(works) * 10_000;
        let facts = [
            facts(&b, WIFI, wifi, bytes, works),
            // It is heard when it is asked.
            facts(&b, BLUETOOTH, bluetooth, 0, seen.contains(&bluetooth)),
        ];
        b.manager.handle_pipes(b.now, &facts);
        let actions = b.actions();
        for action in &actions {
            if let Action::Ask { subflow } = action {
                assert!(look >= 5, "{look}");
                seen.push(*subflow);
            }
        }
        if notices(&actions).is_empty() {
            continue;
        }
        // The roles change before the subflow goes, whose bytes go on over the other one.
        let why = Why::Failed(WIFI);
        let chosen = Notice::PipeChosen {
            link: BLUETOOTH,
            why,
        };
        assert_eq!(actions[..2], [Action::Roles, Action::Tell(chosen)]);
        assert!(
            matches!(actions[2], Action::Drop { subflow, .. } if subflow == wifi),
            "{actions:?}"
        );
        assert!(matches!(actions[3], Action::AskRelay { link: WIFI, .. }));
        assert_eq!(seen, [wifi, bluetooth]);
        return;
    }
    panic!("{seen:?}");
}

#[test]
fn a_configuration_with_other_radios_drops_and_dials_nothing() {
    let (mut b, _) = both();
    b.actions();
    for (link, name) in [(WIFI, "watch-wifi"), (BLUETOOTH, "watch-bt")] {
        let near = radio(name).unwrap();
        let radios = PipeRadios { near, far: None };
        b.manager.handle_radios(b.now, link, Some(radios));
    }
    let actions = b.actions();
    assert!(actions.iter().all(|a| *a == Action::Roles), "{actions:?}");
    assert!(b.manager.is_standby(WIFI) && !b.manager.is_standby(BLUETOOTH));
    let why = b.manager.pipe_choice(BLUETOOTH).unwrap().why;
    assert_eq!(why, Why::FewestJoules);
}

#[test]
fn a_configuration_without_the_used_one_uses_another() {
    let (mut b, _) = both();
    b.actions();
    b.manager.handle_link_removed(b.now, WIFI);
    assert!(!b.manager.chooses_pipes());
    assert!(!b.manager.is_standby(BLUETOOTH));
    assert!(b.actions().contains(&Action::Roles));
    let third = b.manager.handle_link_added(b.now, pipe("usb", 0));
    b.actions();
    assert!(b.manager.chooses_pipes() && b.manager.is_standby(third));
    // Those of other helpers, own paths and backups are no choice.
    let other = b.manager.handle_link_added(
        b.now,
        Link {
            backup: true,
            ..pipe("slow", 2)
        },
    );
    assert_eq!(b.manager.pipe_choice(other), None);
}
