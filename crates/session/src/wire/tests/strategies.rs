//! Arbitrary frames.

use std::net::IpAddr;
use std::time::Duration;

use mpbond_units::{BitRate, printable};
use proptest::prelude::*;

use crate::wire::*;
use crate::{
    CloseCode, DeviceLabel, HelperId, LeastBurst, PathNumber, PathSet, ResetCode, SessionId,
    StreamClass, StreamId, SubflowId, Treatment,
};

fn subflow() -> impl Strategy<Value = SubflowId> {
    any::<u32>().prop_map(SubflowId)
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..200u64, 0..=VARINT_MAX]
}

fn micros() -> impl Strategy<Value = Duration> {
    number().prop_map(Duration::from_micros)
}

fn limits() -> impl Strategy<Value = Limits> {
    (number(), number(), number()).prop_map(|(max_data, max_stream_data, max_streams)| Limits {
        max_data,
        max_stream_data,
        max_streams,
    })
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Regular), Just(Role::Backup), Just(Role::Express)]
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    let families = (any::<bool>(), any::<bool>()).prop_map(|(ipv4, ipv6)| Families { ipv4, ipv6 });
    let bits = proptest::collection::vec(any::<u8>(), 0..=32);
    let services = (any::<bool>(), any::<bool>());
    let all = (proptest::option::of(families), services, bits);
    all.prop_map(
        |(families, (answers_look_ups, obeys_paths), bits)| Capabilities {
            families,
            answers_look_ups,
            obeys_paths,
            frame_types: FrameTypes::from_wire(&bits).expect("as long as it may be"),
        },
    )
}

fn path() -> impl Strategy<Value = PathLabel> {
    let helper = proptest::option::of(0..u32::MAX);
    let number = proptest::option::of(path_number());
    let lender = proptest::option::of(any::<[u8; 16]>());
    let all = (helper, role(), "[a-z]{0,64}", number, lender);
    all.prop_map(|(helper, role, name, number, lender)| PathLabel {
        helper: helper.map(HelperId),
        role,
        name,
        number,
        lender: lender.map(DeviceLabel),
    })
}

fn path_number() -> impl Strategy<Value = PathNumber> {
    (0..=u64::from(PathNumber::MAX)).prop_map(|n| PathNumber::new(n).expect("in bounds"))
}

fn treatment() -> impl Strategy<Value = Treatment> {
    let class = prop::sample::select(&StreamClass::IN_ORDER[..]);
    let some = proptest::collection::vec(path_number(), 1..5);
    let some = some.prop_map(|numbers| PathSet::of(numbers).expect("a number"));
    let paths = prop_oneof![Just(PathSet::ALL), some];
    (class, 0..=Treatment::MAX_PRIORITY, paths).prop_map(|(class, priority, paths)| Treatment {
        class,
        priority,
        paths,
    })
}

fn destination() -> impl Strategy<Value = Destination> {
    prop_oneof![
        any::<SocketAddrV4Parts>().prop_map(|p| Destination::Addr(p.into())),
        (any::<[u8; 16]>(), any::<u16>())
            .prop_map(|(ip, port)| Destination::Addr((IpAddr::from(ip), port).into())),
        ("[a-z0-9.-]{1,255}", any::<u16>())
            .prop_map(|(host, port)| Destination::Name { host, port }),
    ]
}

type SocketAddrV4Parts = ([u8; 4], u16);

fn count() -> impl Strategy<Value = AckCount> {
    (subflow(), number(), micros(), number()).prop_map(|(subflow, count, age, bps)| AckCount {
        subflow,
        count,
        age,
        pace: BitRate::from_bps(bps),
    })
}

fn code() -> impl Strategy<Value = ResetCode> {
    any::<u16>().prop_map(ResetCode::from_wire)
}

