use super::*;
use crate::wire::MAX_RECORD_BYTES;
use proptest::prelude::*;

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

fn path() -> impl Strategy<Value = PathLabel> {
    (proptest::option::of(0..u32::MAX), 0..3u8, "[a-z]{0,64}").prop_map(|(helper, kind, name)| {
        PathLabel {
            helper: helper.map(HelperId),
            backup: kind > 0,
            express: kind == 2,
            name,
        }
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

fn frame() -> impl Strategy<Value = Frame> {
    let stream = || number().prop_map(StreamId);
    let class = prop_oneof![Just(StreamClass::Bulk), Just(StreamClass::Interactive)];
    let hello = prop_oneof![
        (any::<u16>(), any::<[u8; 32]>(), subflow(), limits(), path()).prop_map(
            |(version, random, subflow, limits, path)| Frame::MpCapable {
                version,
                random,
                subflow,
                limits,
                path
            }
        ),
        (any::<u16>(), any::<[u8; 32]>(), any::<[u8; 16]>(), limits()).prop_map(
            |(version, random, session, limits)| Frame::MpOk {
                version,
                random,
                session: SessionId(session),
                limits
            }
        ),
        (
            any::<u16>(),
            any::<[u8; 16]>(),
            subflow(),
            any::<[u8; 32]>(),
            path()
        )
            .prop_map(|(version, session, subflow, proof, path)| Frame::MpJoin {
                version,
                session: SessionId(session),
                subflow,
                proof,
                path
            }),
        any::<[u8; 32]>().prop_map(|proof| Frame::MpJoinOk { proof }),
        (any::<u16>(), ".{0,80}").prop_map(|(c, reason)| Frame::Close {
            code: CloseCode::from_wire(c),
            reason: reason.chars().take(60).collect()
        }),
    ];
    let streams = prop_oneof![
        (stream(), class, number(), destination()).prop_map(
            |(stream, class, max_stream_data, destination)| Frame::Open {
                stream,
                class,
                max_stream_data,
                destination
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
        (stream(), number()).prop_map(|(stream, max)| Frame::MaxStreamData { stream, max }),
    ];
    let rest = prop_oneof![
        (number(), proptest::collection::vec(count(), 0..64))
            .prop_map(|(time_us, counts)| Frame::Ack { time_us, counts }),
        number().prop_map(Frame::MaxData),
        number().prop_map(Frame::MaxStreams),
        number().prop_map(Frame::Ping),
        number().prop_map(Frame::Pong),
        (subflow(), any::<bool>())
            .prop_map(|(subflow, backup)| Frame::SubflowPriority { subflow, backup }),
        subflow().prop_map(|subflow| Frame::Cut { subflow }),
        "[a-z ]{0,80}".prop_map(|reason| Frame::GoAway { reason }),
        (
            (number(), subflow(), number(), micros()),
            (number(), micros(), proptest::option::of(micros()))
        )
            .prop_map(
                |((number, subflow, bps, rtt), (level_bytes, age, sojourn))| {
                    Frame::PathReport(PathReport {
                        number,
                        subflow,
                        throughput: BitRate::from_bps(bps),
                        rtt,
                        level_bytes,
                        age,
                        sojourn,
                    })
                }
            ),
    ];
    prop_oneof![hello, streams, rest]
}

fn parse_all(mut record: Bytes) -> Result<Vec<Frame>, WireError> {
    let mut frames = Vec::new();
    while !record.is_empty() {
        frames.push(Frame::parse(&mut record)?);
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn what_is_written_is_read(frames in proptest::collection::vec(frame(), 1..6)) {
        let mut out = Vec::new();
        let mut ends = vec![0];
        for f in &frames {
            f.encode(&mut out);
            ends.push(out.len());
        }
        prop_assert!(out.len() <= MAX_RECORD_BYTES);
        prop_assert_eq!(&parse_all(Bytes::from(out.clone())), &Ok(frames.clone()));
        // Cut anywhere but between frames, it is an error and no more.
        for cut in 0..out.len() {
            let r = parse_all(Bytes::copy_from_slice(&out[..cut]));
            prop_assert_eq!(r.is_ok(), ends.contains(&cut), "cut at {}", cut);
        }
    }

    #[test]
    fn garbage_is_an_error_at_worst(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_all(Bytes::from(bytes));
    }

    /// A flipped octet gives other frames or an error, and what is read is read again the same.
    #[test]
    fn flips_are_survived(f in frame(), at in any::<prop::sample::Index>(), x in 1..=255u8) {
        let mut out = Vec::new();
        f.encode(&mut out);
        let i = at.index(out.len());
        out[i] ^= x;
        if let Ok(frames) = parse_all(Bytes::from(out)) {
            let mut again = Vec::new();
            frames.iter().for_each(|f| f.encode(&mut again));
            prop_assert_eq!(parse_all(Bytes::from(again)), Ok(frames));
        }
    }
}

#[test]
fn bounds_are_kept() {
    let bad: [(&str, Vec<u8>, WireError); 7] = [
        ("unknown type", vec![0x77, 0], WireError::UnknownType(0x77)),
        (
            "empty DATA",
            vec![0x11, 3, 0, 0, 0],
            WireError::Field {
                kind: 0x11,
                what: "length",
            },
        ),
        (
            "flags",
            vec![0x11, 4, 0, 0, 8, 1],
            WireError::Field {
                kind: 0x11,
                what: "flags",
            },
        ),
        (
            "class",
            vec![0x10, 3, 0, 9, 0],
            WireError::Field {
                kind: 0x10,
                what: "class",
            },
        ),
        (
            "host with a space",
            vec![0x10, 8, 0, 0, 0, 3, 0, 80, b'a', b' '],
            WireError::Field {
                kind: 0x10,
                what: "host name",
            },
        ),
        (
            "left over",
            vec![0x15, 2, 0, 0],
            WireError::Excess { kind: 0x15 },
        ),
        (
            "length beyond the record",
            vec![0x15, 9, 0],
            WireError::Truncated { kind: 0x15 },
        ),
    ];
    for (what, bytes, err) in bad {
        assert_eq!(parse_all(Bytes::from(bytes)), Err(err), "{what}");
    }
    let long = Frame::Close {
        code: CloseCode::Done,
        reason: "x".repeat(1_000),
    };
    let mut out = Vec::new();
    long.encode(&mut out);
    assert!(matches!(&parse_all(out.into()).unwrap()[..],
        [Frame::Close { reason, .. }] if reason.len() == MAX_REASON_BYTES));
}
