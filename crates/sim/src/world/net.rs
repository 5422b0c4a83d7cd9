//! All links and connections of a world. Connections may share links.

use std::time::Duration;

use mpbond_session::FarReport;
use mpbond_units::Timestamp;

use super::scenario::TwoWay;
use crate::link::{Link, LinkChange};
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
    },
    Report(Report),
}

/// A TCP connection. End A is the one nearer to the primary.
#[derive(Debug)]
pub(super) struct Conn {
    a: Socket,
    b: Socket,
    link: usize,
    /// Who uses it.
    line: usize,
}

#[derive(Debug)]
pub(super) struct Net {
    /// Two for each of the scenario's: up, down.
    links: Vec<Link<Content>>,
    conns: Vec<Conn>,
    /// Connections that may still do something.
    active: Vec<usize>,
    /// Lines to which something has happened.
    touched: Vec<usize>,
    reports: Vec<Report>,
    pub(super) events: u64,
}

impl Net {
    pub(super) fn new(links: &[TwoWay], seed: u64) -> Self {
        let mut all = Vec::new();
        for (i, link) in links.iter().enumerate() {
            let seed = seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(i as u64);
            all.push(Link::new(link.up.clone(), seed));
            all.push(Link::new(link.down.clone(), !seed));
        }
        Self {
            links: all,
            conns: Vec::new(),
            active: Vec::new(),
            touched: Vec::new(),
            reports: Vec::new(),
            events: 0,
        }
    }

    /// End A connects over a link.
    pub(super) fn connect(
        &mut self,
        now: Timestamp,
        line: usize,
        link: usize,
        a: Config,
        b: Config,
    ) -> usize {
        let conn = self.conns.len();
        self.conns.push(Conn {
            a: Socket::connect(a),
            b: Socket::listen(b),
            link,
            line,
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

    /// Puts on the link what a socket has to send.
    pub(super) fn push(&mut self, now: Timestamp, conn: usize, end: End) {
        let Conn { a, b, link, .. } = &mut self.conns[conn];
        let (socket, link) = match end {
            End::A => (a, *link * 2),
            End::B => (b, *link * 2 + 1),
        };
        while let Some(segment) = socket.poll_transmit(now) {
            let content = Content::Segment {
                conn,
                to: end.other(),
                segment,
            };
            let Content::Segment { segment, .. } = &content else {
                return;
            };
            let bytes = segment.ip_bytes();
            // What the link refuses is lost, as on a real one.
            let _ = self.links[link].enqueue(now, bytes, content);
        }
    }

    /// A helper's report sets out for the primary over the pipe.
    pub(super) fn send_report(&mut self, now: Timestamp, link: usize, report: Report) {
        let _ = self.links[link * 2 + 1].enqueue(now, REPORT_BYTES, Content::Report(report));
    }

    pub(super) fn apply(&mut self, now: Timestamp, link: usize, up: bool, change: &LinkChange) {
        self.links[link * 2 + usize::from(!up)].apply(now, change);
    }

    pub(super) fn is_up(&self, link: usize) -> bool {
        self.links[link * 2].is_up() && self.links[link * 2 + 1].is_up()
    }

    pub(super) fn next_event(&self) -> Option<Timestamp> {
        let links = self.links.iter().filter_map(Link::next_event);
        let sockets = self.active.iter().flat_map(|&c| {
            let c = &self.conns[c];
            [c.a.next_timeout(), c.b.next_timeout()]
        });
        links.chain(sockets.flatten()).min()
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
            for link in 0..self.links.len() {
                // One arrival at a time, so that each is answered on its own.
                while let Some(arrival) = self.links[link].poll(now) {
                    any = true;
                    self.events += 1;
                    match arrival.packet {
                        Content::Segment { conn, to, segment } => {
                            self.socket_mut(conn, to).handle_segment(now, segment);
                            self.push(now, conn, to);
                            self.touch(conn);
                        }
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
