//! A session with many open streams: time of an event beside 10, 1,000 and 10,000 streams that are
//! idle, and beside 1,000 that wait.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpbond_session::{
    Destination, Event, OthersFirst, PathInfo, Read, Session, SessionConfig, SessionId,
    StreamClass, StreamId, SubflowId, SubflowSetup, parse_hello,
};
use mpbond_units::{BitRate, Timestamp};

const IDLE: [u64; 3] = [10, 1_000, 10_000];

/// Octets of a record on the wire are at most this many more than its plaintext.
const ROOM: u64 = 1 << 30;

/// Time from a record's start to its arrival, and between two events.
const STEP: Duration = Duration::from_micros(100);

/// A primary and a proxy with one subflow, on which every record arrives at once.
struct Pair {
    now: Timestamp,
    ends: [Session; 2],
    subflow: SubflowId,
    record: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let now = Timestamp::from_millis(5);
        let config = SessionConfig {
            max_streams: 20_000,
            ..SessionConfig::default()
        };
        let mut client = Session::client(config.clone(), [1; 32]);
        let subflow = client.add_subflow(now, SubflowSetup::default());
        client.handle_room(subflow, ROOM);
        let mut hello = Vec::new();
        client.poll_transmit(now, &mut hello).unwrap();
        let (hello, _) = parse_hello(hello.into()).unwrap();
        let mut server = Session::server(config, SessionId([3; 16]), [2; 32], &hello);
        server
            .accept_subflow(now, SubflowSetup::default(), &hello)
            .unwrap();
        let ends = [client, server];
        let record = Vec::new();
        let mut pair = Self {
            now,
            ends,
            subflow,
            record,
        };
        pair.settle();
        pair
    }

    fn client(&mut self) -> &mut Session {
        &mut self.ends[0]
    }

    fn server(&mut self) -> &mut Session {
        &mut self.ends[1]
    }

    /// Carries one record from an end to the other, if it has one to send.
    fn carry(&mut self, from: usize) -> bool {
        self.ends[from].handle_room(self.subflow, ROOM);
        self.record.clear();
        let Some(sent) = self.ends[from].poll_transmit(self.now, &mut self.record) else {
            return false;
        };
        let path = PathInfo {
            cwnd_bytes: 1 << 20,
            srtt: STEP,
            min_rtt: STEP,
            bytes_arrived: sent.octets_end,
            delivery_rate: BitRate::from_mbps(100.0),
            ..PathInfo::default()
        };
        self.ends[from].handle_path(self.now, self.subflow, path);
        let record = Bytes::copy_from_slice(&self.record);
        self.ends[1 - from]
            .handle_record(self.now, self.subflow, record, sent.octets_end)
            .unwrap();
        true
    }

    /// Everything that waits is carried, and events are taken.
    fn settle(&mut self) {
        loop {
            self.now += STEP;
            let mut moved = false;
            for from in [0, 1] {
                let due = self.ends[from].poll_timeout();
                if due.is_some_and(|due| due <= self.now) {
                    self.ends[from].handle_timeout(self.now);
                }
                while self.carry(from) {
                    moved = true;
                }
                while let Some(event) = self.ends[from].poll_event() {
                    black_box(event);
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn open(&mut self) -> StreamId {
        let now = self.now;
        let to = Destination::Addr("192.0.2.1:80".parse().unwrap());
        let id = self.client().open(now, to, StreamClass::Bulk).unwrap();
        self.client().write(id, Bytes::from_static(&[7; 100]));
        id
    }

    /// Reads what has arrived of a stream.
    fn read(&mut self, end: usize, id: StreamId) -> usize {
        let mut read = 0;
        while let Read::Data(bytes) = self.ends[end].read(self.now, id) {
            read += black_box(bytes).len();
        }
        read
    }

    /// Opens so many streams, one after the other, whose first bytes arrive and are read.
    fn with(&mut self, streams: u64) -> Duration {
        let began = Instant::now();
        for _ in 0..streams {
            let id = self.open();
            self.settle();
            self.read(1, id);
        }
        began.elapsed() / streams.max(1) as u32
    }

    /// Time of one call of `f`, as the median of so many.
    fn time(&mut self, calls: usize, mut f: impl FnMut(&mut Self)) -> f64 {
        let mut times: Vec<_> = (0..calls)
            .map(|_| {
                let began = Instant::now();
                f(self);
                began.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[calls / 2].as_nanos() as f64 / 1e3
    }
}

/// 16 KiB of a download, from the proxy's application to the primary's, with acknowledgements.
fn download(pair: &mut Pair, id: StreamId) -> f64 {
    pair.time(1_000, |pair| {
        pair.server().write(id, vec![7; 16_000].into());
        pair.settle();
        assert_eq!(pair.read(0, id), 16_000);
        pair.settle();
    })
}

fn idle(streams: u64) {
    let mut pair = Pair::new();
    let opening = pair.with(streams).as_nanos() as f64 / 1e3;
    let id = pair.open();
    pair.settle();
    let small = pair.time(1_000, |pair| {
        pair.client().write(id, Bytes::from_static(&[7; 100]));
        pair.settle();
        pair.read(1, id);
    });
    let large = download(&mut pair, id);
    // An application leaves bytes alone.
    let stalled = pair.open();
    pair.settle();
    pair.read(1, stalled);
    pair.server().write(stalled, vec![7; 10_000].into());
    pair.settle();
    pair.now += Duration::from_secs(3);
    pair.settle();
    let beside_stalled = download(&mut pair, id);
    let timeout = pair.time(100, |pair| {
        let now = pair.now;
        pair.client().handle_timeout(now);
    });
    let ends = pair.time(100, |pair| {
        let id = pair.open();
        pair.client().finish(id);
        pair.settle();
        pair.read(1, id);
        pair.server().finish(id);
        pair.settle();
        pair.read(0, id);
        pair.settle();
    });
    println!(
        "{streams:>6} idle streams: opening each {opening:.1} us; 100 bytes {small:.1} us; 16 kB down \
         {large:.1} us, beside a stalled stream {beside_stalled:.1} us; timeout {timeout:.2} us; a \
         whole exchange {ends:.1} us"
    );
}

/// Streams that have bytes to send, which give way to others on the link.
fn waiting(streams: u64) {
    let mut pair = Pair::new();
    pair.with(streams + 1);
    let (subflow, now) = (pair.subflow, pair.now);
    let first = OthersFirst {
        octets: 1 << 20,
        least: BitRate::ZERO,
        is_in_use: false,
    };
    pair.client().set_others_first(subflow, first);
    for n in 0..streams {
        pair.client().write(StreamId(n), vec![7; 20_000].into());
    }
    while pair.carry(0) {}
    let mut out = Vec::new();
    let asked = pair.time(1_000, |pair| {
        pair.client().handle_room(subflow, ROOM);
        assert!(pair.client().poll_transmit(now, &mut out).is_none());
    });
    let end = pair.time(200, |pair| {
        let id = pair.open();
        pair.settle();
        pair.client().finish(id);
        pair.carry(0);
    });
    println!(
        "{streams:>6} waiting streams: a record that gives way {asked:.1} us; a stream that ends \
         {end:.1} us"
    );
}

/// Streams whose applications wait to write, since memory for sending is full; the other end reads
/// what comes, and an application writes as soon as it may.
fn blocked(streams: u64) {
    let mut pair = Pair::new();
    pair.with(streams);
    let fill = |pair: &mut Pair, id| {
        let mut wrote = 0;
        while let budget @ 1.. = pair.client().send_budget(id) {
            wrote += budget;
            pair.client().write(id, vec![7; budget as usize].into());
        }
        wrote
    };
    for n in 0..streams {
        fill(&mut pair, StreamId(n));
    }
    let mut wrote = 0;
    const RECORDS: u32 = 3_000;
    let began = Instant::now();
    for _ in 0..RECORDS {
        let pair = &mut pair;
        pair.now += STEP;
        pair.carry(0);
        while let Some(event) = pair.server().poll_event() {
            if let Event::StreamReadable(id) = event {
                pair.read(1, id);
            }
        }
        pair.carry(1);
        while let Some(event) = pair.client().poll_event() {
            if let Event::StreamWritable(id) = event {
                wrote += fill(pair, id);
            }
        }
    }
    // Not each has an acknowledgement: the mean.
    let took = began.elapsed().as_nanos() as f64 / 1e3 / f64::from(RECORDS);
    assert!(wrote > 1_000 * 10_000);
    println!("{streams:>6} streams that wait for memory: a record {took:.1} us");
}

fn main() {
    IDLE.into_iter().for_each(idle);
    [10, 1_000].into_iter().for_each(waiting);
    IDLE.into_iter().for_each(blocked);
}
