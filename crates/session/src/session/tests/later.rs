//! A peer of a later version: its frames have optional fields, and its records frames, that this
//! version does not know.

use std::time::Duration;

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::pair::{Pair, hop, pattern};
use crate::handshake::parse_hello;
use crate::session::{Event, Read, Session};
use crate::wire::later::{Unknown, with_fields};
use crate::wire::{Frame, FrameType, MAX_RECORD_BYTES};
use crate::*;

const NOW: Timestamp = Timestamp::from_millis(5);

/// A frame of an extension, which elicits an ACK when the highest bit of its number is set.
fn extension(number: u8) -> Vec<u8> {
    let mut out = Vec::new();
    Frame::Extension {
        kind: FrameType(number),
        body: Bytes::from_static(b"of a later version"),
    }
    .encode(&mut out);
    out
}

/// The record as a later version would write it, if that fits.
pub(super) fn of_later_version(record: &Bytes) -> Bytes {
    let unknown = [
        Unknown {
            id: 0x3c,
            value: vec![1, 2, 3],
        },
        Unknown {
            id: 0x5000,
            value: vec![],
        },
    ];
    let mut rest = record.clone();
    let mut longer = Vec::new();
    let mut at = 0;
    while !rest.is_empty() {
        let frame = Frame::parse(&mut rest).expect("a frame of ours");
        let end = record.len() - rest.len();
        let octets = &record[at..end];
        at = end;
        match &frame {
            Frame::Data { .. } => longer.extend_from_slice(octets),
            _ => longer.extend(with_fields(octets, &unknown)),
        }
        // Nothing stands before the answer to a hello, which is its record's first frame.
        longer.extend(extension(0x41));
        longer.extend(extension(0xc1));
    }
    match longer.len() <= MAX_RECORD_BYTES {
        true => longer.into(),
        false => record.clone(),
    }
}

/// Up and down, over two paths of which one dies: all arrives, and all is acknowledged.
#[test]
fn a_session_with_a_later_peer_works() {
    for later_client in [true, false] {
        let mut p = Pair::new(SessionConfig::default());
        p.later = [later_client, !later_client];
        let first = p.join(&[hop(8.0, 10)]);
        p.join(&[hop(20.0, 5), hop(10.0, 20)]);
        let up = pattern(300_000);
        let down = pattern(700_000);
        let id = p.open();
        p.client.write(id, up.clone());
        p.client.finish(id);
        let (mut answered, mut killed) = (false, false);
        p.run(Timestamp::from_millis(30_000), |p| {
            if !answered && !p.opened().is_empty() {
                answered = true;
                p.server().write(id, down.clone());
                p.server().finish(id);
            }
            let got = p.client_got.get(&id).map_or(0, |(bytes, _)| bytes.len());
            if !killed && got > 300_000 {
                killed = true;
                p.kill(first);
            }
            let closed = |e: &Event| matches!(e, Event::StreamClosed(_));
            p.client_events.iter().any(closed) && p.server_events.iter().any(closed)
        });
        assert!(killed);
        assert!(p.server_errors.is_empty(), "{:?}", p.server_errors);
        assert_eq!(p.client_got[&id], (down.to_vec(), Some(Read::Fin)));
        assert_eq!(p.server_got[&id], (up.to_vec(), Some(Read::Fin)));
        // Streams close when their last bytes are acknowledged.
        for session in [&p.client, p.server.as_ref().expect("a session")] {
            assert_eq!(session.held_bytes(), 0);
            let announced = session.peer_capabilities().expect("announced");
            assert!(announced.frame_types.contains(FrameType(0x10)));
        }
    }
}

