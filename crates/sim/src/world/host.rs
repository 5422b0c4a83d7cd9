//! One end of the session and what a driver does for it: the daemons' driver, in virtual time.

use std::time::Duration;

use bytes::Bytes;
use mpbond_session::{
    CloseCode, Destination, Event, FarReport, Hello, Session, SessionConfig, SessionId, StreamId,
    SubflowId, SubflowSetup, parse_hello,
};
use mpbond_units::{BitRate, Timestamp};

use super::app::{App, Running};
use super::line::{
    CLIENT_FLIGHT, CLIENT_HELLO, Io, Line, RECORD_OVERHEAD, SERVER_FLIGHT, Stage, is_writable,
    path_info,
};
use super::net::{Net, Report};
use super::scenario::{Exchange, Route};
use crate::tcp::{Info, State};

/// The kernel is asked about paths no more often than this.
const PATH_INFO_EVERY: Duration = Duration::from_millis(1);

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Primary,
    Proxy,
}

/// An end of the session.
pub(super) struct Host {
    side: Side,
    config: SessionConfig,
    pub(super) session: Option<Session>,
    /// When its session wants to be called, by the world's clock.
    pub(super) due: Option<Timestamp>,
    /// It does nothing before.
    pub(super) frozen_until: Option<Timestamp>,
    /// How far its clock is ahead of the world's.
    ahead: Duration,
    /// Its session has to be asked for results.
    unsettled: bool,
    /// It has given its session up when nobody waited for anything any more.
    pub(super) has_let_go: bool,
    /// Exchanges whose application has something to do.
    pub(super) awake: Vec<usize>,
    record: Vec<u8>,
}

/// What a host works with besides itself.
pub(super) struct Surroundings<'a> {
    pub(super) now: Timestamp,
    pub(super) net: &'a mut Net,
    pub(super) lines: &'a mut [Line],
    pub(super) live: &'a [usize],
    pub(super) routes: &'a [Route],
    pub(super) exchanges: &'a [Exchange],
    pub(super) running: &'a mut [Option<Running>],
    pub(super) keeps_log: bool,
}

impl Host {
    pub(super) fn primary(config: SessionConfig) -> Self {
        let session = Session::client(config.clone(), [1; 32]);
        Self::new(Side::Primary, config, Some(session))
    }

    pub(super) fn proxy(config: SessionConfig) -> Self {
        Self::new(Side::Proxy, config, None)
    }

    fn new(side: Side, config: SessionConfig, session: Option<Session>) -> Self {
        Self {
            side,
            config,
            session,
            due: None,
            frozen_until: None,
            ahead: Duration::ZERO,
            unsettled: false,
            has_let_go: false,
            awake: Vec::new(),
            record: Vec::new(),
        }
    }

