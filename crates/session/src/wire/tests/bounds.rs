//! Limits of fields, and the errors for what exceeds them.

use bytes::Bytes;

use super::later::{self, Unknown};
use super::round_trip::parse_all;
use crate::wire::*;
use crate::{
    CloseCode, PathNumber, PathSet, Role, SessionId, StreamClass, StreamId, SubflowId, Treatment,
};

fn field(kind: u8, what: &'static str) -> WireError {
    let kind = FrameType(kind);
    WireError::Field { kind, what }
}

#[test]
fn fields_out_of_bounds_are_named() {
    let bad: [(&[u8], WireError); 11] = [
        (&[0x3f, 0], WireError::UnknownType(FrameType(0x3f))),
        (&[0x19, 0], WireError::UnknownType(FrameType(0x19))),
        (&[0x11, 3, 0, 0, 0], field(0x11, "length")),
        (&[0x11, 4, 0, 0, 8, 1], field(0x11, "flags")),
        (
            &[0x10, 9, 0, 0, 0, 3, 0, 80, 2, b'a', b' '],
            field(0x10, "host name"),
        ),
        (&[0x10, 4, 0, 0, 0, 9], field(0x10, "destination type")),
        // An octet left over is an optional field without a length.
        (&[0x15, 2, 0, 0x30], WireError::Truncated(FrameType(0x15))),
        (&[0x15, 9, 0], WireError::Truncated(FrameType(0x15))),
        (&[0x14, 3, 0, 0x40, 65], field(0x14, "number of counts")),
        (&[0x01, 2, 0, 1], WireError::Version(1)),
        (&[0x05, 4, 0, 0, 1, 0xff], field(0x05, "reason")),
    ];
    for (bytes, err) in bad {
        let read = parse_all(Bytes::from_static(bytes));
        assert_eq!(read, Err(err), "{bytes:02x?}");
    }
}

#[test]
fn long_reasons_are_cut() {
    let long = Frame::Close {
        code: CloseCode::Done,
        reason: "x".repeat(1_000),
    };
    let mut out = Vec::new();
    long.encode(&mut out);
    assert!(matches!(&parse_all(out.into()).unwrap()[..],
        [Frame::Close { reason, .. }] if reason.len() == MAX_REASON_BYTES));
}

