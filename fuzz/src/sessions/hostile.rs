//! One end, and a peer who may say anything at all. Whatever that is: no panic, an error at worst,
//! and never more memory than [`MOST_BYTES`].

use std::time::Duration;

use bytes::Bytes;
use mpbond_session::wire::{AckCount, Frame, FrameType, MAX_RECORD_BYTES, PathReport, Secret};
use mpbond_session::{
    Capabilities, CloseCode, Destination, Limits, PathInfo, PathNumber, PathSet, ResetCode, Role,
    Session, SessionConfig, SessionId, StreamClass, StreamId, SubflowId, SubflowSetup, Treatment,
    parse_hello,
};
use mpbond_units::{BitRate, Timestamp};

use crate::choices::Choices;
use crate::memory::peak_bytes;

/// What a session may hold because of its peer, as these targets configure it: what its windows
/// grant it for arriving bytes, twice (a piece may pin a record of twice its size); what it may
/// keep to send, and 64 KiB for each stream above that; and what streams, pieces and queues take
/// themselves.
const MOST_BYTES: usize = 2 * (WINDOW_BYTES + STALLED_BYTES) as usize
    + SEND_BYTES as usize
    + MAX_STREAMS as usize * ((64 << 10) + 4096)
    + (8 << 20);

const WINDOW_BYTES: u64 = 1 << 20;
const STALLED_BYTES: u64 = 1 << 20;
const SEND_BYTES: u64 = 1 << 20;
const MAX_STREAMS: u64 = 64;

fn config() -> SessionConfig {
    SessionConfig {
        receive_window_bytes: WINDOW_BYTES,
        initial_stream_window_bytes: WINDOW_BYTES / 2,
        stalled_memory_bytes: STALLED_BYTES,
        send_memory_bytes: SEND_BYTES,
        max_streams: MAX_STREAMS,
        max_subflows: 4,
        obeys_paths: true,
        ..SessionConfig::default()
    }
}

/// A proxy, and a primary that sends any frames.
pub fn hostile_primary(octets: &[u8]) {
    bounded(octets, |choices, now| {
        let hello = client_hello(now)?;
        let (hello, _) = parse_hello(hello).ok()?;
        let mut server = Session::server(config(), SessionId([9; 16]), [4; 32], &hello);
        let id = server
            .accept_subflow(now, SubflowSetup::default(), &hello)
            .ok()?;
        besiege(server, id, now, choices);
        Some(())
    });
}

/// A primary, and a proxy that sends any frames, its answer to the hello included.
pub fn hostile_proxy(octets: &[u8]) {
    bounded(octets, |choices, now| {
        let mut client = Session::client(config(), [3; 32]);
        let id = client.add_subflow(now, numbered());
        let destination = Destination::Name {
            host: "origin.test".to_owned(),
            port: 80,
        };
        for _ in 0..choices.below(4) {
            let _ = client.open(now, destination.clone(), StreamClass::Bulk);
        }
        client.handle_room(id, 1 << 20);
        let mut out = Vec::new();
        client.poll_transmit(now, &mut out)?;
        // Most runs are of a session that exists.
        if choices.octet() & 7 != 0 {
            let answer = Frame::MpOk {
                random: Secret([5; 32]),
                session: SessionId([9; 16]),
                limits: Limits {
                    max_data: choices.number() >> 2,
                    max_stream_data: choices.number() >> 2,
                    max_streams: choices.number() >> 2,
                },
                capabilities: Capabilities {
                    obeys_paths: choices.octet() & 1 != 0,
                    ..Capabilities::of_this_version(None)
                },
            };
            let mut record = Vec::new();
            answer.encode(&mut record);
            client.handle_record(now, id, record.into(), 200).ok()?;
        }
        besiege(client, id, now, choices);
        Some(())
    });
}