    /// Its own clock, which is all that its session knows.
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        now + self.ahead
    }

    /// Its clock jumps.
    pub(super) fn jump(&mut self, by: Duration) {
        self.ahead += by;
        self.note_due();
    }

    pub(super) fn is_frozen(&self, now: Timestamp) -> bool {
        self.frozen_until.is_some_and(|t| t > now)
    }

    /// Something has happened to its session from outside.
    pub(super) fn look_again(&mut self) {
        self.unsettled = true;
    }

    fn note_due(&mut self) {
        let due = self.session.as_ref().and_then(Session::poll_timeout);
        let by_world = |t: Timestamp| t.since(Timestamp::ZERO).saturating_sub(self.ahead);
        self.due = due.map(|t| Timestamp::ZERO + by_world(t));
    }

    /// Does everything that can be done now; whether there was anything.
    pub(super) fn drive(&mut self, s: &mut Surroundings) -> Result<bool, String> {
        if self.is_frozen(s.now) {
            return Ok(false);
        }
        let mut any = !self.awake.is_empty() || std::mem::take(&mut self.unsettled);
        if self.frozen_until.take().is_some()
            && let Some(session) = &mut self.session
        {
            // Timers may be heard before what has arrived meanwhile.
            session.handle_timeout(s.now + self.ahead);
            any = true;
        }
        for &l in s.live {
            if std::mem::take(&mut self.io(s.lines, l).dirty) {
                any |= self.service(s, l)?;
            }
        }
        if self.due.is_some_and(|t| t <= s.now)
            && let Some(session) = &mut self.session
        {
            session.handle_timeout(s.now + self.ahead);
            any = true;
        }
        if any {
            self.settle(s)?;
        }
        Ok(any)
    }

    fn io<'a>(&self, lines: &'a mut [Line], l: usize) -> &'a mut Io {
        &mut lines[l].ends[self.side as usize]
    }

    /// Looks at a subflow's socket; whether the session has to be asked for results.
    fn service(&mut self, s: &mut Surroundings, l: usize) -> Result<bool, String> {
        let io = self.io(s.lines, l);
        let (end, stage) = (io.end, io.stage);
        let Some(conn) = io.conn.filter(|_| stage != Stage::Gone) else {
            return Ok(false);
        };
        if s.net.socket(conn, end).state() == State::Reset {
            self.lose_line(s, l);
            return Ok(true);
        }
        if s.net.socket(conn, end).readable_bytes() > 0 {
            let octets = self.io(s.lines, l).fill(s.net.socket_mut(conn, end));
            if let Stage::Up(id) = stage
                && let Some(session) = &mut self.session
            {
                session.handle_arrival(s.now + self.ahead, id, octets);
            }
            // Reading may open the window.
            s.net.push(s.now, conn, end);
        }
        let mut any = false;
        match stage {
            Stage::Handshake => any |= self.shake_hands(s, l, conn),
            Stage::AwaitHello | Stage::Up(_) => any |= self.take_records(s, l)?,
            Stage::Gone => {}
        }
        let io = self.io(s.lines, l);
        if matches!(io.stage, Stage::Up(_)) && io.blocked && is_writable(s.net.socket(conn, end)) {
            self.flush(s, l);
            any = true;
        }
        Ok(any)
    }

    /// TCP's handshake, then TLS's: three flights.
    fn shake_hands(&mut self, s: &mut Surroundings, l: usize, conn: usize) -> bool {
        let io = self.io(s.lines, l);
        if s.net.socket(conn, io.end).state() != State::Established {
            return false;
        }
        let mut ready = false;
        match self.side {
            Side::Primary => {
                if io.tx_octets == 0 {
                    io.put_flight(CLIENT_HELLO);
                } else if io.take_flight(SERVER_FLIGHT) {
                    io.put_flight(CLIENT_FLIGHT);
                    ready = true;
                }
            }
            Side::Proxy => {
                if io.tx_octets == 0 {
                    if io.take_flight(CLIENT_HELLO) {
                        io.put_flight(SERVER_FLIGHT);
                    }
                } else if io.take_flight(CLIENT_FLIGHT) {
                    io.stage = Stage::AwaitHello;
                    io.dirty = true;
                }
            }
        }
        let end = io.end;
        io.write(s.net.socket_mut(conn, end));
        s.net.push(s.now, conn, end);
        if ready {
            let route = &s.routes[s.lines[l].route];
            let express = s.lines[l].express;
            let io = self.io(s.lines, l);
            let setup = SubflowSetup {
                express,
                name: route.name.clone(),
                helper: route.helper,
                backup: route.backup,
                ..setup(l, io)
            };
            if let Some(session) = &mut self.session {
                let id = session.add_subflow(s.now + self.ahead, setup);
                io.stage = Stage::Up(id);
                s.lines[l].subflow = Some(id);
                self.flush(s, l);
            }
        }
        ready
    }

    fn take_records(&mut self, s: &mut Surroundings, l: usize) -> Result<bool, String> {
        let mut any = false;
        while let Some(record) = self.io(s.lines, l).next_record() {
            any = true;
            let io = self.io(s.lines, l);
            let octets = io.rx_octets;
            let taken = match (io.stage, &mut self.session) {
                (Stage::Up(id), Some(session)) => {
                    session.handle_record(s.now + self.ahead, id, record, octets)
                }
                (Stage::AwaitHello, _) => self.accept(s, l, record)?,
                _ => return Ok(any),
            };
            if let Err(e) = taken {
                // Nobody misbehaves here.
                return Err(format!("{:?} closed a subflow: {e}", self.side));
            }
        }
        Ok(any)
    }

    fn accept(
        &mut self,
        s: &mut Surroundings,
        l: usize,
        record: Bytes,
    ) -> Result<Result<(), mpbond_session::SubflowError>, String> {
        let (hello, rest) = parse_hello(record).map_err(|e| format!("bad hello: {e}"))?;
        let in_use = |session: &Session| session.stats().streams_total > 0;
        if matches!(hello, Hello::Capable { .. }) && self.session.as_ref().is_some_and(in_use) {
            // A hello that a helper held, of a connection that the primary has long given up: a
            // proxy opens a session that nobody uses.
            self.lose_line(s, l);
            return Ok(Ok(()));
        }
        if matches!(hello, Hello::Capable { .. }) {
            // Should the answer to an earlier one have been lost, that session dies unused.
            self.abandon(s);
            let config = self.config.clone();
            self.session = Some(Session::server(config, SessionId([7; 16]), [2; 32], &hello));
        }
        let Some(session) = &mut self.session else {
            return Err("a join before any session".to_owned());
        };
        let io = &mut s.lines[l].ends[self.side as usize];
        let octets = io.rx_octets;
        let accepted = session.accept_subflow(s.now + self.ahead, setup(l, io), &hello);
        let id = match accepted {
            Ok(id) => id,
            // Subflows that are gone, of which only the primary knows yet, may have taken its place.
            Err(e) if is_express(&hello) && e.code == CloseCode::TooMuch => {
                self.lose_line(s, l);
                return Ok(Ok(()));
            }
            Err(e) => return Ok(Err(e)),
        };
        io.stage = Stage::Up(id);
        let result = if rest.is_empty() {
            Ok(())
        } else {
            session.handle_record(s.now + self.ahead, id, rest, octets)
        };
        self.flush(s, l);
        Ok(result)
    }

    fn abandon(&mut self, s: &mut Surroundings) {
        for &l in s.live {
            if matches!(self.io(s.lines, l).stage, Stage::Up(_)) {
                self.lose_line(s, l);
            }
        }
    }

    /// The connection is gone, or shall be: the session is told, the socket reset.
    pub(super) fn lose_line(&mut self, s: &mut Surroundings, l: usize) {
        let io = self.io(s.lines, l);
        if let (Stage::Up(id), Some(session)) = (io.stage, &mut self.session) {
            session.handle_subflow_closed(s.now + self.ahead, id);
        }
        let io = self.io(s.lines, l);
        io.stage = Stage::Gone;
        if let Some(conn) = io.conn {
            let end = io.end;
            s.net.socket_mut(conn, end).abort();
            s.net.push(s.now, conn, end);
        }
    }

    /// A helper's report has come: on its pipe for the proxy, on its HS-Path for us.
    pub(super) fn report(&mut self, s: &mut Surroundings, r: &Report) {
        if let (Stage::Up(id), Some(session)) = (self.io(s.lines, r.line).stage, &mut self.session)
        {
            let now = s.now + self.ahead;
            session.relay_report(now, id, r.pipe);
            session.handle_far_report(now, id, r.hs);
            if let Some(since) = r.downlink {
                session.handle_helper_downlink(now, id, since);
            }
        }
    }

    // ---- results --------------------------------------------------------------------------

    pub(super) fn settle(&mut self, s: &mut Surroundings) -> Result<(), String> {
        loop {
            self.pump_apps(s)?;
            self.events(s)?;
            if self.awake.is_empty() && !self.transmit(s) {
                break;
            }
        }
        self.note_due();
        Ok(())
    }

    fn events(&mut self, s: &mut Surroundings) -> Result<(), String> {
        while let Some(event) = self.session.as_mut().and_then(Session::poll_event) {
            match event {
                Event::StreamOpened {
                    stream,
                    destination,
                    ..
                } => {
                    let exchange = exchange_of(&destination)?;
                    self.answer(s, exchange, stream)?;
                }
                Event::StreamReadable(id) | Event::StreamWritable(id) => {
                    if let Some(e) = exchange_with(s.running, id) {
                        self.wake(e);
                    }
                }
                Event::StreamStopped { stream, .. } => {
                    if let Some(e) = exchange_with(s.running, stream) {
                        if let Some(app) = self.app(s.running, e) {
                            app.stop_writing();
                        }
                        self.wake(e);
                    }
                }
                Event::StreamClosed(stats) => {
                    let found = exchange_with(s.running, stats.id);
                    if let Some(app) = found.and_then(|e| self.app(s.running, e)) {
                        app.closed = Some(stats);
                    }
                }
                Event::SubflowClosed { subflow, .. } => {
                    let side = self.side as usize;
                    let up = Stage::Up(subflow);
                    let found = s.live.iter().find(|l| s.lines[**l].ends[side].stage == up);
                    if let Some(&l) = found {
                        self.lose_line(s, l);
                    }
                }
                // A primary that has all it wanted need not notice that its paths are dead.
                Event::Lost { .. } if !someone_waits(s) => self.has_let_go = true,
                Event::Lost { reason } => return Err(format!("session lost: {reason}")),
                // The rest is for logs.
                _ => {}
            }
        }
        Ok(())
    }

    /// An origin is dialled.
    fn answer(&self, s: &mut Surroundings, e: usize, stream: StreamId) -> Result<(), String> {
        let (Some(x), Some(Some(running))) = (s.exchanges.get(e), s.running.get_mut(e)) else {
            return Err(format!(
                "{stream} leads to exchange {e}, which has not started"
            ));
        };
        if running.stream != stream || running.origin.is_some() {
            return Err(format!("exchange {e} was dialled twice, now by {stream}"));
        }
        let app = App::new(s.now, e, false, x.origin, x.down_bytes, !x.at_once)
            .expecting(x.by_length.then_some(x.up_bytes))
            .keeping_arrivals(s.keeps_log);
        running.origin = Some(app);
        Ok(())
    }

    fn app<'a>(&self, running: &'a mut [Option<Running>], e: usize) -> Option<&'a mut App> {
        let running = running.get_mut(e)?.as_mut()?;
        match self.side {
            Side::Primary => Some(&mut running.client),
            Side::Proxy => running.origin.as_mut(),
        }
    }

    pub(super) fn wake(&mut self, exchange: usize) {
        if !self.awake.contains(&exchange) {
            self.awake.push(exchange);
        }
    }

    fn pump_apps(&mut self, s: &mut Surroundings) -> Result<(), String> {
        for e in std::mem::take(&mut self.awake) {
            let Some(stream) = s.running[e].as_ref().map(|r| r.stream) else {
                continue;
            };
            let (side, clock) = (self.side, self.clock(s.now));
            if let Some(app) = self.app(s.running, e)
                && let Some(session) = &mut self.session
            {
                app.pump(s.now, clock, session, stream)
                    .map_err(|what| format!("exchange {e} at {side:?}: {what}"))?;
            }
        }
        Ok(())
    }

    /// Fetches records and writes them, as the daemons' driver does: a record at a time goes to a
    /// socket, and one that takes no more is left alone until it does.
    fn transmit(&mut self, s: &mut Surroundings) -> bool {
        self.refresh_paths(s);
        let mut any = false;
        let mut flush: Vec<usize> = Vec::new();
        loop {
            self.record.clear();
            let Some(session) = &mut self.session else {
                return any;
            };
            let Some(t) = session.poll_transmit(s.now + self.ahead, &mut self.record) else {
                if flush.is_empty() {
                    return any;
                }
                for l in std::mem::take(&mut flush) {
                    self.flush(s, l);
                }
                continue;
            };
            any = true;
            let Some(l) = self.line_of(s, t.subflow) else {
                continue;
            };
            let io = &mut s.lines[l].ends[self.side as usize];
            io.queue_record(&self.record);
            debug_assert_eq!(io.tx_octets, t.octets_end);
            if io.room == 0 {
                flush.retain(|x| *x != l);
                self.flush(s, l);
            } else if !flush.contains(&l) {
                flush.push(l);
            }
        }
    }

    fn line_of(&self, s: &Surroundings, id: SubflowId) -> Option<usize> {
        let up = Stage::Up(id);
        let side = self.side as usize;
        let mut live = s.live.iter().copied();
        live.find(|l| s.lines[*l].ends[side].stage == up)
    }

    /// Writes what is queued; a socket that takes no more gets no room.
    fn flush(&mut self, s: &mut Surroundings, l: usize) {
        let side = self.side as usize;
        let io = &mut s.lines[l].ends[side];
        let (Some(conn), Stage::Up(id)) = (io.conn, io.stage) else {
            return;
        };
        if io.blocked && !is_writable(s.net.socket(conn, io.end)) {
            return;
        }
        // What was written may be on its way at once, and leave room for more.
        while io.write(s.net.socket_mut(conn, io.end)) {
            s.net.push(s.now, conn, io.end);
        }
        if io.is_drained() {
            io.open_room();
        } else {
            io.blocked = true;
            io.room = 0;
        }
        if let Some(session) = &mut self.session {
            session.handle_room(id, io.room);
        }
    }

    /// The kernel's view of all paths, while data flows.
    fn refresh_paths(&mut self, s: &mut Surroundings) {
        let Some(session) = &mut self.session else {
            return;
        };
        let sending = session.is_sending();
        for &l in s.live {
            let io = &mut s.lines[l].ends[self.side as usize];
            let (Some(conn), Stage::Up(id)) = (io.conn, io.stage) else {
                continue;
            };
            let due = match io.asked {
                None => true,
                Some(at) => sending && s.now.since(at) >= PATH_INFO_EVERY,
            };
            if due {
                io.asked = Some(s.now);
                let info = s.net.socket(conn, io.end).info();
                session.handle_path(s.now + self.ahead, id, path_info(&info));
            }
        }
    }
}

