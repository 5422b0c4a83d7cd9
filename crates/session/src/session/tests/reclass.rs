//! Treatments that change while their streams are open.

use bytes::Bytes;

use super::hostile::{NOW, record, server};
use super::pair::{Pair, at, hop, joined, number, paths};
use crate::wire::Frame;
use crate::*;

fn at_server(p: &mut Pair, id: StreamId) -> StreamStats {
    let streams = p.server().streams();
    let found = streams.into_iter().find(|s| s.id == id);
    found.expect("open")
}

fn class_at_server(p: &mut Pair, id: StreamId) -> StreamClass {
    at_server(p, id).class
}

fn treatment_at_server(p: &mut Pair, id: StreamId) -> Treatment {
    let stream = at_server(p, id);
    Treatment {
        class: stream.class,
        priority: stream.priority,
        paths: stream.paths,
    }
}

#[test]
fn the_peer_learns_a_change_of_the_class() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = p.open();
    // Before OPEN is written it has the class.
    p.client.set_class(id, StreamClass::Interactive);
    p.run(at(1_100), |_| false);
    assert_eq!(class_at_server(&mut p, id), StreamClass::Interactive);
    p.client.set_class(id, StreamClass::Background);
    p.client.set_class(id, StreamClass::Bulk);
    p.client.set_class(id, StreamClass::Realtime);
    p.run(at(1_200), |_| false);
    assert_eq!(class_at_server(&mut p, id), StreamClass::Realtime);
}

#[test]
fn a_change_that_is_lost_with_its_subflow_is_sent_again() {
    let (mut p, first, _) = joined(SessionConfig::default());
    let id = p.open();
    p.run(at(1_100), |_| false);
    p.client.set_class(id, StreamClass::Background);
    p.run(at(1_101), |_| false);
    p.kill(first);
    p.run(at(3_000), |_| false);
    assert_eq!(class_at_server(&mut p, id), StreamClass::Background);
}

#[test]
fn a_change_while_an_open_that_has_arrived_waits_to_be_written_again_is_sent() {
    let (mut p, first, second) = joined(SessionConfig::default());
    let octets = [first, second].map(|subflow| p.octets_up(subflow));
    let id = p.open();
    p.run(at(2_000), |p| p.opened().contains(&id));
    let carried = [first, second].map(|subflow| p.octets_up(subflow));
    let carrier = if carried[0] > octets[0] {
        first
    } else {
        second
    };
    // The server has OPEN; the client does not know that.
    p.kill(carrier);
    p.client.set_class(id, StreamClass::Background);
    p.run(at(3_000), |_| false);
    assert_eq!(class_at_server(&mut p, id), StreamClass::Background);
    assert_eq!(p.client.streams()[0].class, StreamClass::Background);
}

#[test]
fn changes_that_overtake_open_or_each_other_are_taken_in_their_order() {
    let (mut s, on) = server();
    let stream = StreamId(0);
    let change = |change, class: StreamClass| Frame::Class {
        stream,
        change,
        treatment: class.into(),
    };
    let open = Frame::Open {
        stream,
        treatment: StreamClass::Bulk.into(),
        max_stream_data: 10,
        destination: Destination::Addr("192.0.2.1:80".parse().expect("address")),
        confirm: false,
    };
    let mut octets = 500;
    let mut take = |s: &mut Session, frame| {
        octets += 100;
        s.handle_record(NOW, on, record(&[frame]), octets)
            .expect("accepted");
        s.streams()[0].class
    };
    use StreamClass::{Background, Interactive, Realtime};
    assert_eq!(take(&mut s, change(2, Background)), Background);
    assert_eq!(take(&mut s, open), Background);
    assert_eq!(take(&mut s, change(1, Interactive)), Background);
    assert_eq!(take(&mut s, change(2, Interactive)), Background);
    assert_eq!(take(&mut s, change(3, Realtime)), Realtime);
}

#[test]
fn an_open_behind_a_change_does_not_widen_the_set_of_paths() {
    let (mut s, on) = server();
    let stream = StreamId(0);
    let restricted = Treatment {
        class: StreamClass::Background,
        priority: 2,
        paths: paths(&[1]),
    };
    let change = Frame::Class {
        stream,
        change: 1,
        treatment: restricted,
    };
    let open = |treatment| Frame::Open {
        stream,
        treatment,
        max_stream_data: 10,
        destination: Destination::Addr("192.0.2.1:80".parse().expect("address")),
        confirm: false,
    };
    let late = open(StreamClass::Bulk.into());
    for (n, frame) in [change, late.clone(), late].into_iter().enumerate() {
        let octets = 600 + 100 * n as u64;
        s.handle_record(NOW, on, record(&[frame]), octets)
            .expect("accepted");
        let stats = s.streams().remove(0);
        assert_eq!((stats.priority, stats.paths), (2, paths(&[1])), "{n}");
    }
}

/// A session on two numbered paths, whose proxy announces that it obeys sets of them.
fn numbered() -> (Pair, [SubflowId; 2]) {
    let mut p = Pair::new(SessionConfig::default());
    let subflows = [0, 1].map(|path| p.join_on(path, Role::Regular, &[hop(8.0, 25)]));
    p.run(at(1_000), |_| false);
    p.announce_paths();
    (p, subflows)
}

#[test]
fn a_hello_has_the_number_of_its_path() {
    let (mut p, subflows) = numbered();
    for (n, id) in (0..).zip(subflows) {
        let subflow = p.server().subflows.by_id(id).expect("joined");
        assert_eq!(subflow.path, Some(number(n)));
    }
    let unnumbered = p.join(&[hop(8.0, 25)]);
    p.run(at(1_500), |_| false);
    let subflow = p.server().subflows.by_id(unnumbered).expect("joined");
    assert_eq!(subflow.path, None);
}

