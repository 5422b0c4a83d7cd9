//! All links and connections of a world. Connections may share links.

use std::time::Duration;

use mpbond_session::FarReport;
use mpbond_units::Timestamp;

use super::outcome::Passed;
use super::scenario::TwoWay;
use crate::ideal::Direction;
use crate::link::{Link, LinkChange, Models, Seat};
use crate::tcp::{Config, End, Segment, Socket, State};

/// IP bytes of a helper's report.
const REPORT_BYTES: u32 = 160;

/// What a helper tells the primary about one subflow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) line: usize,
    pub(super) pipe: FarReport,
    pub(super) hs: FarReport,
    /// How long no byte has come down the HS-Path.
    pub(super) downlink: Option<Duration>,
}

#[derive(Debug)]
enum Content {
    Segment {
        conn: usize,
        to: End,
        segment: Segment,
        /// Which of the connection's links it is on.
        hop: usize,
    },
    Report(Report),
}

/// A TCP connection. End A is the one nearer to the primary.
#[derive(Debug)]
pub(super) struct Conn {
    a: Socket,
    b: Socket,
    /// From A to B: more than one where a host between only forwards.
    links: Vec<usize>,
    /// Who uses it.
    line: usize,
    /// Whatever it sends is lost.
    severed: bool,
}

#[derive(Debug)]
pub(super) struct Net {
    models: Models<Content>,
    /// Two for each of the scenario's links: up, down.
    seats: Vec<Seat>,
    conns: Vec<Conn>,
    /// Connections that may still do something.
    active: Vec<usize>,
    /// Lines to which something has happened.
    touched: Vec<usize>,
    reports: Vec<Report>,
    pub(super) events: u64,
    /// Every packet that a link carried, where they are kept.
    pub(super) passed: Option<Vec<Passed>>,
}

impl Net {
    pub(super) fn new(links: &[TwoWay], seed: u64, keeps_packets: bool) -> Self {
        let mut models = Models::default();
        let mut seats = Vec::new();
        for (i, link) in links.iter().enumerate() {
            let seed = seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(i as u64);
            let up = Link::new(link.up.clone(), seed);
            let down = Link::new(link.down.clone(), !seed);
            seats.extend(models.add(&link.name, &link.shared, up, down));
        }
        Self {
            models,
            seats,
            conns: Vec::new(),
            active: Vec::new(),
            touched: Vec::new(),
            reports: Vec::new(),
            events: 0,
            passed: keeps_packets.then(Vec::new),
        }
    }

    /// End A connects over these links, in their order.
    pub(super) fn connect(
        &mut self,
        now: Timestamp,
        line: usize,
        links: &[usize],
        a: Config,
        b: Config,
    ) -> usize {
        let conn = self.conns.len();
        self.conns.push(Conn {
            a: Socket::connect(a),
            b: Socket::listen(b),
            links: links.to_vec(),
            line,
            severed: false,
        });
        self.active.push(conn);
        self.push(now, conn, End::A);
        conn
    }

    pub(super) fn socket(&self, conn: usize, end: End) -> &Socket {
        match end {
            End::A => &self.conns[conn].a,
            End::B => &self.conns[conn].b,
        }
    }

    /// To read, write or abort; then call [`Net::push`].
    pub(super) fn socket_mut(&mut self, conn: usize, end: End) -> &mut Socket {
        match end {
            End::A => &mut self.conns[conn].a,
            End::B => &mut self.conns[conn].b,
        }
    }

    /// The two sockets of a helper: of the pipe, and of the HS-Path.
    pub(super) fn helper_sockets(&mut self, pipe: usize, hs: usize) -> (&mut Socket, &mut Socket) {
        // A helper connects onward after it was connected to.
        debug_assert!(pipe < hs);
        let (before, after) = self.conns.split_at_mut(hs);
        (&mut before[pipe].b, &mut after[0].a)
    }

    /// From now on whatever a connection sends is lost, and what is on the way too.
    pub(super) fn sever(&mut self, conn: usize) {
        self.conns[conn].severed = true;
    }

    /// Puts on the link what a socket has to send.
    pub(super) fn push(&mut self, now: Timestamp, conn: usize, end: End) {
        let Conn {
            a,
            b,
            links,
            severed,
            ..
        } = &mut self.conns[conn];
        let (socket, hop) = match end {
            End::A => (a, 0),
            End::B => (b, links.len() - 1),
        };
        let seat = self.seats[links[hop] * 2 + usize::from(end == End::B)];
        while let Some(segment) = socket.poll_transmit(now) {
            if *severed {
                continue;
            }
            let bytes = segment.ip_bytes();
            let content = Content::Segment {
                conn,
                to: end.other(),
                segment,
                hop,
            };
            // What the link refuses is lost, as on a real one.
            let _ = self.models.enqueue(seat, now, bytes, content);
        }
    }

    /// A segment has come over one of its connection's links: it goes on to the next one, or is
    /// there.
    fn arrive(&mut self, now: Timestamp, conn: usize, to: End, segment: Segment, hop: usize) {
        let Conn { links, severed, .. } = &self.conns[conn];
        if *severed {
            return;
        }
        let next = match to {
            End::A => hop.checked_sub(1),
            End::B => Some(hop + 1).filter(|next| *next < links.len()),
        };
        let Some(hop) = next else {
            self.socket_mut(conn, to).handle_segment(now, segment);
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
        let _ = self.models.enqueue(seat, now, bytes, content);
    }

    /// A helper's report sets out for the primary over the pipe.
    pub(super) fn send_report(&mut self, now: Timestamp, link: usize, report: Report) {
        let seat = self.seats[link * 2 + 1];
        let content = Content::Report(report);
        let _ = self.models.enqueue(seat, now, REPORT_BYTES, content);
    }

    pub(super) fn apply(&mut self, now: Timestamp, link: usize, up: bool, change: &LinkChange) {
        let seat = self.seats[link * 2 + usize::from(!up)];
        self.models.apply(seat, now, change);
    }

    pub(super) fn rest_radios(&mut self) {
        self.models.rest_radios();
    }

    pub(super) fn is_up(&self, link: usize) -> bool {
        let mut seats = self.seats[link * 2..link * 2 + 2].iter();
        seats.all(|seat| self.models.is_up(*seat))
    }

    pub(super) fn next_event(&self) -> Option<Timestamp> {
        let sockets = self.active.iter().flat_map(|&c| {
            let c = &self.conns[c];
            [c.a.next_timeout(), c.b.next_timeout()]
        });
        let links = self.models.next_event();
        links.into_iter().chain(sockets.flatten()).min()
    }

    /// Everything that happens by `now`.
    pub(super) fn handle(&mut self, now: Timestamp) {
        for i in 0..self.active.len() {
            let conn = self.active[i];
            for end in [End::A, End::B] {
                let socket = self.socket_mut(conn, end);
                if socket.next_timeout().is_some_and(|at| at <= now) {
                    socket.handle_timeout(now);
                    self.push(now, conn, end);
                    self.touch(conn);
                }
            }
        }
        loop {
            let mut any = false;
            for lane in 0..self.seats.len() {
                let seat = self.seats[lane];
                // One arrival at a time, so that each is answered on its own.
                while let Some(arrival) = self.models.poll(seat, now) {
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
                        Content::Report(report) => self.reports.push(report),
                    }
                }
            }
            if !any {
                return;
            }
        }
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

    /// Forgets connections that both ends have given up.
    pub(super) fn sweep(&mut self) {
        let conns = &self.conns;
        self.active.retain(|&c| {
            let c = &conns[c];
            c.a.state() != State::Reset || c.b.state() != State::Reset
        });
    }
}
