//! All links and connections of a world. Connections may share links.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mpbond_manager::{LinkLedger, LinkOf};
use mpbond_session::Session;
use mpbond_units::Timestamp;

use super::bluetooth::Carried;
use super::nat::{self, Flow, Gate, Verdict};
use super::outcome::Passed;
use super::relay_report::{REPORT_BYTES, Report};
use super::scenario::TwoWay;
use crate::hop::Hop;
use crate::ideal::Direction;
use crate::link::{Delivered, Link, LinkChange, Models, Seat};
use crate::stream::Stream;
use crate::tcp::{Config, End, Segment, Socket, State};

#[derive(Debug)]
enum Content {
    Segment {
        conn: usize,
        to: End,
        segment: Segment,
        /// Index of the present link in the connection's list.
        hop: usize,
    },
    Report(Report),
    /// A middlebox answers end A.
    Answer {
        conn: usize,
        segment: Segment,
    },
}

/// A connection. End A is the one nearer to the primary.
#[derive(Debug)]
pub(super) struct Conn {
    /// Of TCP. Those of a connection over Bluetooth are in [`Net::streams`], and these listen in
    /// vain.
    a: Socket,
    b: Socket,
    /// From A to B. More than one if the hosts between them forward packets.
    links: Vec<usize>,
    /// The line that uses it.
    line: usize,
    /// All packets sent on it are lost.
    severed: bool,
    /// Whether end A is at the primary, and not at a helper.
    at_primary: bool,
    /// Its state at the middleboxes of its farthest link.
    flow: Flow,
}

/// Models of links, for one world or for several. Each packet has the number of its net.
#[derive(Debug, Default)]
pub(super) struct Links {
    models: Models<(usize, Content)>,
    /// Links by name: up, down.
    seats: Vec<(String, [Seat; 2])>,
    /// Whose bytes go first on each link, by net and index in `seats`; where nets tell each other.
    pub(super) ledger: Option<LinkLedger<usize, usize>>,
    /// By net: packets that have arrived and that another one has met.
    met: Vec<Vec<(Seat, Delivered<Content>)>>,
}

/// Links that the worlds of several users may share.
pub(super) type SharedLinks = Rc<RefCell<Links>>;

#[derive(Debug)]
pub(super) struct Net {
    links: SharedLinks,
    /// Its number among those that share the links.
    number: usize,
    /// By link of the scenario: its index among all.
    keys: Vec<usize>,
    /// Two for each of the scenario's links: up, down.
    seats: Vec<Seat>,
    conns: Vec<Conn>,
    /// Both ends of connections over Bluetooth.
    streams: BTreeMap<usize, [Stream; 2]>,
    /// By link: what carries its connections, if it is one of Bluetooth. Its model says whether it
    /// is up, and carries nothing.
    bluetooth: Vec<Option<Carried>>,
    /// Connections that are not closed at both ends.
    active: Vec<usize>,
    /// Lines whose sockets have changed.
    touched: Vec<usize>,
    reports: Vec<Report>,
    /// Middleboxes, by link.
    pub(super) gates: Vec<Gate>,
    /// Lines that a NAT has forgotten, until they are taken.
    pub(super) forgotten: Vec<usize>,
    /// The primary's host sleeps.
    pub(super) asleep: bool,
    pub(super) events: u64,
    /// All packets that links carried, if they are kept.
    pub(super) passed: Option<Vec<Passed>>,
}

impl Net {
    pub(super) fn new(links: &[TwoWay], seed: u64, keeps_packets: bool) -> Self {
        Self::over(&SharedLinks::default(), (links, &[]), seed, keeps_packets)
    }

