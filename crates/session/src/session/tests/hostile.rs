//! Peers that break the rules.

use bytes::Bytes;
use mpbond_units::Timestamp;
use proptest::prelude::*;

use crate::handshake::parse_hello;
use crate::session::Session;
use crate::session::timer::Timer;
use crate::wire::{AckCount, Frame, Secret};
use crate::*;

pub(super) const NOW: Timestamp = Timestamp::from_millis(5);

/// A server with one subflow, whose client is in our hands.
pub(super) fn server() -> (Session, SubflowId) {
    let mut client = Session::client(SessionConfig::default(), [3; 32]);
    let id = client.add_subflow(NOW, SubflowSetup::default());
    client.handle_room(id, 1 << 20);
    let mut out = Vec::new();
    client.poll_transmit(NOW, &mut out).expect("hello");
    let (hello, _) = parse_hello(Bytes::from(out)).expect("hello");
    let config = SessionConfig {
        obeys_paths: true,
        ..SessionConfig::default()
    };
    let mut server = Session::server(config, SessionId([9; 16]), [4; 32], &hello);
    server
        .accept_subflow(NOW, SubflowSetup::default(), &hello)
        .expect("accepted");
    server.handle_room(id, 1 << 20);
    let mut out = Vec::new();
    server.poll_transmit(NOW, &mut out).expect("answer");
    (server, id)
}

pub(super) fn record(frames: &[Frame]) -> Bytes {
    let mut out = Vec::new();
    frames.iter().for_each(|f| f.encode(&mut out));
    out.into()
}

fn data(stream: u64, offset: u64, len: usize, fin: bool) -> Frame {
    Frame::Data {
        stream: StreamId(stream),
        offset,
        fin,
        chunk_end: false,
        bytes: vec![7; len].into(),
    }
}

#[test]
fn an_open_that_comes_again_may_raise_the_window() {
    let (mut s, id) = server();
    let open = |max_stream_data| {
        record(&[Frame::Open {
            stream: StreamId(0),
            treatment: StreamClass::Bulk.into(),
            max_stream_data,
            destination: Destination::Name {
                host: "x".into(),
                port: 1,
            },
            confirm: false,
        }])
    };
    s.handle_record(NOW, id, open(10), 500).expect("accepted");
    s.write(StreamId(0), vec![7; 30].into());
    let sent = |s: &mut Session| {
        while s.poll_transmit(NOW, &mut Vec::new()).is_some() {}
        s.stats().bytes_out
    };
    assert_eq!(sent(&mut s), 10);
    s.handle_record(NOW, id, open(25), 600).expect("accepted");
    assert_eq!(sent(&mut s), 25);
    // It dials once.
    let opened = std::iter::from_fn(|| s.poll_event())
        .filter(|e| matches!(e, crate::Event::StreamOpened { .. }));
    assert_eq!(opened.count(), 1);
}

#[test]
fn every_misbehaviour_has_its_code() {
    let cases = [
        (
            "garbage",
            Bytes::from_static(b"\x99garbage"),
            CloseCode::FrameEncoding,
        ),
        (
            "stream beyond the limit",
            record(&[data(1 << 40, 0, 1, false)]),
            CloseCode::StreamLimit,
        ),
        (
            "stream window",
            record(&[data(0, 1 << 30, 1, false)]),
            CloseCode::FlowControl,
        ),
        (
            "session window",
            record(
                &(0..10)
                    .map(|s| data(s, (1 << 20) - 1, 1, false))
                    .collect::<Vec<_>>(),
            ),
            CloseCode::FlowControl,
        ),
        (
            "two ends",
            record(&[data(0, 0, 10, true), data(0, 0, 5, true)]),
            CloseCode::FlowControl,
        ),
        (
            "acknowledging what was never sent",
            record(&[Frame::Ack {
                time_us: 0,
                counts: vec![AckCount {
                    subflow: SubflowId(1),
                    count: 1 << 40,
                    age: Default::default(),
                    pace: Default::default(),
                }],
            }]),
            CloseCode::BadAck,
        ),
        (
            "a second hello",
            record(&[Frame::MpJoinOk {
                proof: Secret([0; 32]),
            }]),
            CloseCode::UnexpectedFrame,
        ),
        (
            "reset beyond the window",
            record(&[Frame::Reset {
                stream: StreamId(0),
                code: ResetCode::Cancelled,
                final_offset: 1 << 40,
            }]),
            CloseCode::FlowControl,
        ),
    ];
    for (what, bytes, code) in cases {
        let (mut s, id) = server();
        let err = s.handle_record(NOW, id, bytes, 500).expect_err(what);
        assert_eq!(err.code, code, "{what}: {err}");
        assert!(
            s.subflows(NOW).is_empty(),
            "{what}: the subflow is given up"
        );
        assert!(!s.is_lost(), "{what}: the session is not");
    }
}

