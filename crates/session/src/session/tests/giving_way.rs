//! Links of which others than the session have a part.

use std::time::Duration;

use mpbond_units::BitRate;

use super::pair::{HopModel, Pair, at, hop, joined, paths, pattern};
use crate::*;

/// More than a link carries in a round trip.
const BUSY: u64 = 1 << 20;

fn first(octets: u64) -> OthersFirst {
    OthersFirst {
        octets,
        ..OthersFirst::default()
    }
}

fn run(p: &mut Pair, ms: u64) {
    p.run(p.now + Duration::from_millis(ms), |_| false);
}

#[test]
fn bulk_data_keeps_away_from_a_link_that_others_who_go_first_keep_busy() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.run(at(1_300), |p| p.opened().contains(&id));
    let carried = |p: &mut Pair, others: [u64; 2], len: usize| {
        let before = [direct, helper].map(|on| p.octets_down(on));
        p.server().set_others_first(direct, first(others[0]));
        p.server().set_others_first(helper, first(others[1]));
        p.server().write(id, pattern(len));
        run(p, 1_500);
        let after = [direct, helper].map(|on| p.octets_down(on));
        [0, 1].map(|i| after[i] - before[i])
    };
    let some = 50_000..600_000;
    let both = carried(&mut p, [0, 0], 500_000);
    assert!(both.iter().all(|octets| some.contains(octets)), "{both:?}");
    for others in [[0, BUSY], [BUSY, 0]] {
        let [direct, helper] = carried(&mut p, others, 500_000);
        let (used, other) = if others[0] == 0 {
            (direct, helper)
        } else {
            (helper, direct)
        };
        assert!(used > 440_000 && other < 60_000, "{used} {other}");
    }
    // Less than a round trip: the link would be idle.
    let both = carried(&mut p, [0, 100], 500_000);
    assert!(both.iter().all(|octets| some.contains(octets)), "{both:?}");
    // On all links: it waits, until the others have been through.
    let none = carried(&mut p, [BUSY, BUSY], 500_000);
    assert!(
        none.iter().all(|octets| (1..60_000).contains(octets)),
        "{none:?}"
    );
    assert!(p.server().unscheduled_bytes() > 380_000);
    for on in [direct, helper] {
        p.server().set_others_first(on, first(0));
    }
    run(&mut p, 1_500);
    assert_eq!(p.client_got[&id].0.len(), 2_500_000);
}

#[test]
fn delay_sensitive_data_waits_for_nobody() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let to = Destination::Addr("192.0.2.1:80".parse().unwrap());
    let opened = p.client.open(p.now, to, StreamClass::Interactive);
    let id = opened.expect("stream");
    p.run(at(1_300), |p| p.opened().contains(&id));
    for on in [direct, helper] {
        p.server().set_others_first(on, first(BUSY));
    }
    // More often than a subflow that gives way takes a record.
    for sent in 1..=5 {
        p.server().write(id, pattern(3_000));
        run(&mut p, 60);
        assert_eq!(p.client_got[&id].0.len(), sent * 3_000);
    }
}

#[test]
fn beside_delay_sensitive_data_bulk_data_gives_way_all_the_same() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let bulk = p.open();
    let to = Destination::Addr("192.0.2.1:80".parse().unwrap());
    let opened = p.client.open(p.now, to, StreamClass::Interactive);
    let interactive = opened.expect("stream");
    p.run(at(1_300), |p| p.opened().len() == 2);
    for on in [direct, helper] {
        p.server().set_others_first(on, first(BUSY));
    }
    p.server().write(bulk, pattern(1_000_000));
    p.server().write(interactive, pattern(4_000_000));
    run(&mut p, 1_000);
    let got = [bulk, interactive].map(|id| p.client_got[&id].0.len());
    // A record each half second, over each link; otherwise it would have an eighth.
    assert!((1..100_000).contains(&got[0]), "{got:?}");
    assert!(got[1] > 800_000, "{got:?}");
    // Nothing happens when others have been through.
    for on in [direct, helper] {
        p.server().set_others_first(on, first(0));
    }
    run(&mut p, 4_000);
    let got = [bulk, interactive].map(|id| p.client_got[&id].0.len());
    assert_eq!(got, [1_000_000, 4_000_000]);
}

#[test]
fn the_end_of_a_stream_waits_for_nobody() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let [ends, waits] = [p.open(), p.open()];
    p.run(at(1_300), |p| p.opened().len() == 2);
    p.server().write(ends, pattern(1_000));
    run(&mut p, 500);
    for on in [direct, helper] {
        p.server().set_others_first(on, first(BUSY));
    }
    // A record goes over each link, then none for half a second.
    p.server().write(waits, pattern(1_000_000));
    run(&mut p, 100);
    let before = p.client_got[&waits].0.len();
    p.server().finish(ends);
    run(&mut p, 100);
    assert_eq!(
        p.client_got[&ends],
        (pattern(1_000).to_vec(), Some(Read::Fin))
    );
    assert_eq!(p.client_got[&waits].0.len(), before);
    assert!(p.server().unscheduled_bytes() > 900_000);
}

#[test]
fn the_end_of_a_stream_is_found_behind_many_that_give_way() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let wait: Vec<_> = (0..80).map(|_| p.open()).collect();
    let ends = p.open();
    p.run(at(1_300), |p| p.opened().len() == 81);
    for on in [direct, helper] {
        p.server().set_others_first(on, first(BUSY));
    }
    for id in wait {
        p.server().write(id, pattern(100_000));
    }
    run(&mut p, 100);
    p.server().finish(ends);
    run(&mut p, 100);
    assert_eq!(p.client_got[&ends].1, Some(Read::Fin));
}

