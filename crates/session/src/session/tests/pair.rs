//! Two sessions and fluid channels between them. The channels are not TCP (the simulator has
//! that): each hop serves at a rate, delays, and acknowledges; enough to see decisions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mpbond_units::{BitRate, Timestamp};

use super::later::of_later_version;
use crate::handshake::parse_hello;
use crate::session::{Event, Read, Session};
use crate::wire::Destination;
use crate::*;

/// One direction of one hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopModel {
    pub(super) mbps: f64,
    pub(super) delay: Duration,
}

pub(super) fn hop(mbps: f64, delay_ms: u64) -> HopModel {
    HopModel {
        mbps,
        delay: Duration::from_millis(delay_ms),
    }
}

/// Octets that TCP acknowledges at once on the near hop.
const SEGMENT: u64 = 1_448;

/// One direction of a subflow: near hop, optional far hop, records in flight on each.
struct Channel {
    hops: Vec<HopModel>,
    /// Per hop: when its server is free again.
    free: Vec<Timestamp>,
    /// Records on the way: (arrival at the end, record, octets at its end).
    in_flight: VecDeque<(Timestamp, Bytes, u64)>,
    /// Near hop's acknowledgements: (when known, octets). They open the window, and so come from a
    /// black hole as well: its socket goes on taking octets, and tests see what the session gives a
    /// silent path, rather than what fits into a window.
    acks: VecDeque<(Timestamp, u64)>,
    acked: u64,
    /// TCP's cumulative acknowledgements there, segment by segment. The session tells silence by
    /// them, so that none comes from a black hole.
    segments: VecDeque<(Timestamp, u64)>,
    tcp_acked: u64,
    sent: u64,
}

impl Channel {
    fn new(hops: Vec<HopModel>) -> Self {
        Self {
            free: vec![Timestamp::ZERO; hops.len()],
            hops,
            in_flight: VecDeque::new(),
            acks: VecDeque::new(),
            acked: 0,
            segments: VecDeque::new(),
            tcp_acked: 0,
            sent: 0,
        }
    }

    fn send(&mut self, now: Timestamp, record: Bytes, octets_end: u64) {
        let mut at = now;
        for (i, h) in self.hops.iter().enumerate() {
            let start = at.max(self.free[i]);
            let done = start + BitRate::from_mbps(h.mbps).time_for(octets_end - self.sent);
            self.free[i] = done;
            at = done + h.delay;
            if i == 0 {
                self.acks.push_back((at + h.delay, octets_end));
                let of_segment = |octets: u64| {
                    let after = BitRate::from_mbps(h.mbps).time_for(octets - self.sent);
                    (start + after + h.delay * 2, octets)
                };
                let ends = (self.sent + SEGMENT..octets_end).step_by(SEGMENT as usize);
                self.segments
                    .extend(ends.chain([octets_end]).map(of_segment));
            }
        }
        self.sent = octets_end;
        self.in_flight.push_back((at, record, octets_end));
    }

    /// What waits for the last hop takes longer by as much as it is slower now.
    fn change(&mut self, now: Timestamp, hops: Vec<HopModel>) {
        let last = hops.len() - 1;
        let slower = self.hops[last].mbps / hops[last].mbps;
        for (at, ..) in &mut self.in_flight {
            *at = now + at.since(now).mul_f64(slower);
        }
        self.free[last] = now + self.free[last].since(now).mul_f64(slower);
        self.hops = hops;
    }

    /// A window of the near hop's delay times rate, and 30 ms of queue.
    fn window(&self) -> u64 {
        let h = self.hops[0];
        BitRate::from_mbps(h.mbps).bytes_in(h.delay * 2 + Duration::from_millis(30)) + 16_384
    }