/// A proxy with one subflow, after the hello.
fn server() -> (Session, SubflowId) {
    let mut client = Session::client(SessionConfig::default(), [3; 32]);
    let id = client.add_subflow(NOW, SubflowSetup::default());
    client.handle_room(id, 1 << 20);
    let mut out = Vec::new();
    client.poll_transmit(NOW, &mut out).expect("hello");
    let (hello, _) = parse_hello(out.into()).expect("hello");
    let config = SessionConfig::default();
    let mut server = Session::server(config, SessionId([7; 16]), [2; 32], &hello);
    let setup = SubflowSetup {
        rx_octets: 1_000,
        ..SubflowSetup::default()
    };
    let id = server.accept_subflow(NOW, setup, &hello).expect("accepted");
    server.handle_room(id, 1 << 20);
    let mut answer = Vec::new();
    server.poll_transmit(NOW, &mut answer).expect("answer");
    (server, id)
}

/// The counts that a session acknowledges within a second.
fn acknowledged(session: &mut Session) -> Vec<u64> {
    let mut counts = Vec::new();
    for ms in 0..1_000 {
        let now = NOW + Duration::from_millis(ms);
        session.handle_timeout(now);
        let mut out = Vec::new();
        while session.poll_transmit(now, &mut out).is_some() {
            let mut record = Bytes::from(std::mem::take(&mut out));
            while !record.is_empty() {
                if let Frame::Ack { counts: c, .. } = Frame::parse(&mut record).expect("frame") {
                    counts.extend(c.iter().map(|c| c.count));
                }
            }
        }
    }
    counts
}

#[test]
fn records_of_unknown_frames_count_and_are_acknowledged_where_their_bit_asks_for_it() {
    let (mut s, id) = server();
    let silent = [extension(0x40), extension(0x7f)].concat();
    s.handle_record(NOW, id, silent.into(), 1_100)
        .expect("skipped");
    assert_eq!(acknowledged(&mut s), [0; 0]);
    let eliciting = [extension(0x40), extension(0x8f)].concat();
    s.handle_record(NOW, id, eliciting.into(), 1_250)
        .expect("skipped");
    // Octets of the record that elicited nothing are part of the count.
    assert_eq!(acknowledged(&mut s), [1_250]);
}

#[test]
fn unknown_frames_below_0x40_close_the_subflow() {
    let (mut s, id) = server();
    let record = Bytes::from_static(&[0x3f, 0]);
    let refused = s
        .handle_record(NOW, id, record, 1_100)
        .expect_err("unknown");
    assert_eq!(refused.code, CloseCode::FrameEncoding);
}

#[test]
fn a_hello_begins_a_subflow_and_its_answer_comes_before_extensions() {
    let first = parse_hello(extension(0x8f).into()).expect_err("no hello");
    assert_eq!(first.code, CloseCode::UnexpectedFrame);
    let mut client = Session::client(SessionConfig::default(), [3; 32]);
    let id = client.add_subflow(NOW, SubflowSetup::default());
    client.handle_room(id, 1 << 20);
    let mut out = Vec::new();
    client.poll_transmit(NOW, &mut out).expect("hello");
    let early = client.handle_record(NOW, id, extension(0x8f).into(), 100);
    assert_eq!(early.expect_err("early").code, CloseCode::UnexpectedFrame);
}

#[test]
fn both_ends_learn_what_the_other_can_do() {
    let families = Families {
        ipv4: true,
        ipv6: false,
    };
    let mut p = Pair::new(SessionConfig {
        families: Some(families),
        answers_look_ups: true,
        ..SessionConfig::default()
    });
    // Pair gives both ends one configuration; a primary announces no families.
    p.client = Session::client(SessionConfig::default(), [1; 32]);
    assert_eq!(p.client.peer_capabilities(), None);
    p.join(&[hop(8.0, 10)]);
    p.run(Timestamp::from_millis(1_000), |p| p.client.is_established());
    let of_the_proxy = Capabilities {
        answers_look_ups: true,
        ..Capabilities::of_this_version(Some(families))
    };
    assert_eq!(p.client.peer_capabilities(), Some(&of_the_proxy));
    let of_the_primary = Capabilities::of_this_version(None);
    assert_eq!(p.server().peer_capabilities(), Some(&of_the_primary));
}