/// Any frame, of an extension too.
pub(super) fn frame() -> impl Strategy<Value = Frame> {
    let stream = || number().prop_map(StreamId);
    let hello = prop_oneof![
        (
            any::<[u8; 32]>(),
            subflow(),
            limits(),
            path(),
            capabilities()
        )
            .prop_map(
                |(random, subflow, limits, path, capabilities)| Frame::MpCapable {
                    random: Secret(random),
                    subflow,
                    limits,
                    path,
                    capabilities
                }
            ),
        (
            any::<[u8; 32]>(),
            any::<[u8; 16]>(),
            limits(),
            capabilities()
        )
            .prop_map(|(random, session, limits, capabilities)| Frame::MpOk {
                random: Secret(random),
                session: SessionId(session),
                limits,
                capabilities
            }),
        (any::<[u8; 16]>(), subflow(), any::<[u8; 32]>(), path()).prop_map(
            |(session, subflow, proof, path)| Frame::MpJoin {
                session: SessionId(session),
                subflow,
                proof: Secret(proof),
                path
            }
        ),
        any::<[u8; 32]>().prop_map(|proof| Frame::MpJoinOk {
            proof: Secret(proof)
        }),
        (any::<u16>(), ".{0,60}").prop_map(|(c, reason)| Frame::Close {
            code: CloseCode::from_wire(c),
            // Others are replaced when they are decoded.
            reason: printable(&reason, MAX_REASON_BYTES)
        }),
    ];
    let streams = prop_oneof![
        (
            stream(),
            treatment(),
            number(),
            destination(),
            any::<bool>()
        )
            .prop_map(
                |(stream, treatment, max_stream_data, destination, confirm)| {
                    Frame::Open {
                        stream,
                        treatment,
                        max_stream_data,
                        destination,
                        confirm,
                    }
                }
            ),
        (
            stream(),
            0..1u64 << 61,
            any::<bool>(),
            any::<bool>(),
            proptest::collection::vec(any::<u8>(), 1..300)
        )
            .prop_map(|(stream, offset, fin, chunk_end, bytes)| Frame::Data {
                stream,
                offset,
                fin,
                chunk_end,
                bytes: bytes.into()
            }),
        (stream(), code(), number()).prop_map(|(stream, code, final_offset)| Frame::Reset {
            stream,
            code,
            final_offset
        }),
        (stream(), code()).prop_map(|(stream, code)| Frame::Stop { stream, code }),
        stream().prop_map(|stream| Frame::Connected { stream }),
        (stream(), number(), treatment()).prop_map(|(stream, change, treatment)| Frame::Class {
            stream,
            change,
            treatment
        }),
        (subflow(), number(), number(), number(), 0..=60_000_000u64).prop_map(
            |(subflow, change, after_bytes, background_bytes, tail)| Frame::Admit {
                subflow,
                change,
                least: LeastBurst {
                    bytes: after_bytes,
                    background_bytes,
                    tail: Duration::from_micros(tail),
                },
            }
        ),
        (stream(), number()).prop_map(|(stream, max)| Frame::MaxStreamData { stream, max }),
        (stream(), number()).prop_map(|(stream, end)| Frame::Chunk { stream, end }),
    ];
    let rest = prop_oneof![
        (number(), proptest::collection::vec(count(), 0..=64))
            .prop_map(|(time_us, counts)| Frame::Ack { time_us, counts }),
        number().prop_map(Frame::MaxData),
        number().prop_map(Frame::MaxStreams),
        number().prop_map(Frame::Ping),
        number().prop_map(Frame::Pong),
        (subflow(), role(), any::<u8>()).prop_map(|(subflow, role, cost)| Frame::SubflowRole {
            subflow,
            role,
            cost
        }),
        (
            (0x40..=u8::MAX).prop_filter("known", |n| {
                FrameType::KNOWN.iter().all(|(known, _)| known.0 != *n)
            }),
            proptest::collection::vec(any::<u8>(), 0..300)
        )
            .prop_map(|(kind, body)| Frame::Extension {
                kind: FrameType(kind),
                body: body.into()
            }),
        subflow().prop_map(|subflow| Frame::Cut { subflow }),
        "[a-z ]{0,80}".prop_map(|reason| Frame::GoAway { reason }),
        (
            (number(), subflow(), number(), micros()),
            (
                number(),
                micros(),
                proptest::option::of(micros()),
                any::<bool>()
            )
        )
            .prop_map(
                |((number, subflow, bps, rtt), (level_bytes, age, sojourn, held_back))| {
                    Frame::PathReport(PathReport {
                        number,
                        subflow,
                        throughput: BitRate::from_bps(bps),
                        rtt,
                        level_bytes,
                        age,
                        sojourn,
                        held_back,
                    })
                }
            ),
    ];
    prop_oneof![hello, streams, rest]
}