    fn info(&mut self, now: Timestamp, blackhole: bool) -> PathInfo {
        while !blackhole && self.segments.front().is_some_and(|(t, _)| *t <= now) {
            self.tcp_acked = self.segments.pop_front().map_or(self.tcp_acked, |(_, o)| o);
        }
        while self.acks.front().is_some_and(|(t, _)| *t <= now) {
            self.acked = self.acks.pop_front().map_or(self.acked, |(_, o)| o);
        }
        let h = self.hops[0];
        PathInfo {
            cwnd_bytes: self.window(),
            srtt: h.delay * 2,
            min_rtt: h.delay * 2,
            bytes_arrived: self.acked,
            delivery_rate: BitRate::from_mbps(h.mbps),
            app_limited: false,
            slow_start: false,
            bytes_acked: self.tcp_acked,
            all_acked: self.tcp_acked == self.sent,
        }
    }
}

pub(super) struct Link {
    pub(super) id: SubflowId,
    path: Option<PathNumber>,
    up: Channel,
    down: Channel,
    pub(super) alive: bool,
    /// Swallows everything, both ways, without a word.
    pub(super) blackhole: bool,
    /// The server knows it.
    accepted: bool,
    exporter: [u8; 32],
}

/// A primary and a proxy.
pub(super) struct Pair {
    pub(super) now: Timestamp,
    pub(super) client: Session,
    pub(super) server: Option<Session>,
    pub(super) links: Vec<Link>,
    pub(super) client_events: Vec<Event>,
    pub(super) server_events: Vec<Event>,
    /// What each end's application has read, by stream, and how that ended.
    pub(super) client_got: BTreeMap<StreamId, (Vec<u8>, Option<Read>)>,
    pub(super) server_got: BTreeMap<StreamId, (Vec<u8>, Option<Read>)>,
    pub(super) server_errors: Vec<SubflowError>,
    /// DATA frames of the server that end a chunk: stream and offset of the end.
    pub(super) chunk_ends: Vec<(StreamId, u64)>,
    /// Streams that the client's and the server's application leave unread.
    pub(super) client_ignores: Vec<StreamId>,
    pub(super) server_ignores: Vec<StreamId>,
    pub(super) config: SessionConfig,
    /// Whether the client's and the server's records are those of a later version.
    pub(super) later: [bool; 2],
}

impl Pair {
    pub(super) fn new(config: SessionConfig) -> Self {
        Self {
            now: Timestamp::from_millis(1),
            client: Session::client(config.clone(), [1; 32]),
            server: None,
            links: Vec::new(),
            client_events: Vec::new(),
            server_events: Vec::new(),
            client_got: BTreeMap::new(),
            server_got: BTreeMap::new(),
            server_errors: Vec::new(),
            chunk_ends: Vec::new(),
            client_ignores: Vec::new(),
            server_ignores: Vec::new(),
            config,
            later: [false; 2],
        }
    }

    /// Adds a subflow; hops named from the primary outward: the pipe first.
    pub(super) fn join(&mut self, hops: &[HopModel]) -> SubflowId {
        let helper = (hops.len() > 1).then_some(HelperId(self.links.len() as u32));
        self.join_as(hops, helper, Role::Regular, None)
    }

    /// Adds a subflow on the path of a number; a direct one, if it has one hop.
    pub(super) fn join_on(&mut self, path: u64, role: Role, hops: &[HopModel]) -> SubflowId {
        let helper = (hops.len() > 1).then_some(HelperId(path as u32));
        self.join_as(hops, helper, role, Some(number(path)))
    }

    /// Makes the proxy one that obeys sets of paths, as if it had announced it.
    pub(super) fn announce_paths(&mut self) {
        self.server
            .as_mut()
            .expect("established")
            .config
            .obeys_paths = true;
        let peer = self.client.identity.peer.as_mut();
        peer.expect("established").obeys_paths = true;
    }

    /// Adds an express beside the subflow `other`, over hops of its own.
    pub(super) fn join_express(&mut self, other: SubflowId, hops: &[HopModel]) -> SubflowId {
        let place = self.links.iter().position(|l| l.id == other);
        let helper = place.map(|i| HelperId(i as u32));
        let path = place.and_then(|i| self.links[i].path);
        self.join_as(hops, helper, Role::Express, path)
    }

