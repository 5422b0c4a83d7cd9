//! Two honest sessions and a network that does what a fuzzer says. What one application wrote is
//! what the other one reads, byte for byte, whatever dies, goes silent or comes back meanwhile; and
//! when the network is good again, everything ends.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mpbond_session::wire::MAX_RECORD_BYTES;
use mpbond_session::{
    CloseCode, Destination, Event, Hello, HelperId, PathNumber, PathSet, Read, ResetCode, Role,
    SchedulerKind, Session, SessionConfig, SessionId, StreamClass, StreamId, SubflowSetup,
    Treatment, close_record, parse_hello,
};
use mpbond_units::Timestamp;

use super::wire::{Channel, Link};
use crate::choices::Choices;

/// Octets that every connection has carried before its hello.
const HANDSHAKE_OCTETS: u64 = 400;

/// Links at a time, well below what a session takes.
const MAX_LINKS: usize = 4;

/// Numbered paths: a link has the one or the other, in turn.
const PATHS: u8 = 2;

/// Streams in one run.
const MAX_STREAMS: usize = 12;

/// Rounds of at least a millisecond in which everything has to end once the network is good.
const MAX_ROUNDS: usize = 60_000;

/// One direction of a stream, as its two applications see it.
#[derive(Default, Debug)]
struct Flow {
    written: u64,
    finished: bool,
    /// The writer has given up, or was stopped.
    reset: bool,
    read: u64,
    /// The reader asked for no more.
    stopped: bool,
    ended: bool,
}

/// The bytes of a stream: the value of each depends on its position.
fn byte(stream: StreamId, up: bool, offset: u64) -> u8 {
    let mut n = offset ^ stream.0 << 48 ^ u64::from(up) << 63;
    n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n >> 56) as u8
}

struct World {
    now: Timestamp,
    config: SessionConfig,
    client: Session,
    server: Option<Session>,
    links: Vec<Link>,
    /// Of each stream: up, down.
    flows: BTreeMap<StreamId, [Flow; 2]>,
    announced: Vec<StreamId>,
    /// Some end has ended the session, which resets streams.
    lost: bool,
    joined: u8,
}

/// Runs the steps that the octets encode.
pub fn pair(octets: &[u8]) {
    let mut choices = Choices::new(octets);
    let mut world = World::new(&mut choices);
    world.join(&mut choices);
    while !choices.is_empty() {
        world.step(&mut choices);
        world.settle();
    }
    world.end();
}

impl World {
    fn new(choices: &mut Choices<'_>) -> Self {
        let schedulers = [
            SchedulerKind::Mpbond,
            SchedulerKind::MinRtt,
            SchedulerKind::MinPad,
            SchedulerKind::RoundRobin,
            SchedulerKind::Redundant,
        ];
        let mut config = SessionConfig {
            scheduler: schedulers[choices.below(schedulers.len())],
            obeys_paths: true,
            ..SessionConfig::default()
        };
        if choices.octet() & 1 == 1 {
            // Windows so small that they are always in the way.
            config.receive_window_bytes = 64 << 10;
            config.initial_stream_window_bytes = 16 << 10;
            config.stalled_memory_bytes = 64 << 10;
            config.send_memory_bytes = 64 << 10;
        }
        Self {
            now: Timestamp::from_millis(1),
            client: Session::client(config.clone(), [1; 32]),
            config,
            server: None,
            links: Vec::new(),
            flows: BTreeMap::new(),
            announced: Vec::new(),
            lost: false,
            joined: 0,
        }
    }

    fn join(&mut self, choices: &mut Choices<'_>) {
        if self.links.len() >= MAX_LINKS || self.lost || self.joined == u8::MAX {
            return;
        }
        self.add_link(choices);
    }