#[test]
fn a_join_needs_the_key_and_this_connection() {
    let (mut s, _) = server();
    let forged = Hello::Join {
        session: SessionId([9; 16]),
        subflow: SubflowId(2),
        proof: Secret([0; 32]),
        path: Default::default(),
    };
    let err = s
        .accept_subflow(NOW, SubflowSetup::default(), &forged)
        .expect_err("forged");
    assert_eq!(err.code, CloseCode::BadProof);
}

/// A session is opened by what can carry it, and expresses take no path's place.
#[test]
fn expresses_are_joins_and_leave_room_for_paths() {
    let path = || PathLabel {
        helper: Some(HelperId(0)),
        role: Role::Express,
        name: "phone".to_owned(),
        number: None,
        lender: None,
    };
    let (mut s, _) = server();
    let mut client = Session::client(SessionConfig::default(), [3; 32]);
    let express = SubflowSetup {
        role: Role::Express,
        ..SubflowSetup::default()
    };
    let id = client.add_subflow(NOW, express);
    client.handle_room(id, 1 << 20);
    let mut out = Vec::new();
    client.poll_transmit(NOW, &mut out).expect("hello");
    let (hello, _) = parse_hello(Bytes::from(out)).expect("hello");
    let err = s
        .accept_subflow(NOW, SubflowSetup::default(), &hello)
        .expect_err("it opens a session");
    assert_eq!(err.code, CloseCode::UnexpectedFrame);

    let (mut s, _) = server();
    let key = s.identity.key.clone().expect("a key");
    let session = SessionId([9; 16]);
    let most = s.config().max_subflows as u32;
    let mut join = |number: u32, path: PathLabel, proof: Option<[u8; 32]>| {
        let subflow = SubflowId(number);
        let right = || key.prove(true, session, subflow, &[0; 32]);
        let hello = Hello::Join {
            session,
            subflow,
            proof: Secret(proof.unwrap_or_else(right)),
            path,
        };
        let accepted = s.accept_subflow(NOW, SubflowSetup::default(), &hello);
        accepted.map(|_| ()).map_err(|e| e.code)
    };
    assert_eq!(join(2, path(), Some([0; 32])), Err(CloseCode::BadProof));
    for number in 2..=most / 2 {
        assert_eq!(join(number, path(), None), Ok(()), "{number}");
    }
    assert_eq!(join(100, path(), None), Err(CloseCode::TooMuch));
    for number in most / 2 + 1..=most {
        assert_eq!(join(number, PathLabel::default(), None), Ok(()), "{number}");
    }
    let code = join(101, PathLabel::default(), None);
    assert_eq!(code, Err(CloseCode::TooMuch));
}

