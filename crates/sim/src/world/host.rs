//! One end of the session, and its driver in virtual time.

use std::time::Duration;

use bytes::Bytes;
use mpbond_manager::{LinkId, Manager, SubflowFacts, Target};
use mpbond_session::{
    CloseCode, Destination, Event, FarReport, Hello, Role, Session, SessionConfig, StreamId,
    SubflowId, SubflowSetup, parse_hello,
};
use mpbond_units::{BitRate, Timestamp};

use super::app::{App, Running};
use super::line::{
    CLIENT_FLIGHT, CLIENT_HELLO, Io, Line, RECORD_OVERHEAD, SERVER_FLIGHT, Stage, is_writable,
};
use super::net::{Net, Report};
use super::scenario::Exchange;
use crate::tcp::{Info, State};

/// End of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Primary,
    Proxy,
}

/// An end of the session, with its driver.
pub(super) struct Host {
    side: Side,
    pub(super) config: SessionConfig,
    pub(super) session: Option<Session>,
    /// Timeout of its session, by the world's clock.
    pub(super) due: Option<Timestamp>,
    /// End of a suspension.
    pub(super) frozen_until: Option<Timestamp>,
    /// Lead of its clock over the world's.
    ahead: Duration,
    /// Time for which it has slept, which its clock does not count.
    slept: Duration,
    /// Beginning of its present sleep.
    asleep_since: Option<Timestamp>,
    /// Reason for which its session is over, until that is settled.
    pub(super) lost: Option<String>,
    /// Whether its session may have results to fetch.
    unsettled: bool,
    /// Whether it closed its session when no application waited for anything.
    pub(super) has_let_go: bool,
    /// Exchanges whose application has something to do.
    pub(super) awake: Vec<usize>,
    /// Number of its session.
    pub(super) number: u64,
    record: Vec<u8>,
}

/// State of the world that a host reads and changes.
pub(super) struct Surroundings<'a> {
    pub(super) now: Timestamp,
    pub(super) net: &'a mut Net,
    pub(super) lines: &'a mut [Line],
    pub(super) live: &'a [usize],
    pub(super) active: &'a [usize],
    pub(super) exchanges: &'a [Exchange],
    pub(super) running: &'a mut [Option<Running>],
    /// The primary's path manager.
    pub(super) manager: &'a mut Manager,
    pub(super) keeps_log: bool,
    /// Whether a lost session is followed by another one.
    pub(super) is_lasting: bool,
}

/// Treatment of a hello by the proxy.
pub(super) enum Welcome {
    /// The connection belongs to its session.
    Go,
    /// It is of no use to anybody.
    Ignore,
    /// It belongs to a session that the proxy does not have.
    Unknown,
}

impl Host {
    pub(super) fn primary(config: SessionConfig) -> Self {
        let mut host = Self::new(Side::Primary, config);
        host.open_session();
        host
    }

    pub(super) fn proxy(config: SessionConfig) -> Self {
        Self::new(Side::Proxy, config)
    }

    fn new(side: Side, config: SessionConfig) -> Self {
        Self {
            side,
            config,
            session: None,
            due: None,
            frozen_until: None,
            ahead: Duration::ZERO,
            slept: Duration::ZERO,
            asleep_since: None,
            lost: None,
            unsettled: false,
            has_let_go: false,
            awake: Vec::new(),
            number: 0,
            record: Vec::new(),
        }
    }