/// More than a record takes.
#[test]
fn the_ends_of_two_hundred_streams_wait_for_nobody() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let end: Vec<_> = (0..200).map(|_| p.open()).collect();
    let waits = p.open();
    p.run(at(1_300), |p| p.opened().len() == 201);
    for on in [direct, helper] {
        p.server().set_others_first(on, first(BUSY));
    }
    p.server().write(waits, pattern(1_000_000));
    run(&mut p, 100);
    let before = p.client_got[&waits].0.len();
    for id in &end {
        p.server().finish(*id);
    }
    run(&mut p, 100);
    let arrived = end.iter().filter(|id| {
        let got = p.client_got.get(*id);
        got.is_some_and(|got| got.1 == Some(Read::Fin))
    });
    assert_eq!(arrived.count(), 200);
    assert_eq!(p.client_got[&waits].0.len(), before);
}

#[test]
fn the_end_of_a_stream_goes_on_the_paths_of_the_stream() {
    for path in [0, 1] {
        let mut p = Pair::new(SessionConfig::default());
        let hops: [&[HopModel]; 2] = [&[hop(8.0, 25)], &[hop(5.0, 2), hop(10.0, 25)]];
        let [direct, helper] = [0, 1].map(|i| p.join_on(i, Role::Regular, hops[i as usize]));
        p.run(at(1_000), |_| false);
        p.announce_paths();
        let to = Destination::Addr("192.0.2.1:80".parse().unwrap());
        let treatment = Treatment {
            paths: paths(&[path]),
            ..StreamClass::Bulk.into()
        };
        let ends = p.client.open(p.now, to, treatment).expect("stream");
        let waits = p.open();
        p.run(at(1_300), |p| p.opened().len() == 2);
        for on in [direct, helper] {
            p.server().set_others_first(on, first(BUSY));
        }
        p.server().write(waits, pattern(1_000_000));
        run(&mut p, 100);
        p.server().finish(ends);
        run(&mut p, 60);
        assert_eq!(p.client_got[&ends].1, Some(Read::Fin), "path {path}");
    }
}

#[test]
fn bulk_data_that_gives_way_has_its_least_rate() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.run(at(1_300), |p| p.opened().contains(&id));
    for on in [direct, helper] {
        let least = BitRate::from_bytes_per_sec(40e3);
        p.server().set_others_first(
            on,
            OthersFirst {
                octets: BUSY,
                least,
                ..OthersFirst::default()
            },
        );
    }
    p.server().write(id, pattern(2_000_000));
    run(&mut p, 1_000);
    // What is kept of 1.3 s.
    let begun = p.client_got[&id].0.len();
    assert!((100_000..220_000).contains(&begun), "{begun}");
    run(&mut p, 5_000);
    let rate = (p.client_got[&id].0.len() - begun) / 5;
    assert!((74_000..82_000).contains(&rate), "{rate}");
}

#[test]
fn bytes_behind_the_peers_window_do_not_wait_for_a_link() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let [id, other] = [p.open(), p.open()];
    p.run(at(1_300), |p| p.opened().len() == 2);
    p.client_ignores.extend([id, other]);
    p.server().write(id, pattern(16_000_000));
    assert!([direct, helper].iter().all(|on| p.server().waits_for(*on)));
    run(&mut p, 12_000);
    // This one has a window of its own.
    p.server().write(other, pattern(16_000_000));
    run(&mut p, 12_000);
    assert!(p.server().unscheduled_bytes() > 0);
    assert!(![direct, helper].iter().any(|on| p.server().waits_for(*on)));
}

#[test]
fn a_session_says_what_it_has_on_a_link_and_what_is_demanded() {
    let (mut p, direct, _) = joined(SessionConfig::default());
    let id = p.open();
    p.run(at(1_300), |p| p.opened().contains(&id));
    let now = p.now;
    let own = p.server().own_rate(now).mbps();
    assert!((7.0..9.0).contains(&own), "of the direct path: {own}");
    assert!(p.server().octets_on_link(now, direct) < 3_000);
    assert!(!p.server().waits_for(direct));
    p.server().write(id, pattern(1_000_000));
    assert_eq!(p.server().demanded_bytes(), 1_000_000);
    assert!(p.server().waits_for(direct) && !p.server().waits_for(SubflowId(9)));
    run(&mut p, 300);
    let (now, waiting) = (p.now, p.server().unscheduled_bytes());
    let on_link = p.server().octets_on_link(now, direct);
    assert!(
        waiting > 0 && (20_000..200_000).contains(&on_link),
        "{waiting} {on_link}"
    );
    assert_eq!(p.server().demanded_bytes(), 1_000_000);
    p.server().reset(now, id, ResetCode::Cancelled);
    assert_eq!(p.server().demanded_bytes(), 1_000_000 - waiting);
    assert!(!p.server().waits_for(direct));
}

#[test]
fn a_hello_names_the_device_that_lends_its_link() {
    let mut client = Session::client(SessionConfig::default(), [1; 32]);
    let setup = SubflowSetup {
        helper: Some(HelperId(0)),
        lender: Some(DeviceLabel([7; 16])),
        ..SubflowSetup::default()
    };
    let id = client.add_subflow(at(1), setup);
    client.handle_room(id, 10_000);
    let mut record = Vec::new();
    client.poll_transmit(at(1), &mut record).expect("hello");
    let (hello, _) = parse_hello(record.into()).expect("hello");
    assert!(matches!(
        hello,
        Hello::Capable { path, .. } if path.lender == Some(DeviceLabel([7; 16]))
    ));
}