#[test]
fn pieces_of_all_streams_together_are_bounded() {
    let (mut s, id) = server();
    let mut octets = 500;
    // Every other byte of eight streams, many to a record.
    let mut taken = 0;
    let refused = (0..8 * 16).find_map(|n| {
        let frames: Vec<_> = (0..1_000)
            .map(|i| data(n / 16, ((n % 16) * 1_000 + i) * 2 + 1, 1, false))
            .collect();
        octets += 10_000;
        let result = s.handle_record(NOW, id, record(&frames), octets);
        taken += 1_000;
        result.err()
    });
    assert_eq!(refused.map(|e| e.code), Some(CloseCode::TooMuch));
    assert_eq!(taken, 66_000, "the first thousand above 65 536");
    assert!(s.waiting_bytes() <= 65_537);
}

/// A stream of two subflows, stalled or not, whose bytes come in more pieces than it keeps.
#[test]
fn bytes_of_a_stream_in_too_many_pieces_count_as_received() {
    for stalled in [false, true] {
        let (mut s, id) = server();
        join(&mut s, 2).expect("joined");
        let mut octets = 500;
        let first = [data(0, 0, 1, false)];
        let opened = [open(0, 10), data(0, 0, 1, false)];
        let first = if stalled { &opened[..] } else { &first };
        s.handle_record(NOW, id, record(first), octets)
            .expect("taken");
        s.handle_timeout(Timestamp::from_millis(1_100));
        let refused = (0..17u64).find_map(|n| {
            let frames: Vec<_> = (0..1_000)
                .map(|i| data(0, (n * 1_000 + i) * 2 + 2, 1, false))
                .collect();
            octets += 10_000;
            s.handle_record(Timestamp::from_millis(1_200), id, record(&frames), octets)
                .err()
        });
        assert_eq!(refused.map(|e| e.code), Some(CloseCode::TooMuch));
        s.streams.check_sums();
        let recv = &s.streams.get(StreamId(0)).expect("kept").recv;
        assert_eq!(recv.stalled, stalled);
        let final_offset = recv.buffer.highest();
        assert_eq!(s.unread_bytes(), final_offset);
        let reset = Frame::Reset {
            stream: StreamId(0),
            code: ResetCode::Cancelled,
            final_offset,
        };
        s.handle_record(NOW, SubflowId(2), record(&[reset]), 10_000)
            .expect("taken");
        assert_eq!((s.unread_bytes(), s.unread_pieces()), (0, 0));
        s.streams.check_sums();
    }
}

/// A proxy's stream whose origin waits for the peer's window; the peer repeats one byte.
#[test]
fn bytes_sent_again_and_again_leave_nothing_behind() {
    let (mut s, id) = server();
    let first = record(&[open(0, 0), data(0, 0, 1, false)]);
    s.handle_record(NOW, id, first, 500).expect("taken");
    while let budget @ 1.. = s.send_budget(StreamId(0)) {
        s.write(StreamId(0), vec![0; budget as usize].into());
    }
    let again = record(&vec![data(0, 0, 1, false); 1_000]);
    for n in 1..=10 {
        s.handle_record(NOW, id, again.clone(), 500 + n * 7_000)
            .expect("taken");
    }
    assert!(s.streams.touched() <= 1, "{}", s.streams.touched());
    s.streams.check_sums();
}

/// Each search for stalled readers looks at all streams, and bytes of each came at another time.
#[test]
fn stalled_readers_are_looked_for_ten_times_a_second_at_most() {
    const STREAMS: u64 = 1_000;
    let (mut s, id) = server();
    let (mut octets, mut searches) = (500, 0);
    for n in 0..3 * STREAMS {
        let now = NOW + std::time::Duration::from_millis(n);
        let stream = StreamId(n % STREAMS);
        let _ = s.read(now, stream);
        let next = data(stream.0, n / STREAMS, 1, false);
        let frames = if n < STREAMS {
            vec![open(stream.0, 10), next]
        } else {
            vec![next]
        };
        octets += 100;
        s.handle_record(now, id, record(&frames), octets)
            .expect("taken");
        let before = s.timers.get(Timer::Stall);
        s.handle_timeout(now);
        searches += usize::from(s.timers.get(Timer::Stall) != before);
        while s.poll_event().is_some() {}
    }
    // The first of those that were not read for a second is found in time.
    assert!((1..=21).contains(&searches), "{searches}");
}

