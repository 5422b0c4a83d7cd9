//! Golden vectors: `docs/protocol-vectors.txt`, octet by octet.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mpbond_units::BitRate;

use super::round_trip::parse_all;
use crate::handshake::SessionKey;
use crate::wire::*;
use crate::{
    CloseCode, DeviceLabel, HelperId, LeastBurst, PathNumber, PathSet, ResetCode, SessionId,
    StreamClass, StreamId, SubflowId,
};

const FILE: &str = include_str!("../../../../../docs/protocol-vectors.txt");

/// One vector: the words of its first line, and its octets.
struct Vector {
    head: Vec<&'static str>,
    octets: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let mut all: Vec<Vector> = Vec::new();
    for line in FILE.lines().filter(|l| !l.starts_with('#')) {
        if let Some(row) = line.strip_prefix("  ") {
            let hex = row.split("  ").next().expect("a row");
            let octets = hex.split_whitespace();
            let octets = octets.map(|o| u8::from_str_radix(o, 16).expect(line));
            all.last_mut().expect("a head").octets.extend(octets);
        } else if !line.is_empty() {
            all.push(Vector {
                head: line.split(' ').collect(),
                octets: Vec::new(),
            });
        }
    }
    all
}

/// The octets from `first` up.
fn rising<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|i| first + i as u8)
}

const SESSION: u8 = 0xa0;

fn key() -> SessionKey {
    SessionKey::derive(&rising(0), &rising(0x20), SessionId(rising(SESSION)))
}

fn proof(client: bool) -> [u8; 32] {
    key().prove(
        client,
        SessionId(rising(SESSION)),
        SubflowId(2),
        &rising(0x40),
    )
}

fn limits() -> Limits {
    Limits {
        max_data: 8 << 20,
        max_stream_data: 4 << 20,
        max_streams: 1_024,
    }
}

fn ok(ipv6: bool) -> Frame {
    let families = Families { ipv4: true, ipv6 };
    Frame::MpOk {
        random: Secret(rising(0x20)),
        session: SessionId(rising(SESSION)),
        limits: limits(),
        capabilities: Capabilities::of_this_version(Some(families)),
    }
}

/// The answer of a proxy that does not read CONNECTED.
fn base() -> Frame {
    let mut frame = ok(true);
    if let Frame::MpOk { capabilities, .. } = &mut frame {
        capabilities.frame_types = FrameTypes::BASE;
    }
    frame
}

fn join(role: Role) -> Frame {
    Frame::MpJoin {
        session: SessionId(rising(SESSION)),
        subflow: SubflowId(2),
        proof: Secret(proof(true)),
        path: PathLabel {
            helper: Some(HelperId(0)),
            role,
            name: "tablet".to_owned(),
            number: None,
            lender: None,
        },
    }
}

fn number(n: u64) -> PathNumber {
    PathNumber::new(n).expect("number")
}

fn paths(numbers: &[u64]) -> PathSet {
    PathSet::of(numbers.iter().copied().map(number)).expect("a number")
}

/// The frame, with the number of a path.
fn with_number(mut frame: Frame, n: u64) -> Frame {
    if let Frame::MpCapable { path, .. } | Frame::MpJoin { path, .. } = &mut frame {
        path.number = Some(number(n));
    }
    frame
}

/// The frame, with the number of a path and the label of the device that lends its link.
fn with_lender(frame: Frame, n: u64) -> Frame {
    let mut frame = with_number(frame, n);
    if let Frame::MpCapable { path, .. } | Frame::MpJoin { path, .. } = &mut frame {
        path.lender = Some(DeviceLabel(rising(SESSION)));
    }
    frame
}

/// The answer of a proxy that obeys sets of paths, and answers look-ups.
fn obeys_paths() -> Frame {
    let mut frame = ok(true);
    if let Frame::MpOk { capabilities, .. } = &mut frame {
        capabilities.answers_look_ups = true;
        capabilities.obeys_paths = true;
    }
    frame
}

fn treated(mut frame: Frame, priority: u8, paths: PathSet) -> Frame {
    if let Frame::Open { treatment, .. } | Frame::Class { treatment, .. } = &mut frame {
        (treatment.priority, treatment.paths) = (priority, paths);
    }
    frame
}

fn admit(change: u64, [after_bytes, background_bytes]: [u64; 2], tail_ms: u64) -> Frame {
    Frame::Admit {
        subflow: SubflowId(2),
        change,
        least: LeastBurst {
            bytes: after_bytes,
            background_bytes,
            tail: Duration::from_millis(tail_ms),
        },
    }
}