    fn add_link(&mut self, choices: &mut Choices<'_>) {
        self.joined += 1;
        let kind = choices.octet();
        let helper = (kind & 1 == 1).then_some(HelperId(u32::from(kind >> 1 & 3)));
        let setup = SubflowSetup {
            name: format!("link{}", self.joined),
            helper,
            role: Role::regular_unless(kind & 8 == 8),
            exporter: [self.joined; 32],
            path: PathNumber::new((self.joined % PATHS).into()),
            tx_octets: HANDSHAKE_OCTETS,
            rx_octets: HANDSHAKE_OCTETS,
            ..SubflowSetup::default()
        };
        let id = self.client.add_subflow(self.now, setup);
        let channel = || Channel {
            sent: HANDSHAKE_OCTETS,
            arrived: HANDSHAKE_OCTETS,
            ..Channel::default()
        };
        self.links.push(Link {
            id,
            helper,
            exporter: [self.joined; 32],
            path: self.joined % PATHS,
            up: channel(),
            down: channel(),
            accepted: false,
            gone: false,
            rtt: Duration::from_millis(5 + u64::from(kind >> 4) * 20),
        });
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let what = choices.octet();
        match what & 15 {
            0 | 1 => self.open(choices),
            2 | 3 => self.write(choices),
            4 => self.with_flow(choices, |w, end, id, flow| {
                if let Some(s) = w.session(end).filter(|_| !flow.reset) {
                    s.finish(id);
                    flow.finished = true;
                }
            }),
            5 => self.with_flow(choices, |w, end, id, flow| {
                let now = w.now;
                if let Some(s) = w.session(end) {
                    s.reset(now, id, ResetCode::Cancelled);
                    flow.reset = true;
                }
            }),
            6 => self.stop(choices),
            7 => self.join(choices),
            8 => self.kill(choices),
            9 => {
                if let Some(link) = pick(&mut self.links, choices) {
                    link.up.silent = what & 16 == 0;
                    link.down.silent = what & 32 == 0;
                }
            }
            10 | 11 => {
                let most = choices.below(64) + 1;
                let _ = self.deliver(most);
            }
            12 => self.read(usize::from(what >> 4), false),
            13 => self.now += Duration::from_millis(u64::from(choices.octet())),
            14 => self.now += Duration::from_millis(u64::from(choices.short() % 20_000)),
            _ => {
                let (backup, end) = (what & 16 == 16, usize::from(what >> 5 & 1));
                if let Some(link) = pick(&mut self.links, choices) {
                    let id = link.id;
                    if let Some(s) = self.session(end) {
                        s.set_backup(id, backup);
                    }
                }
            }
        }
    }

    /// 0 is the client, 1 the server.
    fn session(&mut self, end: usize) -> Option<&mut Session> {
        match end {
            0 => Some(&mut self.client),
            _ => self.server.as_mut(),
        }
    }

    fn open(&mut self, choices: &mut Choices<'_>) {
        if self.flows.len() >= MAX_STREAMS {
            return;
        }
        let kind = choices.octet();
        let class = match kind & 1 {
            0 => StreamClass::Bulk,
            _ => StreamClass::Interactive,
        };
        let paths = (0..PATHS).filter(|n| kind >> (1 + n) & 1 != 0);
        let paths = paths.filter_map(|n| PathNumber::new(n.into()));
        // Before the proxy has answered, it is not known to obey sets.
        let paths = PathSet::of(paths).filter(|_| self.client.obeys_paths());
        let treatment = Treatment {
            priority: kind >> 3 & Treatment::MAX_PRIORITY,
            paths: paths.unwrap_or(PathSet::ALL),
            ..class.into()
        };
        let destination = Destination::Name {
            host: "origin.test".to_owned(),
            port: 80,
        };
        if let Ok(id) = self.client.open(self.now, destination, treatment) {
            self.flows.insert(id, Default::default());
        }
    }

    /// An application that has a stream does something with what it sends.
    fn with_flow(
        &mut self,
        choices: &mut Choices<'_>,
        act: impl FnOnce(&mut Self, usize, StreamId, &mut Flow),
    ) {
        let end = usize::from(choices.octet() & 1);
        let known: Vec<_> = match end {
            0 => self.flows.keys().copied().collect(),
            _ => self.announced.clone(),
        };
        let Some(id) = known.get(choices.below(known.len())).copied() else {
            return;
        };
        let Some(mut flows) = self.flows.remove(&id) else {
            return;
        };
        act(self, end, id, &mut flows[end]);
        self.flows.insert(id, flows);
    }