    fn join_as(
        &mut self,
        hops: &[HopModel],
        helper: Option<HelperId>,
        role: Role,
        path: Option<PathNumber>,
    ) -> SubflowId {
        let exporter = [self.links.len() as u8 + 1; 32];
        // An express has the name of the regular one beside it.
        let name = match helper {
            Some(helper) => format!("helper{}", helper.0),
            None => format!("link{}", self.links.len()),
        };
        let setup = SubflowSetup {
            name,
            helper,
            path,
            role,
            exporter,
            ..SubflowSetup::default()
        };
        let id = self.client.add_subflow(self.now, setup);
        let back: Vec<_> = hops.iter().rev().copied().collect();
        self.links.push(Link {
            id,
            path,
            up: Channel::new(hops.to_vec()),
            down: Channel::new(back),
            alive: true,
            blackhole: false,
            accepted: false,
            exporter,
        });
        id
    }

    pub(super) fn set_hops(&mut self, id: SubflowId, hops: &[HopModel]) {
        if let Some(l) = self.links.iter_mut().find(|l| l.id == id) {
            l.up.change(self.now, hops.to_vec());
            l.down
                .change(self.now, hops.iter().rev().copied().collect());
        }
    }

    pub(super) fn kill(&mut self, id: SubflowId) {
        if let Some(l) = self.links.iter_mut().find(|l| l.id == id) {
            l.alive = false;
        }
        self.client.handle_subflow_closed(self.now, id);
        if let Some(s) = &mut self.server {
            s.handle_subflow_closed(self.now, id);
        }
    }

    /// Octets that the client has put on a subflow.
    pub(super) fn octets_up(&self, id: SubflowId) -> u64 {
        let link = self.links.iter().find(|l| l.id == id);
        link.map_or(0, |l| l.up.sent)
    }

    /// Octets that the server has put on a subflow.
    pub(super) fn octets_down(&self, id: SubflowId) -> u64 {
        let link = self.links.iter().find(|l| l.id == id);
        link.map_or(0, |l| l.down.sent)
    }

    pub(super) fn server(&mut self) -> &mut Session {
        self.server.as_mut().expect("no session yet")
    }