fn role(role: Role, cost: u8) -> Frame {
    Frame::SubflowRole {
        subflow: SubflowId(2),
        role,
        cost,
    }
}

fn capable() -> Frame {
    Frame::MpCapable {
        random: Secret(rising(0)),
        subflow: SubflowId(1),
        limits: limits(),
        path: PathLabel {
            name: "wifi".to_owned(),
            ..PathLabel::default()
        },
        capabilities: Capabilities::of_this_version(None),
    }
}

fn open_name() -> Frame {
    open(
        0,
        StreamClass::Interactive,
        Destination::Name {
            host: "origin.test".to_owned(),
            port: 443,
        },
    )
}

fn class(stream: u64) -> Frame {
    Frame::Class {
        stream: StreamId(stream),
        change: 1,
        treatment: StreamClass::Background.into(),
    }
}

fn open(stream: u64, class: StreamClass, destination: Destination) -> Frame {
    Frame::Open {
        stream: StreamId(stream),
        treatment: class.into(),
        max_stream_data: 4 << 20,
        destination,
        confirm: false,
    }
}

fn open_address(address: &str) -> Frame {
    let address = address.parse().expect("address");
    open(70, StreamClass::Bulk, Destination::Addr(address))
}

fn in_class(class: StreamClass) -> Frame {
    let address = "192.0.2.1:80".parse().expect("address");
    open(70, class, Destination::Addr(address))
}

fn data(stream: u64, offset: u64, flags: (bool, bool), bytes: &'static [u8]) -> Frame {
    Frame::Data {
        stream: StreamId(stream),
        offset,
        fin: flags.0,
        chunk_end: flags.1,
        bytes: Bytes::from_static(bytes),
    }
}

fn count(subflow: u32, count: u64, age_us: u64, bps: u64) -> AckCount {
    AckCount {
        subflow: SubflowId(subflow),
        count,
        age: Duration::from_micros(age_us),
        pace: BitRate::from_bps(bps),
    }
}

fn ack(counts: Vec<AckCount>) -> Frame {
    Frame::Ack {
        time_us: 1_000_000,
        counts,
    }
}

fn report(sojourn: Option<Duration>, held_back: bool) -> Frame {
    Frame::PathReport(PathReport {
        number: 9,
        subflow: SubflowId(2),
        throughput: BitRate::from_bps(5_000_000),
        rtt: Duration::from_millis(60),
        level_bytes: 100_000,
        age: Duration::from_millis(10),
        sojourn,
        held_back,
    })
}

fn extension(kind: u8) -> Frame {
    Frame::Extension {
        kind: FrameType(kind),
        body: Bytes::from_static(&[0xff; 3]),
    }
}