/// Reasons, names and destinations reach terminals through logs and status: they must not move the
/// cursor, set a title, begin a line or hide what follows.
#[test]
fn texts_of_session_frames_are_printable() {
    let sent = "no\u{1b}]0;owned\u{7}\r\nok \u{202e}txt\u{200b}\u{9b}2J";
    let shown = "no�]0;owned���ok �txt��2J".to_owned();
    let reason = sent.to_owned();
    let code = CloseCode::Done;
    let mut octets = Vec::new();
    Frame::Close { code, reason }.encode(&mut octets);
    let reason = sent.to_owned();
    Frame::GoAway { reason }.encode(&mut octets);
    let reason = shown.clone();
    assert_eq!(
        parse_all(octets.into()),
        Ok(vec![
            Frame::Close {
                code,
                reason: shown.clone()
            },
            Frame::GoAway { reason },
        ])
    );

    let hello = |name: &str| {
        let mut octets = Vec::new();
        let path = PathLabel {
            name: name.to_owned(),
            ..PathLabel::default()
        };
        let join = Frame::MpJoin {
            session: SessionId([0; 16]),
            subflow: SubflowId(1),
            proof: Secret([0; 32]),
            path,
        };
        join.encode(&mut octets);
        match parse_all(octets.into())?.pop() {
            Some(Frame::MpJoin { path, .. }) => Ok(path.name),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(hello("a\u{1b}[2J"), Err(field(0x03, "name")));
    assert_eq!(hello("a\nb"), Err(field(0x03, "name")));
    assert_eq!(hello("\u{202e}wlan0"), Ok("�wlan0".to_owned()));
    let many = "\u{200b}".repeat(MAX_NAME_BYTES / 3);
    assert_eq!(hello(&many), Ok("�".repeat(MAX_NAME_BYTES / 3)));

    let host = "\u{202e}moc.elpmaxe\u{200b}".to_owned();
    let to = Destination::Name { host, port: 80 };
    assert_eq!(to.to_string(), "�moc.elpmaxe�:80");
}

#[test]
fn number_and_size_of_optional_fields_are_bounded() {
    let mut ping = Vec::new();
    Frame::Ping(1).encode(&mut ping);
    let read = |fields: &[Unknown]| parse_all(later::with_fields(&ping, fields).into());
    let fields = |number: usize| -> Vec<_> {
        let ids = 0x100..;
        ids.take(number)
            .map(|id| Unknown { id, value: vec![] })
            .collect()
    };
    assert_eq!(read(&fields(MAX_FIELDS)), Ok(vec![Frame::Ping(1)]));
    assert_eq!(
        read(&fields(MAX_FIELDS + 1)),
        Err(field(0x1a, "number of optional fields"))
    );
    let sized = |len: usize| {
        [Unknown {
            id: 0x100,
            value: vec![0; len],
        }]
    };
    assert_eq!(read(&sized(MAX_FIELD_BYTES)), Ok(vec![Frame::Ping(1)]));
    assert_eq!(
        read(&sized(MAX_FIELD_BYTES + 1)),
        Err(field(0x1a, "length of an optional field"))
    );
}

/// Values that a later version may add have a meaning here too.
#[test]
fn unknown_values_fall_back() {
    let open = |class: u8| {
        let octets = vec![0x10, 10, 0, class, 0, 4, 192, 0, 2, 1, 0, 80];
        match &parse_all(octets.into()).unwrap()[..] {
            [Frame::Open { treatment, .. }] => treatment.class,
            other => panic!("{other:?}"),
        }
    };
    let classes = [4, 5, 254, 255].map(open);
    let (bulk, interactive) = (StreamClass::Bulk, StreamClass::Interactive);
    assert_eq!(classes, [bulk, interactive, bulk, interactive]);
    for (octet, role) in [(0, Role::Regular), (2, Role::Express), (9, Role::Backup)] {
        let read = parse_all(vec![0x1c, 2, 5, octet].into());
        let subflow = SubflowId(5);
        let expected = Frame::SubflowRole {
            subflow,
            role,
            cost: 0,
        };
        assert_eq!(read, Ok(vec![expected]));
    }
}

#[test]
fn the_type_number_decides_whether_a_frame_elicits_an_ack() {
    for n in 0..=u8::MAX {
        let expected = !matches!(n, 0x05 | 0x14 | 0x18 | 0x1b | 0x40..0x80);
        assert_eq!(FrameType(n).elicits_ack(), expected, "{n:#04x}");
        let known = FrameTypes::READ.contains(FrameType(n));
        let read = parse_all(vec![n, 0].into());
        let unknown = Err(WireError::UnknownType(FrameType(n)));
        assert_eq!(read == unknown, !known && n < 0x40, "{n:#04x}");
    }
}

#[test]
fn no_open_is_longer_than_its_bound() {
    let numbers = (0..=PathNumber::MAX).filter_map(|n| PathNumber::new(n.into()));
    let open = Frame::Open {
        stream: StreamId(u64::MAX >> 2),
        treatment: Treatment {
            class: StreamClass::Bulk,
            priority: Treatment::MAX_PRIORITY,
            paths: PathSet::of(numbers.skip(1)).unwrap(),
        },
        max_stream_data: u64::MAX >> 2,
        destination: Destination::Name {
            host: "x".repeat(MAX_HOST_BYTES + 1),
            port: u16::MAX,
        },
        confirm: true,
    };
    let mut out = Vec::new();
    open.encode(&mut out);
    assert!((290..=OPEN_BYTES_MAX).contains(&out.len()), "{}", out.len());
}