/// Frames of a stream may come without its OPEN, and an OPEN be refused: the stream takes memory
/// until RESET is acknowledged and the peer has ended its half.
#[test]
fn streams_that_no_application_has_are_counted_up_to_the_limit() {
    let (mut s, id) = server();
    let most = SessionConfig::default().max_streams;
    let mut octets = 500;
    for n in 0..most {
        octets += 100;
        let frame = if n % 2 == 0 {
            open(n, 10)
        } else {
            data(n, 5, 1, false)
        };
        s.handle_record(NOW, id, record(&[frame]), octets)
            .expect("taken");
        s.reset(NOW, StreamId(n), ResetCode::Unreachable);
        s.stop(NOW, StreamId(n), ResetCode::Unreachable);
        let mut out = Vec::new();
        while s.poll_transmit(NOW, &mut out).is_some() {
            out.clear();
        }
        s.handle_room(id, 1 << 20);
    }
    assert_eq!(s.streams_kept() as u64, most);
    let beyond = record(&[data(most, 0, 1, false)]);
    let refused = s.handle_record(NOW, id, beyond, octets + 100);
    assert_eq!(refused.map_err(|e| e.code), Err(CloseCode::StreamLimit));
    let size = size_of::<crate::stream::Stream>() + size_of::<StreamId>();
    // A table has up to twice as many places.
    assert!(2 * size <= 2_048, "{size}");
}

#[test]
fn bytes_that_wait_do_not_pin_their_record() {
    let (mut s, id) = server();
    let ping = Frame::Ping(1 << 60);
    let mut frames = vec![data(0, 100, 10, false)];
    frames.extend(std::iter::repeat_n(ping, 1_000));
    let small = record(&frames);
    s.handle_record(NOW, id, small.clone(), 500).expect("taken");
    assert_eq!(s.waiting_bytes(), 10);
    assert!(small.is_unique(), "ten bytes hold a record");
    // Most of a record is not copied: that is what honest peers send.
    let large = record(&[data(0, 1_000, 10_000, false)]);
    s.handle_record(NOW, id, large.clone(), 900).expect("taken");
    assert!(!large.is_unique());
}

#[test]
fn subflow_numbers_with_gaps_are_bounded() {
    let (mut s, _) = server();
    let session = SessionId([9; 16]);
    let mut refused = None;
    for n in 1..2_000 {
        let subflow = SubflowId(n * 2 + 1);
        let setup = SubflowSetup::default();
        let key = s.identity.key.as_ref().expect("key");
        let hello = Hello::Join {
            session,
            subflow,
            proof: Secret(key.prove(true, session, subflow, &setup.exporter)),
            path: Default::default(),
        };
        match s.accept_subflow(NOW, setup, &hello) {
            Ok(id) => s.handle_subflow_closed(NOW, id),
            Err(e) => {
                refused = Some((n, e.code));
                break;
            }
        }
    }
    // The hello's own number is the first range.
    assert_eq!(refused, Some((1_024, CloseCode::TooMuch)));
}

#[test]
fn another_version_is_distinguished_from_garbage() {
    // Type, length, version 9; a later version may lay the rest out in another way.
    let hello = Bytes::from_static(&[0x01, 3, 0, 9, 0xff]);
    assert_eq!(
        parse_hello(hello).expect_err("version").code,
        CloseCode::Version
    );
    assert_eq!(
        parse_hello(Bytes::from_static(b"GET / HTTP/1.1"))
            .expect_err("garbage")
            .code,
        CloseCode::FrameEncoding
    );
}

fn open(stream: u64, max_stream_data: u64) -> Frame {
    Frame::Open {
        stream: StreamId(stream),
        treatment: StreamClass::Bulk.into(),
        max_stream_data,
        destination: Destination::Addr("192.0.2.1:80".parse().unwrap()),
        confirm: false,
    }
}