    fn write(&mut self, choices: &mut Choices<'_>) {
        let wanted = choices.number() % 40_000;
        self.with_flow(choices, |w, end, id, flow| {
            w.write_to(end, id, flow, wanted)
        });
    }

    fn write_to(&mut self, end: usize, id: StreamId, flow: &mut Flow, wanted: u64) {
        let Some(session) = self.session(end) else {
            return;
        };
        // No budget is left once the sending half is over.
        let bytes = wanted.min(session.send_budget(id));
        let piece: Bytes = (flow.written..flow.written + bytes)
            .map(|at| byte(id, end == 0, at))
            .collect();
        if !piece.is_empty() {
            session.write(id, piece);
            flow.written += bytes;
        }
    }

    fn stop(&mut self, choices: &mut Choices<'_>) {
        let end = usize::from(choices.octet() & 1);
        let known: Vec<_> = match end {
            0 => self.flows.keys().copied().collect(),
            _ => self.announced.clone(),
        };
        let Some(id) = known.get(choices.below(known.len())).copied() else {
            return;
        };
        let now = self.now;
        if let Some(session) = self.session(end) {
            session.stop(now, id, ResetCode::Cancelled);
        }
        if let Some(flow) = self.flows.get_mut(&id).map(|f| &mut f[1 - end]) {
            flow.stopped = true;
        }
    }