fn bounded(octets: &[u8], work: impl FnOnce(&mut Choices<'_>, Timestamp) -> Option<()>) {
    let peak = peak_bytes(|| {
        let mut choices = Choices::new(octets);
        let _ = work(&mut choices, Timestamp::from_millis(5));
    });
    assert!(peak <= MOST_BYTES, "{peak} bytes were held at a time");
}

/// A subflow on the path of number 0.
fn numbered() -> SubflowSetup {
    SubflowSetup {
        path: PathNumber::new(0),
        ..SubflowSetup::default()
    }
}

fn client_hello(now: Timestamp) -> Option<Bytes> {
    let mut client = Session::client(config(), [3; 32]);
    let id = client.add_subflow(now, numbered());
    client.handle_room(id, 1 << 20);
    let mut out = Vec::new();
    client.poll_transmit(now, &mut out)?;
    Some(out.into())
}

/// Records of anything, and an application that behaves.
fn besiege(mut session: Session, id: SubflowId, mut now: Timestamp, choices: &mut Choices<'_>) {
    let mut octets = 500;
    while !choices.is_empty() {
        let what = choices.octet();
        let mut record = Vec::new();
        if what & 7 == 7 {
            record.extend_from_slice(choices.octets(64));
        } else {
            let frame = frame(choices);
            // The same many times over, in one record: what a little traffic can do.
            let times = if what & 8 == 8 { choices.octet() } else { 1 };
            for _ in 0..times.max(1) {
                let before = record.len();
                frame.encode(&mut record);
                if record.len() > MAX_RECORD_BYTES {
                    record.truncate(before);
                    break;
                }
            }
        }
        octets += record.len() as u64 + 22;
        let malformed = whole(&record).is_none();
        match session.handle_record(now, id, record.into(), octets) {
            Ok(()) => assert!(!malformed, "a malformed record was taken"),
            Err(e) => {
                assert!(session.subflows(now).is_empty(), "the subflow is given up");
                let blame = e.by_peer || e.code != CloseCode::Done;
                assert!(blame, "an error without a cause: {e}");
                return;
            }
        }
        application(&mut session, now, what >> 4);
        session.handle_path(now, id, path(choices));
        session.handle_room(id, u64::from(choices.short()) << 2);
        let mut out = Vec::new();
        while session.poll_transmit(now, &mut out).is_some() {
            assert!(out.len() <= MAX_RECORD_BYTES, "a record too long for TLS");
            out.clear();
        }
        while session.poll_event().is_some() {}
        let step = 1_u64 << (choices.octet() & 15);
        now += Duration::from_millis(step);
        session.handle_timeout(now);
        let waiting = session.waiting_bytes();
        assert!(
            waiting <= WINDOW_BYTES + STALLED_BYTES,
            "{waiting} bytes wait"
        );
        // It may have been given up without an error: by CUT, or after silence.
        if session.is_lost() || session.subflows(now).is_empty() {
            return;
        }
    }
}

/// Whether all frames are well-formed, by themselves.
fn whole(record: &[u8]) -> Option<()> {
    let mut record = Bytes::copy_from_slice(record);
    while !record.is_empty() {
        Frame::parse(&mut record).ok()?;
    }
    Some(())
}

fn application(session: &mut Session, now: Timestamp, what: u8) {
    for stream in session.streams() {
        let id = stream.id;
        match what & 7 {
            0 | 1 => {
                let bytes = session.send_budget(id).min(3000);
                session.write(id, vec![1; bytes as usize].into());
            }
            2 | 3 => {
                let _ = session.read(now, id);
            }
            4 => session.finish(id),
            5 => session.reset(now, id, ResetCode::Cancelled),
            6 => session.stop(now, id, ResetCode::Cancelled),
            _ => {
                // Refused where the peer does not obey sets; nothing happens at a proxy.
                let paths = PathSet::of(PathNumber::new(u64::from(what >> 3)));
                let treatment = Treatment {
                    paths: paths.unwrap_or(PathSet::ALL),
                    ..Treatment::default()
                };
                let _ = session.set_treatment(id, treatment);
            }
        }
    }
}

fn path(choices: &mut Choices<'_>) -> PathInfo {
    let rtt = Duration::from_millis(u64::from(choices.octet()));
    PathInfo {
        cwnd_bytes: u64::from(choices.short()) + 1000,
        srtt: rtt,
        min_rtt: rtt,
        bytes_arrived: 0,
        delivery_rate: BitRate::from_bps(u64::from(choices.short()) << 8),
        app_limited: false,
        slow_start: false,
        // Of an octet that is drawn already: kept inputs mean what they did.
        bytes_acked: rtt.as_micros() as u64,
        all_acked: rtt.is_zero(),
    }
}

fn stream(choices: &mut Choices<'_>) -> StreamId {
    match choices.octet() {
        255 => StreamId(choices.number() >> 2),
        n => StreamId(u64::from(n % 80)),
    }
}

/// Any treatment; few of the sets of paths contain that of the subflow, which is 0.
fn treatment(choices: &mut Choices<'_>) -> Treatment {
    let kind = choices.octet();
    let numbers = match kind & 0x80 {
        0 => 0,
        _ => choices.number(),
    };
    let paths = (0..=u64::from(PathNumber::MAX)).filter(|n| numbers >> n & 1 != 0);
    Treatment {
        class: StreamClass::IN_ORDER[usize::from(kind & 3)],
        priority: kind >> 2 & Treatment::MAX_PRIORITY,
        paths: PathSet::of(paths.filter_map(PathNumber::new)).unwrap_or(PathSet::ALL),
    }
}

fn frame(choices: &mut Choices<'_>) -> Frame {
    let subflow = |choices: &mut Choices<'_>| SubflowId(u32::from(choices.octet() % 4));
    let number = |choices: &mut Choices<'_>| choices.number() >> 2;
    let span = |choices: &mut Choices<'_>| Duration::from_micros(choices.number() >> 2);
    let rate = |choices: &mut Choices<'_>| BitRate::from_bps(choices.number() >> 2);
    match choices.octet() % 17 {
        0..=3 => {
            let length = match choices.octet() {
                n @ 0..=199 => usize::from(n),
                n => usize::from(n - 199) * 280,
            };
            let fin = choices.octet() & 15 == 0;
            Frame::Data {
                stream: stream(choices),
                offset: number(choices) % (1 << 40),
                fin,
                chunk_end: !fin && length == 0,
                bytes: vec![7; length].into(),
            }
        }
        4 => Frame::Open {
            stream: stream(choices),
            treatment: treatment(choices),
            max_stream_data: number(choices),
            destination: Destination::Name {
                host: "x".repeat(usize::from(choices.octet()).max(1)),
                port: 1,
            },
            confirm: choices.octet() & 1 == 0,
        },
        5 => Frame::Reset {
            stream: stream(choices),
            code: ResetCode::Cancelled,
            final_offset: number(choices),
        },
        6 => Frame::Stop {
            stream: stream(choices),
            code: ResetCode::Cancelled,
        },
        7 | 8 => Frame::Ack {
            time_us: number(choices),
            counts: (0..choices.below(5))
                .map(|_| AckCount {
                    subflow: subflow(choices),
                    count: number(choices),
                    age: span(choices),
                    pace: rate(choices),
                })
                .collect(),
        },
        9 => Frame::MaxData(number(choices)),
        10 => Frame::MaxStreamData {
            stream: stream(choices),
            max: number(choices),
        },
        11 => Frame::MaxStreams(number(choices)),
        12 => {
            let mut report = PathReport {
                number: number(choices),
                subflow: subflow(choices),
                throughput: rate(choices),
                rtt: span(choices),
                level_bytes: number(choices),
                age: span(choices),
                sojourn: None,
                held_back: false,
            };
            let bits = choices.octet();
            report.sojourn = (bits & 1 == 1).then(|| span(choices));
            report.held_back = bits & 2 == 2;
            Frame::PathReport(report)
        }
        13 => Frame::Ping(number(choices)),
        14 => {
            let (subflow, bits) = (subflow(choices), choices.octet());
            Frame::SubflowRole {
                subflow,
                role: match bits & 3 {
                    0 => Role::Regular,
                    1 => Role::Backup,
                    _ => Role::Express,
                },
                cost: bits >> 2 & 3,
            }
        }
        15 => Frame::GoAway {
            reason: "y".repeat(usize::from(choices.octet())),
        },
        _ => match choices.octet() & 7 {
            0 => Frame::Close {
                code: CloseCode::Done,
                reason: String::new(),
            },
            1 => Frame::Cut {
                subflow: subflow(choices),
            },
            2 => Frame::MpJoinOk {
                proof: Secret([0; 32]),
            },
            4 => Frame::Connected {
                stream: stream(choices),
            },
            5 => Frame::Class {
                stream: stream(choices),
                change: number(choices),
                treatment: treatment(choices),
            },
            6 => Frame::Chunk {
                stream: stream(choices),
                end: number(choices),
            },
            3 => Frame::Extension {
                kind: FrameType(FrameType::EXTENSIONS.0 | choices.octet()),
                body: vec![9; usize::from(choices.octet())].into(),
            },
            _ => Frame::Pong(number(choices)),
        },
    }
}