/// A further subflow of this number joins.
fn join(s: &mut Session, number: u32) -> Result<(), CloseCode> {
    let key = s.identity.key.clone().expect("key");
    let (session, subflow) = (SessionId([9; 16]), SubflowId(number));
    let hello = Hello::Join {
        session,
        subflow,
        proof: Secret(key.prove(true, session, subflow, &[0; 32])),
        path: PathLabel::default(),
    };
    let accepted = s.accept_subflow(NOW, SubflowSetup::default(), &hello);
    accepted.map(|_| ()).map_err(|e| e.code)
}

/// Treatments with a set of paths and a priority or without; the subflow has no path number.
fn any_treatment() -> impl Strategy<Value = Treatment> {
    let set = proptest::option::of(1..8u64);
    (0..4usize, set, 0..9u8).prop_map(|(class, bits, priority)| {
        let numbers = (0..3).filter(|n| bits.is_some_and(|bits| bits >> n & 1 != 0));
        Treatment {
            class: StreamClass::IN_ORDER[class],
            paths: PathSet::of(numbers.filter_map(PathNumber::new)).unwrap_or(PathSet::ALL),
            priority: priority.min(Treatment::MAX_PRIORITY),
        }
    })
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let stream = || (0..6u64).prop_map(StreamId);
    prop_oneof![
        (0..6u64, 0..3_000u64, 0..800usize, any::<bool>()).prop_map(|(s, o, l, f)| data(
            s,
            o,
            l,
            f || l == 0
        )),
        (stream(), 0..3_000u64).prop_map(|(stream, final_offset)| Frame::Reset {
            stream,
            code: ResetCode::Cancelled,
            final_offset
        }),
        stream().prop_map(|stream| Frame::Stop {
            stream,
            code: ResetCode::Cancelled
        }),
        (stream(), any_treatment()).prop_map(|(stream, treatment)| Frame::Open {
            stream,
            treatment,
            max_stream_data: 10_000,
            destination: Destination::Name {
                host: "x".into(),
                port: 1
            },
            confirm: true,
        }),
        stream().prop_map(|stream| Frame::Connected { stream }),
        (stream(), 0..40u64, any_treatment()).prop_map(|(stream, change, treatment)| {
            Frame::Class {
                stream,
                change,
                treatment,
            }
        }),
        (0..2_000u64).prop_map(|count| Frame::Ack {
            time_us: count,
            counts: vec![AckCount {
                subflow: SubflowId(1),
                count,
                age: Default::default(),
                pace: Default::default(),
            }],
        }),
        (0..4u32).prop_map(|s| Frame::Cut {
            subflow: SubflowId(s)
        }),
        any::<u64>().prop_map(|v| Frame::MaxData(v >> 2)),
        any::<u64>().prop_map(|v| Frame::Ping(v >> 2)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Frames of any kind in any order: errors at worst, and bounded memory.
    #[test]
    fn any_frames_in_any_order(frames in proptest::collection::vec((any_frame(), 0..4u8), 1..80)) {
        let (mut s, id) = server();
        let mut now = NOW;
        let mut octets = 500;
        let mut out = Vec::new();
        for (f, action) in frames {
            octets += 100;
            // Readers may stall.
            now += std::time::Duration::from_millis(if action == 3 { 700 } else { 3 });
            if s.handle_record(now, id, record(&[f]), octets).is_err() {
                s.streams.check_sums();
                break;
            }
            for st in s.streams() {
                s.send_budget(st.id);
                match action {
                    0 => s.write(st.id, vec![1; 300].into()),
                    1 => { let _ = s.read(now, st.id); }
                    2 => s.finish(st.id),
                    _ => s.reset(now, st.id, ResetCode::Cancelled),
                }
            }
            s.handle_timeout(now);
            s.handle_room(id, 50_000);
            while s.poll_transmit(now, &mut out).is_some() { out.clear(); }
            while s.poll_event().is_some() {}
            prop_assert!(s.waiting_bytes() <= 40 << 20);
            s.streams.check_sums();
        }
    }
}