    fn kill(&mut self, choices: &mut Choices<'_>) {
        let how = choices.octet();
        let at = choices.below(self.links.len());
        if at >= self.links.len() {
            return;
        }
        if how & 1 == 1 {
            // Half-open: one end learns of it now, the other one later.
            let id = self.links[at].id;
            let now = self.now;
            self.links[at].gone = true;
            let end = usize::from(how >> 1 & 1);
            if let Some(s) = self.session(end) {
                s.handle_subflow_closed(now, id);
            }
        } else {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        let link = self.links.remove(at);
        self.client.handle_subflow_closed(self.now, link.id);
        if let Some(s) = &mut self.server {
            s.handle_subflow_closed(self.now, link.id);
        }
    }

    /// Delivers up to so many records, on all links in turn.
    fn deliver(&mut self, most: usize) -> bool {
        let mut ever = false;
        for _ in 0..most {
            let mut any = false;
            let mut at = 0;
            while at < self.links.len() {
                let before = self.links.len();
                any |= self.deliver_one(at);
                at += usize::from(self.links.len() == before);
            }
            if !any {
                break;
            }
            ever = true;
        }
        ever
    }

    fn deliver_one(&mut self, at: usize) -> bool {
        let now = self.now;
        let link = &mut self.links[at];
        if link.gone {
            return false;
        }
        let id = link.id;
        let mut any = false;
        if let Some((record, end)) = link.down.deliver() {
            any = true;
            let result = self.client.handle_record(now, id, record, end);
            if let Err(e) = result {
                assert!(
                    e.by_peer,
                    "the client found fault with an honest proxy: {e}"
                );
                self.remove(at);
                return true;
            }
        }
        let link = &mut self.links[at];
        if let Some((record, end)) = link.up.deliver() {
            any = true;
            self.at_server(at, record, end);
        }
        any
    }

    fn at_server(&mut self, at: usize, record: Bytes, end: u64) {
        let now = self.now;
        let link = &mut self.links[at];
        let id = link.id;
        if link.accepted {
            let result = match &mut self.server {
                Some(s) => s.handle_record(now, id, record, end),
                None => Ok(()),
            };
            if let Err(e) = result {
                assert!(
                    e.by_peer,
                    "the proxy found fault with an honest primary: {e}"
                );
                self.remove(at);
            }
            return;
        }
        let (hello, rest) = match parse_hello(record) {
            Ok(x) => x,
            Err(e) => panic!("an honest hello: {e}"),
        };
        let server = match (&hello, &mut self.server) {
            // The answer to an earlier hello died with its subflow. A primary sends nothing before
            // it has one, so that nothing is lost with that session.
            (Hello::Capable { .. }, _) => {
                assert!(self.announced.is_empty(), "streams before the session");
                let config = self.config.clone();
                let id = SessionId([self.joined; 16]);
                self.server
                    .insert(Session::server(config, id, [2; 32], &hello))
            }
            (Hello::Join { .. }, Some(server)) if !server.is_lost() => server,
            (Hello::Join { .. }, _) => {
                let bye = close_record(CloseCode::UnknownSession, "no such session");
                let octets = link.down.sent + bye.len() as u64 + 22;
                link.down.send(bye.into(), octets);
                return;
            }
        };
        let link = &mut self.links[at];
        let setup = SubflowSetup {
            helper: link.helper,
            exporter: link.exporter,
            tx_octets: HANDSHAKE_OCTETS,
            rx_octets: end,
            ..SubflowSetup::default()
        };
        let accepted = server
            .accept_subflow(now, setup, &hello)
            .and_then(|id| server.handle_record(now, id, rest, end));
        link.accepted = true;
        if let Err(e) = accepted {
            panic!("the proxy refused an honest hello: {e}");
        }
    }

    /// One end's application reads: one stream, or all of them to what there is.
    fn read(&mut self, which: usize, all: bool) {
        let now = self.now;
        let lost = self.lost;
        for (at, (id, flows)) in self.flows.iter_mut().enumerate() {
            if !all && at != which {
                continue;
            }
            for (end, flow) in [(0, 1), (1, 0)] {
                let flow = &mut flows[flow];
                if end == 1 && !self.announced.contains(id) {
                    continue;
                }
                let session = match end {
                    0 => &mut self.client,
                    _ => match &mut self.server {
                        Some(s) => s,
                        None => continue,
                    },
                };
                loop {
                    match session.read(now, *id) {
                        Read::Data(bytes) => {
                            for b in &bytes {
                                assert_eq!(*b, byte(*id, end == 1, flow.read), "stream {id}");
                                flow.read += 1;
                            }
                            assert!(flow.read <= flow.written, "bytes that nobody wrote");
                            assert!(!flow.stopped, "bytes after the reader stopped");
                        }
                        Read::Fin => {
                            assert!(flow.finished, "an end that nobody wrote");
                            assert_eq!(flow.read, flow.written, "an end before all bytes");
                            assert!(!std::mem::replace(&mut flow.ended, true), "two ends");
                        }
                        Read::Reset(_) => {
                            assert!(flow.reset || lost, "a reset that nobody asked for");
                            assert!(!std::mem::replace(&mut flow.ended, true), "two ends");
                        }
                        Read::Pending => break,
                    }
                }
            }
        }
    }

    /// Lets both ends send all they can now. Returns whether either did anything.
    fn settle(&mut self) -> bool {
        self.client.handle_timeout(self.now);
        if let Some(s) = &mut self.server {
            s.handle_timeout(self.now);
        }
        self.events();
        let sent = self.transmit();
        self.events();
        for (end, session) in [Some(&self.client), self.server.as_ref()]
            .into_iter()
            .flatten()
            .enumerate()
        {
            let held = self.config.send_memory_bytes + ((MAX_STREAMS as u64) << 16);
            assert!(session.held_bytes() <= held, "end {end} holds too much");
            let waiting = self.config.receive_window_bytes + self.config.stalled_memory_bytes;
            assert!(
                session.waiting_bytes() <= waiting,
                "too much waits at end {end}"
            );
        }
        sent
    }

    fn events(&mut self) {
        for end in 0..2 {
            while let Some(event) = self.session(end).and_then(Session::poll_event) {
                match event {
                    Event::StreamOpened { stream, .. } => {
                        assert!(!self.announced.contains(&stream), "{stream} opened twice");
                        assert!(self.flows.contains_key(&stream), "{stream} from nowhere");
                        self.announced.push(stream);
                    }
                    Event::StreamStopped { stream, .. } => {
                        if let Some(flows) = self.flows.get_mut(&stream) {
                            let flow = &mut flows[end];
                            assert!(flow.stopped || self.lost, "a stop that nobody asked for");
                            flow.reset = true;
                        }
                    }
                    Event::SubflowClosed { subflow, .. } => {
                        if let Some(at) = self.links.iter().position(|l| l.id == subflow) {
                            self.remove(at);
                        }
                    }
                    Event::Lost { .. } => self.lost = true,
                    _ => {}
                }
            }
        }
    }

    fn transmit(&mut self) -> bool {
        let mut sent = false;
        for end in 0..2 {
            let session = match end {
                0 => &mut self.client,
                _ => match &mut self.server {
                    Some(s) => s,
                    None => continue,
                },
            };
            for link in &self.links {
                let channel = if end == 0 { &link.up } else { &link.down };
                session.handle_path(self.now, link.id, channel.info(link.rtt));
                session.handle_room(link.id, channel.room());
            }
            let mut out = Vec::new();
            while let Some(t) = session.poll_transmit(self.now, &mut out) {
                sent = true;
                assert!(out.len() <= MAX_RECORD_BYTES, "a record too long for TLS");
                let record = Bytes::from(std::mem::take(&mut out));
                if let Some(link) = self.links.iter_mut().find(|l| l.id == t.subflow) {
                    let channel = if end == 0 {
                        &mut link.up
                    } else {
                        &mut link.down
                    };
                    assert!(t.octets_end > channel.sent);
                    channel.send(record, t.octets_end);
                }
            }
        }
        sent
    }

    /// Whether streams may wait for a path that has no link.
    fn lacks_a_path(&self) -> bool {
        let has = |path| self.links.iter().any(|link| link.path == path);
        !self.lost && !(0..PATHS).all(has)
    }

    /// The network is good again: everything ends, unless the session was given up before.
    fn end(&mut self) {
        for round in 0.. {
            while let Some(at) = self.links.iter().position(|l| l.gone) {
                self.remove(at);
            }
            for link in &mut self.links {
                link.up.silent = false;
                link.down.silent = false;
            }
            while self.lacks_a_path() && self.joined < u8::MAX {
                self.add_link(&mut Choices::new(&[]));
            }
            let arrived = self.deliver(usize::MAX);
            self.finish_all();
            self.read(0, true);
            let sent = self.settle();
            if self.lost || self.joined == u8::MAX {
                return;
            }
            let over = |s: &Session| s.streams().is_empty();
            if over(&self.client) && self.server.as_ref().is_none_or(over) {
                break;
            }
            assert!(
                round < MAX_ROUNDS,
                "no end: {:?}\n{:?}\n{:?}",
                self.flows,
                self.client,
                self.server
            );
            let timer = [
                self.client.poll_timeout(),
                self.server.as_ref().and_then(Session::poll_timeout),
            ];
            let next = timer.into_iter().flatten().min();
            let step = Duration::from_millis(1);
            self.now = match next {
                Some(next) if !sent && !arrived => next.max(self.now + step),
                _ => self.now + step,
            };
        }
        for (id, flows) in &self.flows {
            for (way, flow) in flows.iter().enumerate() {
                let whole = flow.finished && flow.read == flow.written && flow.ended;
                let given_up = flow.reset || flow.stopped;
                assert!(whole || given_up, "stream {id}, way {way}: {flow:?}");
            }
        }
        assert_eq!(self.client.held_bytes(), 0, "bytes are held for nobody");
        assert_eq!(self.client.waiting_bytes(), 0, "bytes wait for nobody");
    }

    fn finish_all(&mut self) {
        for (id, flows) in &mut self.flows {
            for (end, flow) in flows.iter_mut().enumerate() {
                if flow.finished || flow.reset || (end == 1 && !self.announced.contains(id)) {
                    continue;
                }
                let session = match end {
                    0 => &mut self.client,
                    _ => match &mut self.server {
                        Some(s) => s,
                        None => continue,
                    },
                };
                flow.finished = true;
                session.finish(*id);
            }
        }
    }
}

fn pick<'a>(links: &'a mut [Link], choices: &mut Choices<'_>) -> Option<&'a mut Link> {
    let at = choices.below(links.len());
    links.get_mut(at)
}