    /// The present instant by its own clock, which its session uses.
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        let now = self.asleep_since.map_or(now, |since| now.min(since));
        let awake = now.since(Timestamp::ZERO).saturating_sub(self.slept);
        Timestamp::ZERO + awake + self.ahead
    }

    /// Its clock jumps forward.
    pub(super) fn jump(&mut self, by: Duration) {
        self.ahead += by;
        self.note_due();
    }

    /// It falls asleep: its clock stands still.
    pub(super) fn sleep(&mut self, now: Timestamp, until: Timestamp) {
        self.asleep_since = Some(now);
        self.frozen_until = self.frozen_until.max(Some(until));
    }

    /// It wakes up. Returns how long it has slept.
    pub(super) fn wake_up(&mut self, now: Timestamp) -> Duration {
        let since = self.asleep_since.take();
        let length = since.map_or(Duration::ZERO, |since| now.since(since));
        self.slept += length;
        self.note_due();
        length
    }

    pub(super) fn is_frozen(&self, now: Timestamp) -> bool {
        self.frozen_until.is_some_and(|t| t > now)
    }

    /// Its session has had an input from outside.
    pub(super) fn look_again(&mut self) {
        self.unsettled = true;
    }

    pub(super) fn note_due(&mut self) {
        let due = self.session.as_ref().and_then(Session::poll_timeout);
        self.due = due.map(|t| self.world_time(t));
    }

    /// Converts an instant of its own clock to the world's.
    pub(super) fn world_time(&self, t: Timestamp) -> Timestamp {
        let since = t.since(Timestamp::ZERO) + self.slept;
        Timestamp::ZERO + since.saturating_sub(self.ahead)
    }

    /// Does all work that is due. Returns whether there was any.
    pub(super) fn drive(&mut self, s: &mut Surroundings) -> Result<bool, String> {
        if self.is_frozen(s.now) {
            return Ok(false);
        }
        let clock = self.clock(s.now);
        let mut any = !self.awake.is_empty() || std::mem::take(&mut self.unsettled);
        if self.frozen_until.take().is_some()
            && let Some(session) = &mut self.session
        {
            // Timers may fire before the data that has arrived meanwhile is read.
            session.handle_timeout(clock);
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
            session.handle_timeout(clock);
            any = true;
        }
        if any {
            self.settle(s)?;
        }
        Ok(any)
    }

    pub(super) fn io<'a>(&self, lines: &'a mut [Line], l: usize) -> &'a mut Io {
        &mut lines[l].ends[self.side as usize]
    }

    /// Services a subflow's socket. Returns whether the session may have results.
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
        let clock = self.clock(s.now);
        if s.net.socket(conn, end).readable_bytes() > 0 {
            let octets = self.io(s.lines, l).fill(s.net.socket_mut(conn, end));
            if let Stage::Up(id) = stage
                && let Some(session) = &mut self.session
            {
                session.handle_arrival(clock, id, octets);
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

    /// TCP's handshake, then the three flights of TLS.
    fn shake_hands(&mut self, s: &mut Surroundings, l: usize, conn: usize) -> bool {
        let io = self.io(s.lines, l);
        if s.net.socket(conn, io.end).state() != State::Established {
            return false;
        }
        if self.side == Side::Primary {
            s.lines[l].established.get_or_insert(s.now);
        }
        let io = self.io(s.lines, l);
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
            self.add_subflow(s, l);
        }
        ready
    }

    /// Primary: gives a connection to the session, and its number to the manager.
    fn add_subflow(&mut self, s: &mut Surroundings, l: usize) {
        let Line { route, attempt, .. } = &s.lines[l];
        let (route, attempt) = (*route, *attempt);
        let link = LinkId(route);
        let target = match attempt.request {
            None => Target::Proxy { link },
            Some(request) => Target::Relay {
                link,
                request,
                express: attempt.express,
            },
        };
        let clock = self.clock(s.now);
        let io = self.io(s.lines, l);
        let setup = setup(l, io, s.manager.setup(&target));
        if let Some(session) = &mut self.session {
            let id = session.add_subflow(clock, setup);
            io.stage = Stage::Up(id);
            s.lines[l].subflow = Some(id);
            let local = Some(attempt.local);
            s.manager.handle_dialled(clock, attempt.dial, id, local);
            self.flush(s, l);
        }
    }

    fn take_records(&mut self, s: &mut Surroundings, l: usize) -> Result<bool, String> {
        let mut any = false;
        let clock = self.clock(s.now);
        while let Some(record) = self.io(s.lines, l).next_record() {
            any = true;
            let io = self.io(s.lines, l);
            let octets = io.rx_octets;
            let taken = match (io.stage, &mut self.session) {
                (Stage::Up(id), Some(session)) => session.handle_record(clock, id, record, octets),
                (Stage::AwaitHello, _) => self.accept(s, l, record)?,
                _ => return Ok(any),
            };
            if let Err(e) = taken {
                if s.is_lasting && e.code == CloseCode::UnknownSession {
                    self.lose_line(s, l);
                    return Ok(true);
                }
                // Neither end violates the protocol.
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
        let clock = self.clock(s.now);
        match self.welcome(s, &hello) {
            Welcome::Go => {}
            Welcome::Ignore => {
                self.lose_line(s, l);
                return Ok(Ok(()));
            }
            Welcome::Unknown if s.is_lasting => {
                self.refuse_join(s, l);
                return Ok(Ok(()));
            }
            Welcome::Unknown => return Err("a join before any session".to_owned()),
        }
        let Some(session) = &mut self.session else {
            return Err("no session was opened".to_owned());
        };
        let io = &mut s.lines[l].ends[self.side as usize];
        let octets = io.rx_octets;
        let setup = setup(l, io, SubflowSetup::default());
        let accepted = session.accept_subflow(clock, setup, &hello);
        let id = match accepted {
            Ok(id) => id,
            // Closed subflows of which only the primary knows may still count against the limit.
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
            session.handle_record(clock, id, rest, octets)
        };
        self.flush(s, l);
        Ok(result)
    }

    /// Closes a connection: tells session and manager, and resets the socket.
    pub(super) fn lose_line(&mut self, s: &mut Surroundings, l: usize) {
        let clock = self.clock(s.now);
        let stage = self.io(s.lines, l).stage;
        if let (Stage::Up(id), Some(session)) = (stage, &mut self.session) {
            session.handle_subflow_closed(clock, id);
        }
        if self.side == Side::Primary {
            match stage {
                Stage::Up(id) => s.manager.handle_subflow_closed(clock, id),
                Stage::Handshake => {
                    let dial = s.lines[l].attempt.dial;
                    s.manager.handle_dial_failed(clock, dial, "connection lost");
                }
                Stage::AwaitHello | Stage::Gone => {}
            }
        }
        let io = self.io(s.lines, l);
        io.stage = Stage::Gone;
        if let Some(conn) = io.conn {
            let end = io.end;
            s.net.socket_mut(conn, end).abort();
            s.net.push(s.now, conn, end);
        }
    }

    /// Primary: hands a helper's report to the session, on the pipe for the proxy, on the HS-Path
    /// for its own use.
    pub(super) fn report(&mut self, s: &Surroundings, id: SubflowId, r: &Report) {
        let clock = self.clock(s.now);
        if let Some(session) = &mut self.session {
            session.relay_report(clock, id, r.pipe);
            session.handle_far_report(clock, id, r.hs);
            if let Some(since) = r.downlink {
                session.handle_helper_downlink(clock, id, since);
            }
        }
    }

    // ---- results --------------------------------------------------------------------------

    /// Carries the session's results out until there are none.
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
                    if let Some(e) = exchange_with(s.running, s.active, id) {
                        self.wake(e);
                    }
                }
                Event::StreamStopped { stream, .. } => {
                    if let Some(e) = exchange_with(s.running, s.active, stream) {
                        if let Some(app) = self.app(s.running, e) {
                            app.stop_writing();
                        }
                        self.wake(e);
                    }
                }
                Event::StreamClosed(stats) => {
                    let found = exchange_with(s.running, s.active, stats.id);
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
                Event::Established { .. } => s.manager.handle_established(self.clock(s.now)),
                Event::SubflowUp(id) if self.side == Side::Primary => {
                    self.show_subflows(s);
                    s.manager.handle_subflow_up(self.clock(s.now), id);
                }
                Event::SubflowPotentiallyFailed(_) if self.side == Side::Primary => {
                    self.show_subflows(s);
                }
                // A primary without open exchanges need not detect that its paths are dead.
                Event::Lost { .. } if !s.is_lasting && !someone_waits(s) => self.has_let_go = true,
                Event::Lost { reason } if s.is_lasting => self.lost = Some(reason.to_string()),
                Event::Lost { reason } => return Err(format!("session lost: {reason}")),
                // Other events are for logs.
                _ => {}
            }
        }
        Ok(())
    }

    /// Primary: shows the manager the state of all subflows.
    fn show_subflows(&self, s: &mut Surroundings) {
        let clock = self.clock(s.now);
        let subflows = self.session.as_ref().map(|s| s.subflows(clock));
        let facts = subflows.iter().flatten().map(SubflowFacts::from);
        s.manager.handle_subflows(clock, facts);
    }

    /// Connects a new stream to its origin.
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

    /// Fetches records and writes them as the daemons' driver does: one record at a time to a
    /// socket, and none while the socket is full.
    fn transmit(&mut self, s: &mut Surroundings) -> bool {
        let clock = self.clock(s.now);
        self.refresh_paths(s);
        let mut any = false;
        let mut flush: Vec<usize> = Vec::new();
        loop {
            self.record.clear();
            let Some(session) = &mut self.session else {
                return any;
            };
            let Some(t) = session.poll_transmit(clock, &mut self.record) else {
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

    /// Writes queued records, and updates the session's room.
    fn flush(&mut self, s: &mut Surroundings, l: usize) {
        let side = self.side as usize;
        let io = &mut s.lines[l].ends[side];
        let (Some(conn), Stage::Up(id)) = (io.conn, io.stage) else {
            return;
        };
        if io.blocked && !is_writable(s.net.socket(conn, io.end)) {
            return;
        }
        // Written bytes may be sent at once, which makes room for more.
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

    /// Reads the kernel's view of all paths while data flows.
    fn refresh_paths(&mut self, s: &mut Surroundings) {
        let clock = self.clock(s.now);
        let Some(session) = &mut self.session else {
            return;
        };
        let sending = session.is_sending();
        for &l in s.live {
            let io = &mut s.lines[l].ends[self.side as usize];
            let (Some(conn), Stage::Up(id)) = (io.conn, io.stage) else {
                continue;
            };
            if let Some(path) = io.read_path(s.now, s.net.socket_mut(conn, io.end), sending) {
                session.handle_path(clock, id, path);
            }
        }
    }
}

fn is_express(hello: &Hello) -> bool {
    let (Hello::Capable { path, .. } | Hello::Join { path, .. }) = hello;
    path.role == Role::Express
}

/// Completes a subflow's setup with the facts of its TLS connection.
fn setup(line: usize, io: &Io, of: SubflowSetup) -> SubflowSetup {
    let mut exporter = [0; 32];
    exporter[..8].copy_from_slice(&(line as u64).to_be_bytes());
    SubflowSetup {
        exporter,
        tx_octets: io.tx_octets,
        rx_octets: io.rx_octets,
        record_overhead: RECORD_OVERHEAD,
        ..of
    }
}

/// Destination of an exchange's stream.
pub(super) fn destination(exchange: usize) -> Destination {
    Destination::Name {
        host: format!("{exchange}.origin.test"),
        port: 80,
    }
}

fn exchange_of(destination: &Destination) -> Result<usize, String> {
    let text = destination.to_string();
    let number = text.split_once('.').and_then(|(n, _)| n.parse().ok());
    number.ok_or_else(|| format!("unknown destination {text}"))
}

fn someone_waits(s: &Surroundings) -> bool {
    s.running.iter().any(|r| {
        r.as_ref().is_none_or(|r| {
            let rests = |app: &App| app.is_paused(s.now);
            r.waits_for_bytes() && !rests(&r.client) && !r.origin.as_ref().is_some_and(rests)
        })
    })
}

/// The exchange of a stream, of those that run.
pub(super) fn exchange_with(
    running: &[Option<Running>],
    active: &[usize],
    id: StreamId,
) -> Option<usize> {
    let is = |e: &&usize| running[**e].as_ref().is_some_and(|r| r.stream == id);
    active.iter().find(is).copied()
}

/// A helper's report on a hop on which it sends.
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