/// The frames that the file describes.
fn frames() -> BTreeMap<&'static str, Frame> {
    let stream = StreamId(70);
    let code = ResetCode::Cancelled;
    BTreeMap::from([
        ("mp-capable", capable()),
        ("mp-capable-path", with_number(capable(), 0)),
        ("mp-ok", ok(true)),
        ("mp-ok-base", base()),
        ("mp-ok-ipv4", ok(false)),
        ("mp-ok-paths", obeys_paths()),
        ("mp-join", join(Role::Backup)),
        ("mp-join-express", join(Role::Express)),
        ("mp-join-path", with_number(join(Role::Regular), 61)),
        ("mp-join-lender", with_lender(join(Role::Regular), 5)),
        (
            "mp-join-ok",
            Frame::MpJoinOk {
                proof: Secret(proof(false)),
            },
        ),
        (
            "close",
            Frame::Close {
                code: CloseCode::UnknownSession,
                reason: "no such session".to_owned(),
            },
        ),
        ("open-name", open_name()),
        ("open-paths", treated(open_name(), 0, paths(&[0, 2]))),
        ("open-priority", treated(open_name(), 7, PathSet::ALL)),
        ("open-ipv4", open_address("192.0.2.1:80")),
        ("open-ipv6", open_address("[2001:db8::1]:80")),
        ("open-background", in_class(StreamClass::Background)),
        ("open-realtime", in_class(StreamClass::Realtime)),
        (
            "open-confirm",
            Frame::Open {
                stream,
                treatment: StreamClass::Bulk.into(),
                max_stream_data: 4 << 20,
                destination: Destination::Addr("192.0.2.1:80".parse().expect("address")),
                confirm: true,
            },
        ),
        ("data", data(70, 1 << 20, (false, false), b"some bytes")),
        ("data-fin", data(70, 5 << 32, (true, false), b"")),
        ("data-chunk-end", data(0, 0, (false, true), b"!")),
        (
            "reset",
            Frame::Reset {
                stream,
                code,
                final_offset: 77,
            },
        ),
        ("stop", Frame::Stop { stream, code }),
        (
            "ack",
            ack(vec![
                count(1, 100_000, 3_000, 8_000_000),
                count(2, 300, 60, 0),
            ]),
        ),
        ("ack-empty", ack(Vec::new())),
        ("max-data", Frame::MaxData(1 << 30)),
        (
            "max-stream-data",
            Frame::MaxStreamData {
                stream,
                max: 1 << 21,
            },
        ),
        ("max-streams", Frame::MaxStreams(2_000)),
        ("path-report", report(None, false)),
        (
            "path-report-sojourn",
            report(Some(Duration::from_millis(200)), false),
        ),
        (
            "path-report-held-back",
            report(Some(Duration::from_millis(200)), true),
        ),
        ("ping", Frame::Ping(12_345)),
        ("pong", Frame::Pong(12_345)),
        ("subflow-role", role(Role::Backup, 0)),
        ("subflow-role-cost", role(Role::Regular, 1)),
        (
            "cut",
            Frame::Cut {
                subflow: SubflowId(3),
            },
        ),
        (
            "go-away",
            Frame::GoAway {
                reason: "the proxy stops".to_owned(),
            },
        ),
        ("connected", Frame::Connected { stream }),
        ("admit", admit(1, [1_100_000, 3_400_000], 11_576)),
        ("admit-never", admit(70, [LeastBurst::NEVER, 0], 0)),
        (
            "chunk",
            Frame::Chunk {
                stream,
                end: 1_100_000,
            },
        ),
        ("class", class(70)),
        ("class-paths", treated(class(0), 3, paths(&[1]))),
        ("extension-silent", extension(0x7f)),
        ("extension-counted", extension(0xff)),
    ])
}

#[test]
fn frames_are_encoded_and_decoded_as_written() {
    let mut frames = frames();
    for v in vectors() {
        let ["frame", name] = v.head[..] else {
            continue;
        };
        let frame = frames.remove(name).expect(name);
        let mut out = Vec::new();
        frame.encode(&mut out);
        assert_eq!(out, v.octets, "{name}");
        assert_eq!(parse_all(v.octets.into()), Ok(vec![frame]), "{name}");
    }
    assert!(frames.is_empty(), "not in the file: {:?}", frames.keys());
}

#[test]
fn other_encodings_are_accepted_or_refused_as_written() {
    let frames = frames();
    let (mut accepted, mut refused) = (0, 0);
    for v in vectors() {
        let read = parse_all(v.octets.into());
        match v.head[..] {
            ["accept", name, "as", other] => {
                let other = frames.get(other).expect(name);
                assert_eq!(read, Ok(vec![other.clone()]), "{name}");
                accepted += 1;
            }
            ["reject", name, code] => {
                let code = code.parse().map(CloseCode::from_wire).expect(name);
                assert_eq!(read.expect_err(name).close_code(), code, "{name}");
                refused += 1;
            }
            ["frame" | "value", _] => {}
            _ => panic!("unknown kind of vector: {:?}", v.head),
        }
    }
    assert!(accepted >= 10 && refused >= 17, "{accepted}, {refused}");
}

/// Every type that this version knows has a vector.
#[test]
fn no_frame_type_is_left_out() {
    let frames = frames();
    for (kind, name) in FrameType::KNOWN {
        assert!(frames.values().any(|f| f.kind() == kind), "{name}");
    }
}

#[test]
fn the_key_schedule_is_as_written() {
    let mut values: BTreeMap<_, _> = vectors()
        .into_iter()
        .filter(|v| v.head[0] == "value")
        .map(|v| (v.head[1], v.octets))
        .collect();
    let mut value = |name| values.remove(name).expect(name);
    assert_eq!(value("primary-random"), rising::<32>(0));
    assert_eq!(value("proxy-random"), rising::<32>(0x20));
    assert_eq!(value("session-id"), rising::<16>(SESSION));
    assert_eq!(value("subflow"), 2_u32.to_be_bytes());
    assert_eq!(value("exporter"), rising::<32>(0x40));
    assert_eq!(value("key"), key().octets());
    assert_eq!(value("proof-primary"), proof(true));
    assert_eq!(value("proof-proxy"), proof(false));
    assert!(values.is_empty(), "{values:?}");
}