fn is_express(hello: &Hello) -> bool {
    let (Hello::Capable { path, .. } | Hello::Join { path, .. }) = hello;
    path.express
}

fn setup(line: usize, io: &Io) -> SubflowSetup {
    let mut exporter = [0; 32];
    exporter[..8].copy_from_slice(&(line as u64).to_be_bytes());
    SubflowSetup {
        exporter,
        tx_octets: io.tx_octets,
        rx_octets: io.rx_octets,
        record_overhead: RECORD_OVERHEAD,
        ..SubflowSetup::default()
    }
}

/// Where an exchange's stream leads.
pub(super) fn destination(exchange: usize) -> Destination {
    Destination::Name {
        host: format!("{exchange}.origin.test"),
        port: 80,
    }
}

fn exchange_of(destination: &Destination) -> Result<usize, String> {
    let text = destination.to_string();
    let number = text.split_once('.').and_then(|(n, _)| n.parse().ok());
    number.ok_or_else(|| format!("nobody asked for {text}"))
}

fn someone_waits(s: &Surroundings) -> bool {
    s.running.iter().any(|r| {
        r.as_ref().is_none_or(|r| {
            let rests = |app: &App| app.is_paused(s.now);
            r.waits_for_bytes() && !rests(&r.client) && !r.origin.as_ref().is_some_and(rests)
        })
    })
}

fn exchange_with(running: &[Option<Running>], id: StreamId) -> Option<usize> {
    running
        .iter()
        .position(|r| r.as_ref().is_some_and(|r| r.stream == id))
}

/// What a helper says of a hop it sends on.
pub(super) fn far_report(info: &Info, level_bytes: u64) -> FarReport {
    let measured = info.delivery_rate.filter(|_| !info.app_limited);
    let window = || Some(BitRate::over(info.cwnd_bytes, info.srtt?));
    FarReport {
        throughput: measured.or_else(window).unwrap_or_default(),
        rtt: info.srtt.unwrap_or_default(),
        level_bytes,
        age: Duration::ZERO,
        sojourn: None,
    }
}