    /// Runs until `until`, or until `done`.
    pub(super) fn run(&mut self, until: Timestamp, mut done: impl FnMut(&mut Self) -> bool) {
        let mut rounds = 0;
        while self.now < until {
            self.pump();
            if done(self) {
                return;
            }
            let next = self.next_event().unwrap_or(until).min(until);
            // Time moves on in steps that let windows open between events.
            self.now = next
                .max(self.now + Duration::from_micros(100))
                .min(self.now + Duration::from_millis(2).max(next.since(self.now)));
            rounds += 1;
            assert!(rounds < 2_000_000, "no end in sight: {:?}", self.client);
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        let arrivals = self.links.iter().filter(|l| l.alive).flat_map(|l| {
            [
                l.up.in_flight.front().map(|x| x.0),
                l.down.in_flight.front().map(|x| x.0),
                l.up.acks.front().map(|x| x.0),
                l.down.acks.front().map(|x| x.0),
            ]
        });
        let timers = [
            self.client.poll_timeout(),
            self.server.as_ref().and_then(Session::poll_timeout),
        ];
        arrivals.chain(timers).flatten().min()
    }

    fn pump(&mut self) {
        self.deliver();
        // As a driver does: not before something is due.
        let now = self.now;
        for end in std::iter::once(&mut self.client).chain(&mut self.server) {
            if end.poll_timeout().is_some_and(|due| due <= now) {
                end.handle_timeout(now);
            }
        }
        self.events();
        self.read_all();
        self.transmit();
        self.events();
        for end in [Some(&self.client), self.server.as_ref()] {
            end.iter().for_each(|end| end.streams.check_sums());
        }
    }

    fn deliver(&mut self) {
        for i in 0..self.links.len() {
            loop {
                let l = &mut self.links[i];
                let due = |c: &Channel| c.in_flight.front().is_some_and(|x| x.0 <= self.now);
                if !l.alive || l.blackhole {
                    l.up.in_flight.retain(|_| l.alive);
                    break;
                }
                if due(&l.up) {
                    let (_, record, end) = l.up.in_flight.pop_front().expect("due");
                    self.at_server(i, record, end);
                } else if due(&l.down) {
                    let (_, record, end) = l.down.in_flight.pop_front().expect("due");
                    if let Err(e) = self.client.handle_record(self.now, l.id, record, end) {
                        l.alive = false;
                        if !e.by_peer {
                            panic!("the client found fault: {e}");
                        }
                    }
                } else {
                    break;
                }
            }
        }
    }

    fn at_server(&mut self, i: usize, record: Bytes, end: u64) {
        let l = &mut self.links[i];
        let result = if l.accepted {
            match &mut self.server {
                Some(s) => s.handle_record(self.now, l.id, record, end),
                None => return,
            }
        } else {
            let (hello, rest) = parse_hello(record).expect("hello");
            let config = self.config.clone();
            let server = self.server.get_or_insert_with(|| {
                Session::server(config, SessionId([7; 16]), [2; 32], &hello)
            });
            let setup = SubflowSetup {
                helper: (l.up.hops.len() > 1).then_some(HelperId(i as u32)),
                exporter: l.exporter,
                rx_octets: end,
                ..SubflowSetup::default()
            };
            let accepted = server.accept_subflow(self.now, setup, &hello);
            l.accepted = accepted.is_ok();
            accepted.and_then(|id| server.handle_record(self.now, id, rest, end))
        };
        if let Err(e) = result {
            self.server_errors.push(e);
            self.links[i].alive = false;
            let id = self.links[i].id;
            self.client.handle_subflow_closed(self.now, id);
        }
    }

    fn events(&mut self) {
        while let Some(e) = self.client.poll_event() {
            if let Event::SubflowClosed { subflow, .. } = &e {
                self.close(*subflow);
            }
            self.client_events.push(e);
        }
        while let Some(e) = self.server.as_mut().and_then(Session::poll_event) {
            if let Event::SubflowClosed { subflow, .. } = &e {
                self.close(*subflow);
            }
            self.server_events.push(e);
        }
    }

    /// One end has closed the connection: the other one sees it, unless nothing gets through.
    fn close(&mut self, id: SubflowId) {
        let Some(l) = self.links.iter_mut().find(|l| l.id == id) else {
            return;
        };
        l.alive = false;
        if !l.blackhole {
            self.client.handle_subflow_closed(self.now, id);
            if let Some(s) = &mut self.server {
                s.handle_subflow_closed(self.now, id);
            }
        }
    }

    fn read_all(&mut self) {
        let ignored = self.client_ignores.clone();
        read_end(self.now, &mut self.client, &mut self.client_got, &ignored);
        if let Some(s) = &mut self.server {
            read_end(self.now, s, &mut self.server_got, &self.server_ignores);
        }
    }

    fn transmit(&mut self) {
        for client in [true, false] {
            let session = if client {
                &mut self.client
            } else {
                match &mut self.server {
                    Some(s) => s,
                    None => continue,
                }
            };
            for l in self.links.iter_mut().filter(|l| l.alive) {
                let c = if client { &mut l.up } else { &mut l.down };
                let info = c.info(self.now, l.blackhole);
                let room = (c.window() + c.acked).saturating_sub(c.sent);
                session.handle_path(self.now, l.id, info);
                session.handle_room(l.id, room);
            }
            let mut out = Vec::new();
            while let Some(mut t) = session.poll_transmit(self.now, &mut out) {
                let mut record = Bytes::from(std::mem::take(&mut out));
                let link = self.links.iter().find(|l| l.id == t.subflow);
                check_sets(session, &record, link.and_then(|l| l.path));
                if !client {
                    self.chunk_ends.extend(chunk_ends(&record));
                }
                if self.later[usize::from(!client)] {
                    let longer = of_later_version(&record);
                    t.octets_end += (longer.len() - record.len()) as u64;
                    session.handle_octets(t.subflow, t.octets_end);
                    record = longer;
                }
                assert!(record.len() <= wire::MAX_RECORD_BYTES);
                if let Some(l) = self.links.iter_mut().find(|l| l.id == t.subflow) {
                    let c = if client { &mut l.up } else { &mut l.down };
                    c.send(self.now, record, t.octets_end);
                }
            }
        }
    }

    /// Opens a stream from the client.
    pub(super) fn open(&mut self) -> StreamId {
        let destination = Destination::Name {
            host: "origin.test".to_owned(),
            port: 80,
        };
        self.client
            .open(self.now, destination, StreamClass::Bulk)
            .expect("stream")
    }

    pub(super) fn opened(&self) -> Vec<StreamId> {
        self.server_events
            .iter()
            .filter_map(|e| match e {
                Event::StreamOpened { stream, .. } => Some(*stream),
                _ => None,
            })
            .collect()
    }
}

/// Checks that a subflow of this path may carry the frames of a record: each is of a stream that
/// has the path in its set, or a CLASS, RESET or STOP.
fn check_sets(session: &Session, record: &Bytes, path: Option<PathNumber>) {
    let mut rest = record.clone();
    while !rest.is_empty() {
        let frame = wire::Frame::parse(&mut rest).expect("a frame of ours");
        let (wire::Frame::Open { stream, .. }
        | wire::Frame::Connected { stream }
        | wire::Frame::Data { stream, .. }
        | wire::Frame::MaxStreamData { stream, .. }
        | wire::Frame::Chunk { stream, .. }) = frame
        else {
            continue;
        };
        let set = session.streams.get(stream).expect("open").treatment.paths;
        assert!(
            set.contains(path),
            "a frame of {stream}, of {set:?}, on {path:?}"
        );
    }
}

/// Ends of chunks by the DATA frames of a record.
fn chunk_ends(record: &Bytes) -> Vec<(StreamId, u64)> {
    let mut rest = record.clone();
    let frames = std::iter::from_fn(|| match rest.is_empty() {
        true => None,
        false => Some(wire::Frame::parse(&mut rest).expect("a frame of ours")),
    });
    let end_of = |frame| match frame {
        wire::Frame::Data {
            stream,
            offset,
            chunk_end: true,
            bytes,
            ..
        } => Some((stream, offset + bytes.len() as u64)),
        _ => None,
    };
    frames.filter_map(end_of).collect()
}

fn read_end(
    now: Timestamp,
    session: &mut Session,
    got: &mut BTreeMap<StreamId, (Vec<u8>, Option<Read>)>,
    ignored: &[StreamId],
) {
    let ids: Vec<_> = session.streams().iter().map(|s| s.id).collect();
    for id in ids.into_iter().filter(|id| !ignored.contains(id)) {
        loop {
            let read = session.read(now, id);
            let entry = got.entry(id).or_default();
            match read {
                Read::Data(b) => entry.0.extend_from_slice(&b),
                Read::Pending => break,
                end => {
                    entry.1 = Some(end);
                    break;
                }
            }
        }
    }
}

pub(super) fn number(path: u64) -> PathNumber {
    PathNumber::new(path).expect("a number of a path")
}

/// A set of paths.
pub(super) fn paths(numbers: &[u64]) -> PathSet {
    PathSet::of(numbers.iter().copied().map(number)).expect("a path")
}

/// Bytes that tell where they belong.
pub(super) fn pattern(len: usize) -> Bytes {
    (0..len as u32)
        .map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8)
        .collect()
}

pub(super) fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// A direct subflow and one through a helper, joined.
pub(super) fn joined(config: SessionConfig) -> (Pair, SubflowId, SubflowId) {
    let mut p = Pair::new(config);
    let direct = p.join(&[hop(8.0, 25)]);
    let helper = p.join(&[hop(5.0, 2), hop(10.0, 25)]);
    p.run(at(1_000), |_| false);
    (p, direct, helper)
}

/// The client asks, the server answers with `len` bytes; returns when all had arrived.
pub(super) fn download(p: &mut Pair, len: usize, limit_ms: u64) -> Timestamp {
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.client.finish(id);
    let want = pattern(len);
    let mut answered = false;
    let deadline = p.now + Duration::from_millis(limit_ms);
    p.run(deadline, |p| {
        if !answered && p.opened().contains(&id) {
            answered = true;
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        p.client_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    let (got, end) = p.client_got.remove(&id).expect("nothing arrived");
    assert_eq!(end, Some(Read::Fin), "after {} of {len}", got.len());
    assert!(got == want, "bytes differ");
    p.now
}
