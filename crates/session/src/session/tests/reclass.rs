//! Classes that change while their streams are open.

use bytes::Bytes;

use super::hostile::{NOW, record, server};
use super::pair::{Pair, at, joined};
use crate::wire::Frame;
use crate::*;

fn class_at_server(p: &mut Pair, id: StreamId) -> StreamClass {
    let streams = p.server().streams();
    let found = streams.iter().find(|s| s.id == id);
    found.expect("open").class
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
    let change = |change, class| Frame::Class {
        stream,
        change,
        class,
    };
    let open = Frame::Open {
        stream,
        class: StreamClass::Bulk,
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
    assert_eq!(p.client.stats().bytes_in, 400_000);
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
        class,
    }]);
    let refused = p.client.handle_record(p.now, first, change, octets);
    let error = refused.expect_err("CLASS is for primaries");
    assert_eq!(error.code, CloseCode::UnexpectedFrame);
    assert_eq!(p.client.streams()[0].class, StreamClass::Bulk);
}