    /// One over links of which others use some as well: those with the name of a link that is
    /// there. `reversed` are indices of links whose far end is near to this one's primary.
    pub(super) fn over(
        shared: &SharedLinks,
        (links, reversed): (&[TwoWay], &[usize]),
        seed: u64,
        keeps_packets: bool,
    ) -> Self {
        let mut all = shared.borrow_mut();
        let known = all.seats.len();
        let (mut seats, mut bluetooth, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (i, link) in links.iter().enumerate() {
            let seed = seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(i as u64);
            bluetooth.push(link.bluetooth.as_ref().map(|of| Carried::new(of, seed)));
            let mut there = all.seats[..known].iter();
            let there = there.find(|(name, _)| *name == link.name);
            let [up, down] = match there.map(|(_, seats)| *seats) {
                Some(seats) => seats,
                None => {
                    let up = Link::new(link.up.clone(), seed);
                    let down = Link::new(link.down.clone(), !seed);
                    let seats = all.models.add(&link.name, &link.shared, up, down);
                    all.seats.push((link.name.clone(), seats));
                    seats
                }
            };
            let key = all.seats.iter().position(|(name, _)| *name == link.name);
            keys.push(key.unwrap_or_default());
            seats.extend(match reversed.contains(&i) {
                true => [down, up],
                false => [up, down],
            });
        }
        let number = all.met.len();
        all.met.push(Vec::new());
        Self {
            links: shared.clone(),
            number,
            keys,
            seats,
            conns: Vec::new(),
            streams: BTreeMap::new(),
            bluetooth,
            active: Vec::new(),
            touched: Vec::new(),
            reports: Vec::new(),
            gates: vec![Gate::default(); links.len()],
            forgotten: Vec::new(),
            asleep: false,
            events: 0,
            passed: keeps_packets.then(Vec::new),
        }
    }

    /// Whether the sessions over its links tell each other what they have there.
    pub(super) fn has_ledger(&self) -> bool {
        self.links.borrow().ledger.is_some()
    }

    /// Exchanges what sessions tell each other of links, if they do. `links` are those that leave
    /// the session's end, by index in the scenario.
    pub(super) fn exchange(
        &self,
        now: Timestamp,
        session: &mut Session,
        mut links: Vec<LinkOf<usize>>,
    ) {
        if let Some(ledger) = &mut self.links.borrow_mut().ledger {
            for of in &mut links {
                of.link = self.keys[of.link];
            }
            ledger.set_links(self.number, &links);
            ledger.exchange(now, self.number, session);
        }
    }

    /// Connects end A, at the primary or a helper, to end B over these links, in their order.
    pub(super) fn connect(
        &mut self,
        now: Timestamp,
        line: usize,
        at_primary: bool,
        links: &[usize],
        (a, b): (Config, Config),
    ) -> usize {
        let conn = self.conns.len();
        let mut near = Socket::connect(a);
        // A byte stream has no hops.
        if let [link] = links
            && let Some(carried) = &mut self.bluetooth[*link]
        {
            near = Socket::listen(a);
            let mut ends = <[Stream; 2]>::default();
            if !carried.open(conn) {
                ends.iter_mut().for_each(Stream::end);
            }
            self.streams.insert(conn, ends);
        }
        self.conns.push(Conn {
            a: near,
            b: Socket::listen(b),
            links: links.to_vec(),
            line,
            severed: false,
            at_primary,
            flow: Flow::new(now),
        });
        self.active.push(conn);
        self.push(now, conn, End::A);
        conn
    }

    pub(super) fn socket(&self, conn: usize, end: End) -> &dyn Hop {
        match (self.streams.get(&conn), end) {
            (Some([a, _]), End::A) => a,
            (Some([_, b]), End::B) => b,
            (None, End::A) => &self.conns[conn].a,
            (None, End::B) => &self.conns[conn].b,
        }
    }

    /// A socket to read, write or abort; call [`Net::push`] afterwards.
    pub(super) fn socket_mut(&mut self, conn: usize, end: End) -> &mut dyn Hop {
        match (self.streams.get_mut(&conn), end) {
            (Some([a, _]), End::A) => a,
            (Some([_, b]), End::B) => b,
            (None, End::A) => &mut self.conns[conn].a,
            (None, End::B) => &mut self.conns[conn].b,
        }
    }

    fn tcp(&mut self, conn: usize, end: End) -> &mut Socket {
        match end {
            End::A => &mut self.conns[conn].a,
            End::B => &mut self.conns[conn].b,
        }
    }

    /// The two sockets of a helper: of the pipe, and of the HS-Path.
    pub(super) fn helper_sockets(
        &mut self,
        pipe: usize,
        hs: usize,
    ) -> (&mut dyn Hop, &mut dyn Hop) {
        // A helper connects to the proxy after the pipe was accepted.
        debug_assert!(pipe < hs);
        let (before, after) = self.conns.split_at_mut(hs);
        match self.streams.get_mut(&pipe) {
            Some([_, b]) => (b, &mut after[0].a),
            None => (&mut before[pipe].b, &mut after[0].a),
        }
    }

    /// Loses all packets of a connection from now on, those in flight included.
    pub(super) fn sever(&mut self, conn: usize) {
        self.conns[conn].severed = true;
        for carried in self.bluetooth.iter_mut().flatten() {
            carried.sever(conn);
        }
    }

    /// Sends what a socket has to send.
    pub(super) fn push(&mut self, now: Timestamp, conn: usize, end: End) {
        if self.streams.contains_key(&conn) {
            let link = self.conns[conn].links[0];
            self.carry(now, link);
            return;
        }
        let Conn {
            a,
            b,
            links,
            line,
            severed,
            at_primary,
            flow,
        } = &mut self.conns[conn];
        if self.asleep && *at_primary && end == End::A {
            return;
        }
        let far = links[links.len() - 1];
        let (socket, hop) = match end {
            End::A => (a, 0),
            End::B => (b, links.len() - 1),
        };
        let seat = self.seats[links[hop] * 2 + usize::from(end == End::B)];
        while let Some(segment) = socket.poll_transmit(now) {
            if *severed {
                continue;
            }
            let (verdict, is_new) = self.gates[far].treat(now, flow, end, segment.kind);
            if is_new {
                self.forgotten.push(*line);
            }
            if verdict != Verdict::Pass {
                if let Some(segment) = nat::answer(verdict) {
                    let bytes = segment.ip_bytes();
                    let content = Content::Answer { conn, segment };
                    let packet = (self.number, content);
                    let seat = self.seats[far * 2 + 1];
                    let models = &mut self.links.borrow_mut().models;
                    let _ = models.enqueue(seat, now, bytes, packet);
                }
                continue;
            }
            let bytes = segment.ip_bytes();
            let content = Content::Segment {
                conn,
                to: end.other(),
                segment,
                hop,
            };
            // A packet that the link refuses is lost, as on a real one.
            let models = &mut self.links.borrow_mut().models;
            let _ = models.enqueue(seat, now, bytes, (self.number, content));
        }
    }

    /// Moves the bytes of a link of Bluetooth; whether any moved.
    fn carry(&mut self, now: Timestamp, link: usize) -> bool {
        let Some(carried) = self.bluetooth[link].as_mut().filter(|_| !self.asleep) else {
            return false;
        };
        let turn = {
            let models = &mut self.links.borrow_mut().models;
            carried.turn(now, &mut self.streams, models.band(now))
        };
        for (direction, bytes) in [Direction::Up, Direction::Down]
            .into_iter()
            .zip(turn.arrived)
        {
            if let Some(passed) = self.passed.as_mut().filter(|_| bytes > 0) {
                passed.push(Passed {
                    link,
                    direction,
                    bytes: bytes as u32, // less than both programs' sockets hold
                    departed: now,
                    arrived: now,
                });
            }
        }
        let moved = !turn.changed.is_empty() || !turn.reports.is_empty();
        self.events += u64::from(moved);
        self.reports.extend(turn.reports);
        for conn in turn.changed {
            self.touch(conn);
        }
        moved
    }

    /// A segment has arrived over one of its connection's links: forwards it to the next link, or
    /// delivers it.
    fn arrive(&mut self, now: Timestamp, conn: usize, to: End, segment: Segment, hop: usize) {
        let Conn { links, severed, .. } = &self.conns[conn];
        if *severed || self.is_asleep(conn, to) {
            return;
        }
        let next = match to {
            End::A => hop.checked_sub(1),
            End::B => Some(hop + 1).filter(|next| *next < links.len()),
        };
        let Some(hop) = next else {
            self.tcp(conn, to).handle_segment(now, segment);
            self.push(now, conn, to);
            self.touch(conn);
            return;
        };
        let seat = self.seats[links[hop] * 2 + usize::from(to == End::A)];
        let bytes = segment.ip_bytes();
        let content = Content::Segment {
            conn,
            to,
            segment,
            hop,
        };
        self.enqueue(seat, now, bytes, content);
    }

    fn enqueue(&mut self, seat: Seat, now: Timestamp, bytes: u32, content: Content) {
        let models = &mut self.links.borrow_mut().models;
        let _ = models.enqueue(seat, now, bytes, (self.number, content));
    }

    /// Sends a helper's report over the pipe to the primary.
    pub(super) fn send_report(&mut self, now: Timestamp, link: usize, report: Report) {
        if let Some(carried) = &mut self.bluetooth[link] {
            carried.send_report(report);
            self.carry(now, link);
            return;
        }
        let seat = self.seats[link * 2 + 1];
        let content = Content::Report(report);
        self.enqueue(seat, now, REPORT_BYTES, content);
    }

    pub(super) fn apply(&mut self, now: Timestamp, link: usize, up: bool, change: &LinkChange) {
        let seat = self.seats[link * 2 + usize::from(!up)];
        self.links.borrow_mut().models.apply(seat, now, change);
        // Both directions of Bluetooth go down and up together.
        if let Some(carried) = self.bluetooth[link].as_mut().filter(|_| !up)
            && let Some(is_up) = change.up
        {
            let models = &mut self.links.borrow_mut().models;
            carried.set_up(now, is_up, models.band(now));
        }
    }

    /// Sets the strength of the signal of a link of Bluetooth, in dBm.
    pub(super) fn set_signal(&mut self, now: Timestamp, link: usize, dbm: f64) {
        if let Some(carried) = &mut self.bluetooth[link] {
            let models = &mut self.links.borrow_mut().models;
            carried.set_signal(now, dbm, models.band(now));
        }
    }

    /// Ends all connections over a link of Bluetooth.
    pub(super) fn disconnect(&mut self, now: Timestamp, link: usize) {
        if let Some(carried) = &mut self.bluetooth[link] {
            carried.disconnect();
            self.carry(now, link);
        }
    }

    pub(super) fn rest_radios(&mut self) {
        self.links.borrow_mut().models.rest_radios();
    }

    pub(super) fn is_up(&self, link: usize) -> bool {
        let mut seats = self.seats[link * 2..link * 2 + 2].iter();
        let models = &self.links.borrow().models;
        seats.all(|seat| models.is_up(*seat))
    }

    pub(super) fn next_event(&self) -> Option<Timestamp> {
        let sockets = self.active.iter().flat_map(|&c| {
            let conn = &self.conns[c];
            let a = conn.a.next_timeout();
            [
                a.filter(|_| !self.is_asleep(c, End::A)),
                conn.b.next_timeout(),
            ]
        });
        let links = self.links.borrow();
        let met = links.met[self.number].first();
        let met = met.map(|(_, arrival)| arrival.arrived);
        let links = links.models.next_event().into_iter().chain(met);
        let carried = self.bluetooth.iter().flatten();
        let carried = carried.filter(|_| !self.asleep);
        let carried = carried.filter_map(Carried::next_event);
        links.chain(sockets.flatten()).chain(carried).min()
    }

    /// Handles everything that is due by `now`.
    pub(super) fn handle(&mut self, now: Timestamp) {
        for i in 0..self.active.len() {
            let conn = self.active[i];
            for end in [End::A, End::B] {
                if self.is_asleep(conn, end) {
                    continue;
                }
                let socket = self.tcp(conn, end);
                if socket.next_timeout().is_some_and(|at| at <= now) {
                    socket.handle_timeout(now);
                    self.push(now, conn, end);
                    self.touch(conn);
                }
            }
        }
        loop {
            let mut any = false;
            for link in 0..self.bluetooth.len() {
                any |= self.carry(now, link);
            }
            for lane in 0..self.seats.len() {
                // One arrival at a time, so that each is answered on its own.
                while let Some(arrival) = self.poll(lane, now) {
                    any = true;
                    self.events += 1;
                    if let Some(passed) = &mut self.passed {
                        let directions = [Direction::Up, Direction::Down];
                        passed.push(Passed {
                            link: lane / 2,
                            direction: directions[lane % 2],
                            bytes: arrival.bytes,
                            departed: arrival.departed,
                            arrived: arrival.arrived,
                        });
                    }
                    match arrival.packet {
                        Content::Segment {
                            conn,
                            to,
                            segment,
                            hop,
                        } => self.arrive(now, conn, to, segment, hop),
                        Content::Report(_) if self.asleep => {}
                        Content::Report(report) => self.reports.push(report),
                        Content::Answer { conn, segment } => self.answer(now, conn, segment),
                    }
                }
            }
            if !any {
                return;
            }
        }
    }

    /// The next packet that has arrived in one direction of a link.
    fn poll(&mut self, lane: usize, now: Timestamp) -> Option<Delivered<Content>> {
        let seat = self.seats[lane];
        let links = &mut *self.links.borrow_mut();
        let mine = &mut links.met[self.number];
        if let Some(at) = mine.iter().position(|(over, _)| *over == seat) {
            return Some(mine.remove(at).1);
        }
        while let Some(arrival) = links.models.poll(seat, now) {
            let (of, packet) = arrival.packet;
            let arrival = Delivered {
                packet,
                bytes: arrival.bytes,
                enqueued: arrival.enqueued,
                departed: arrival.departed,
                arrived: arrival.arrived,
            };
            if of == self.number {
                return Some(arrival);
            }
            links.met[of].push((seat, arrival));
        }
        None
    }

    /// Whether this end is at the primary's sleeping host.
    fn is_asleep(&self, conn: usize, end: End) -> bool {
        self.asleep && end == End::A && self.conns[conn].at_primary
    }

    /// Closes a connection at both ends without a packet: its hosts have forgotten it.
    pub(super) fn discard(&mut self, conn: usize) {
        for end in [End::A, End::B] {
            self.socket_mut(conn, end).abort();
            let socket = self.tcp(conn, end);
            socket.abort();
            while socket.poll_transmit(Timestamp::ZERO).is_some() {}
        }
    }

    /// A segment of a middlebox has arrived at end A.
    fn answer(&mut self, now: Timestamp, conn: usize, segment: Segment) {
        if self.conns[conn].severed || self.is_asleep(conn, End::A) {
            return;
        }
        self.tcp(conn, End::A).handle_segment(now, segment);
        self.push(now, conn, End::A);
        self.touch(conn);
    }

    fn touch(&mut self, conn: usize) {
        let line = self.conns[conn].line;
        if self.touched.last() != Some(&line) {
            self.touched.push(line);
        }
    }

    pub(super) fn take_touched(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.touched)
    }

    pub(super) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Forgets connections that are closed at both ends.
    pub(super) fn sweep(&mut self) {
        let mut active = std::mem::take(&mut self.active);
        active.retain(|&c| {
            let open = |end| self.socket(c, end).state() != State::Reset;
            open(End::A) || open(End::B)
        });
        self.active = active;
    }
}
