//! The session's core by itself: a scheduling decision with four subflows; full-size frames encoded
//! and parsed, beside a plain copy of the same bytes; a session with streams of which no path has a
//! subflow.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpbond_session::scheduler::{Backlog, SubflowView};
use mpbond_session::wire::{Frame, MAX_RECORD_BYTES, Secret};
use mpbond_session::{
    Capabilities, Destination, HelperId, Limits, PathInfo, PathNumber, PathSet, SchedulerKind,
    Session, SessionConfig, SessionId, StreamClass, StreamId, SubflowId, SubflowSetup, Treatment,
    pad,
};
use mpbond_units::{BitRate, Timestamp};

const ROUNDS: usize = 20;

/// The median of `ROUNDS` timings of `n` calls, per call.
fn time(n: u32, mut f: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..n {
                f();
            }
            start.elapsed() / n
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}

fn decisions() {
    let views: Vec<SubflowView> = (0..4)
        .map(|i| SubflowView {
            id: SubflowId(i),
            helper: (i > 0).then_some(HelperId(i)),
            idle: i == 3,
            pad: Duration::from_millis(u64::from(i) * 10 + 20),
            frame: Duration::from_millis(12),
            rtt: Duration::from_millis(50),
            throughput: BitRate::from_mbps(8.0),
        })
        .collect();
    for kind in [
        SchedulerKind::Mpbond,
        SchedulerKind::MinPad,
        SchedulerKind::MinRtt,
    ] {
        let mut scheduler = kind.build();
        let mut left = 0u64;
        let took = time(100_000, || {
            left = left.wrapping_add(977) & 0xf_ffff;
            let backlog = Backlog {
                unscheduled_bytes: left,
            };
            black_box(scheduler.decide(Timestamp::from_millis(5), black_box(&views), backlog));
        });
        println!(
            "decision, 4 subflows, {:<8} {:>8.1} ns   target 200 ns   {}",
            kind.name(),
            took.as_nanos() as f64,
            verdict(took < Duration::from_nanos(200))
        );
    }
    let hop = |throughput| pad::Hop {
        throughput,
        one_way_delay: 0.025,
    };
    let took = time(100_000, || {
        for i in 0..4u64 {
            black_box(pad::through_helper(
                black_box(i * 10_000),
                40_000,
                hop(1e6),
                hop(0.6e6),
            ));
        }
    });
    println!(
        "PAD of 4 subflows             {:>8.1} ns",
        took.as_nanos() as f64
    );
}

fn frames() {
    let payload = Bytes::from(vec![7u8; MAX_RECORD_BYTES - 32]);
    let frame = Frame::Data {
        stream: StreamId(5),
        offset: 1 << 33,
        fin: false,
        chunk_end: false,
        bytes: payload.clone(),
    };
    let mut out = Vec::with_capacity(MAX_RECORD_BYTES);
    let encode = time(20_000, || {
        out.clear();
        black_box(&frame).encode(&mut out);
        black_box(&out);
    });
    let record = Bytes::from(out.clone());
    let parse = time(20_000, || {
        let mut r = record.clone();
        black_box(Frame::parse(black_box(&mut r)).unwrap());
    });
    let mut copy = Vec::with_capacity(MAX_RECORD_BYTES);
    let plain = time(20_000, || {
        copy.clear();
        copy.extend_from_slice(black_box(&payload));
        black_box(&copy);
    });
    let both = (encode + parse).as_secs_f64();
    let rate = payload.len() as f64 / both / 1e9;
    println!(
        "encode and parse, full size   {rate:>8.1} GB/s target 4 GB/s   {}   ({:.2} x a plain copy's time)",
        verdict(rate > 4.0),
        both / plain.as_secs_f64()
    );
}

/// A primary whose proxy obeys sets of paths, with a subflow on path 0.
fn primary(now: Timestamp) -> (Session, SubflowId) {
    let mut session = Session::client(SessionConfig::default(), [1; 32]);
    let setup = SubflowSetup {
        path: PathNumber::new(0),
        ..SubflowSetup::default()
    };
    let subflow = session.add_subflow(now, setup);
    session.handle_room(subflow, 1 << 20);
    session.poll_transmit(now, &mut Vec::new()).unwrap();
    let mut answer = Vec::new();
    Frame::MpOk {
        random: Secret([2; 32]),
        session: SessionId([3; 16]),
        limits: Limits {
            max_data: 1 << 40,
            max_stream_data: 1 << 40,
            max_streams: 4_097,
        },
        capabilities: Capabilities {
            obeys_paths: true,
            ..Capabilities::of_this_version(None)
        },
    }
    .encode(&mut answer);
    session
        .handle_record(now, subflow, answer.into(), 100)
        .unwrap();
    (session, subflow)
}

/// Time for a stream of all paths to send 100 bytes, beside 4,096 that wait for path 1, or none.
fn parked_streams() {
    let now = Timestamp::from_millis(5);
    let write = |parked: u64| {
        let (mut session, subflow) = primary(now);
        let to = || Destination::Addr("192.0.2.1:80".parse().unwrap());
        let elsewhere = Treatment {
            paths: PathSet::of(PathNumber::new(1)).unwrap(),
            ..StreamClass::Bulk.into()
        };
        for _ in 0..parked {
            let id = session.open(now, to(), elsewhere).unwrap();
            session.write(id, Bytes::from_static(&[7; 1_000]));
        }
        let id = session.open(now, to(), StreamClass::Bulk).unwrap();
        let mut out = Vec::new();
        // Nothing is acknowledged: a subflow takes no data while it owes 8,192 frames.
        time(8_000 / ROUNDS as u32, || {
            session.handle_room(subflow, 1 << 20);
            session.write(id, Bytes::from_static(&[7; 100]));
            out.clear();
            let sent = session.poll_transmit(now, &mut out).unwrap();
            let path = PathInfo {
                bytes_arrived: sent.octets_end,
                ..PathInfo::default()
            };
            session.handle_path(now, subflow, path);
            black_box(session.poll_timeout());
        })
    };
    let (alone, beside) = (write(0), write(4_096));
    let more = beside.saturating_sub(alone);
    println!(
        "4,096 parked streams: a record takes {:>6.0} ns more   target 200 ns   {}   (alone {:.0} ns)",
        more.as_nanos() as f64,
        verdict(more < Duration::from_nanos(200)),
        alone.as_nanos() as f64
    );
}

fn main() {
    // `cargo test --benches` only checks that it runs.
    decisions();
    frames();
    parked_streams();
}