#[test]
fn the_peer_learns_the_treatment_and_each_change_of_it() {
    let (mut p, subflows) = numbered();
    let first = Treatment {
        class: StreamClass::Interactive,
        priority: 7,
        paths: paths(&[0, 1]),
    };
    let to = || Destination::Addr("192.0.2.1:80".parse().expect("address"));
    let too_high = Treatment {
        priority: 200,
        ..first
    };
    let id = p.client.open(p.now, to(), too_high).expect("open");
    p.run(at(1_100), |_| false);
    assert_eq!(treatment_at_server(&mut p, id), first);
    let second = Treatment {
        priority: 3,
        paths: paths(&[1]),
        ..first
    };
    let octets = subflows.map(|subflow| p.octets_up(subflow));
    p.client.set_treatment(id, second).expect("kept");
    p.run(at(1_101), |_| false);
    let carries = |n: &usize| p.octets_up(subflows[*n]) > octets[*n];
    let carrier = (0..2).find(carries).expect("sent");
    p.kill(subflows[carrier]);
    assert_eq!(treatment_at_server(&mut p, id), first);
    p.run(at(3_000), |_| false);
    assert_eq!(treatment_at_server(&mut p, id), second);
    // The class alone.
    p.client.set_class(id, StreamClass::Bulk);
    p.run(at(3_100), |_| false);
    let class = StreamClass::Bulk;
    assert_eq!(
        treatment_at_server(&mut p, id),
        Treatment { class, ..second }
    );
    p.client.set_treatment(id, class.into()).expect("kept");
    p.run(at(3_200), |_| false);
    assert_eq!(treatment_at_server(&mut p, id), class.into());
}

#[test]
fn a_proxy_that_does_not_announce_that_it_obeys_paths_is_sent_no_set() {
    let (mut p, ..) = joined(SessionConfig::default());
    let class = StreamClass::Bulk;
    let restricted = Treatment {
        paths: paths(&[0]),
        ..class.into()
    };
    let to = || Destination::Addr("192.0.2.1:80".parse().expect("address"));
    let refused = OpenError::Treatment(TreatmentError::NoPathSets);
    assert_eq!(p.client.open(p.now, to(), restricted), Err(refused));
    assert_eq!(
        p.client.open_confirmed(p.now, to(), restricted),
        Err(refused)
    );
    assert_eq!(p.client.stats().streams_total, 0);
    let id = p.open();
    let changed = p.client.set_treatment(id, restricted);
    assert_eq!(changed, Err(TreatmentError::NoPathSets));
    assert_eq!(p.client.streams()[0].paths, PathSet::ALL);
}

/// A hostile primary cannot have a proxy keep sets that it has not offered to keep.
#[test]
fn a_proxy_that_does_not_obey_paths_ignores_sets() {
    let (mut p, ..) = numbered();
    p.server().config.obeys_paths = false;
    let restricted = Treatment {
        paths: paths(&[0]),
        ..StreamClass::Bulk.into()
    };
    let to = Destination::Addr("192.0.2.1:80".parse().expect("address"));
    let opened = p.client.open(p.now, to, restricted).expect("sent");
    p.run(at(1_100), |_| false);
    assert_eq!(at_server(&mut p, opened).paths, PathSet::ALL);
    let changed = p.open();
    p.client.set_treatment(changed, restricted).expect("sent");
    p.run(at(1_200), |_| false);
    assert_eq!(at_server(&mut p, changed).paths, PathSet::ALL);
}

/// What waits goes on in its new place.
#[test]
fn bytes_that_wait_follow_their_stream_into_its_class() {
    let (mut p, ..) = joined(SessionConfig::default());
    let (first, second) = (p.open(), p.open());
    p.run(at(1_100), |_| false);
    let now = p.now;
    for id in [first, second] {
        p.server().write(id, Bytes::from(vec![0; 200_000]));
    }
    p.client.set_class(first, StreamClass::Background);
    p.run(at(20_000), |p| p.client.stats().bytes_in >= 400_000);
    assert!(p.now < now + std::time::Duration::from_secs(10));
    // The end may be hedged.
    let most = 400_000 + (32 << 10);
    assert!((400_000..=most).contains(&p.client.stats().bytes_in));
}

#[test]
fn a_proxy_changes_no_class() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = p.open();
    p.run(at(1_100), |_| false);
    p.server().set_class(id, StreamClass::Background);
    p.run(at(1_300), |_| false);
    let class = p.client.streams()[0].class;
    assert_eq!(class, StreamClass::Bulk);
    assert_eq!(class_at_server(&mut p, id), StreamClass::Bulk);
    assert!(p.links.iter().all(|link| link.alive));
    assert!(p.server_errors.is_empty(), "{:?}", p.server_errors);
}

#[test]
fn class_from_a_proxy_closes_the_subflow() {
    let (mut p, first, _) = joined(SessionConfig::default());
    let stream = p.open();
    p.run(at(1_100), |_| false);
    let octets = p.octets_down(first) + 100;
    let class = StreamClass::Background;
    let change = record(&[Frame::Class {
        stream,
        change: 1,
        treatment: class.into(),
    }]);
    let refused = p.client.handle_record(p.now, first, change, octets);
    let error = refused.expect_err("CLASS is for primaries");
    assert_eq!(error.code, CloseCode::UnexpectedFrame);
    assert_eq!(p.client.streams()[0].class, StreamClass::Bulk);
}
