//! One end of the session, and its driver in virtual time.

use std::time::Duration;

use bytes::Bytes;
use mpbond_manager::{LinkId, Manager, Rejoin, Target};
use mpbond_session::{
    CloseCode, Hello, Role, Session, SessionConfig, SubflowId, SubflowSetup, parse_hello,
};
use mpbond_units::Timestamp;

use super::app::Running;
use super::line::{
    CLIENT_FLIGHT, CLIENT_HELLO, DIAL, Io, Line, RECORD_OVERHEAD, SERVER_FLIGHT, Stage,
};
use super::net::Net;
use super::relay_report::Report;
use super::scenario::{Exchange, Route};
use crate::tcp::State;

/// End of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Primary,
    Proxy,
}

/// An end of the session, with its driver.
pub(super) struct Host {
    pub(super) side: Side,
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
    /// Sessions that it no longer has, by number, until their rest is delivered.
    pub(super) aside: Vec<(u64, Session)>,
    /// Number of its session: at the primary, of the next one while there is none.
    pub(super) number: u64,
    /// Proxy: number of its process, which is the label of its sessions.
    pub(super) process: u32,
    /// Proxy: the process that it has replaced.
    pub(super) before: Option<u32>,
    /// Primary: the proxy takes no new streams in its session.
    pub(super) retires: bool,
    /// Set for a session that takes no new streams, and for a process that was replaced.
    pub(super) leaving: Option<Leaving>,
    pub(super) record: Vec<u8>,
}

/// End of a host that only serves what is open.
pub(super) struct Leaving {
    /// When it ends at the latest.
    pub(super) until: Timestamp,
    /// Primary: joins of its session.
    pub(super) rejoin: Rejoin,
}

/// State of the world that a host reads and changes.
pub(super) struct Surroundings<'a> {
    pub(super) now: Timestamp,
    pub(super) net: &'a mut Net,
    pub(super) lines: &'a mut [Line],
    pub(super) live: &'a [usize],
    pub(super) active: &'a [usize],
    pub(super) routes: &'a [Route],
    pub(super) exchanges: &'a [Exchange],
    pub(super) running: &'a mut [Option<Running>],
    /// The primary's path manager.
    pub(super) manager: &'a mut Manager,
    /// Processes of the proxy that were replaced and run.
    pub(super) processes: &'a [u32],
    pub(super) keeps_log: bool,
    /// Whether a lost session is followed by another one.
    pub(super) is_lasting: bool,
    /// Whether a visit is not over.
    pub(super) is_visiting: bool,
}

/// Treatment of a hello by the proxy.
pub(super) enum Welcome {
    /// The connection belongs to its session.
    Go,
    /// It is of no use to anybody.
    Ignore,
    /// It belongs to a session that the process does not have; the code for the primary.
    Unknown(CloseCode),
}

impl Host {
    pub(super) fn primary(config: SessionConfig) -> Self {
        let mut host = Self::new(Side::Primary, config);
        host.number = 1;
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
            aside: Vec::new(),
            awake: Vec::new(),
            number: 0,
            process: 0,
            before: None,
            retires: false,
            leaving: None,
            record: Vec::new(),
        }
    }

    /// Its successor: the next session of a primary, the next process of a proxy.
    pub(super) fn next(&self) -> Self {
        let mut next = Self::new(self.side, self.config.clone());
        match self.side {
            Side::Primary => next.number = self.number + 1,
            Side::Proxy => {
                next.process = self.process + 1;
                next.before = Some(self.process);
            }
        }
        Self {
            frozen_until: self.frozen_until,
            ahead: self.ahead,
            slept: self.slept,
            asleep_since: self.asleep_since,
            ..next
        }
    }

    /// Whether its end of a connection is its own.
    pub(super) fn owns(&self, line: &Line) -> bool {
        match (self.side, line.process) {
            (Side::Primary, _) => line.session == self.number,
            (Side::Proxy, Some(process)) => process == self.process,
            // The newest process accepts.
            (Side::Proxy, None) => self.leaving.is_none(),
        }
    }

    /// Whether its session is that of the manager.
    pub(super) fn is_managed(&self) -> bool {
        self.side == Side::Primary && self.leaving.is_none()
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
        let thaws = self.frozen_until.take().is_some();
        if thaws || self.due.is_some_and(|t| t <= s.now) {
            // Whether copies wait depends on what the kernel knows now.
            self.refresh_paths(s);
        }
        if thaws && let Some(session) = &mut self.session {
            // Timers may fire before the data that has arrived meanwhile is read.
            session.handle_timeout(clock);
            any = true;
        }
        for &l in s.live {
            if self.owns(&s.lines[l]) && std::mem::take(&mut self.io(s.lines, l).dirty) {
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
        if matches!(io.stage, Stage::Up(_)) && io.blocked && s.net.socket(conn, end).is_writable() {
            self.flush(s, l);
            any = true;
        }
        // The end of a byte stream is found behind its last byte.
        let is_gone = self.io(s.lines, l).stage == Stage::Gone;
        if !is_gone && s.net.socket(conn, end).state() == State::Reset {
            self.lose_line(s, l);
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
        match self.side {
            Side::Primary => {
                s.lines[l].established.get_or_insert(s.now);
            }
            Side::Proxy => {
                s.lines[l].process.get_or_insert(self.process);
                if let Some(before) = self.passes_to(s, l) {
                    s.lines[l].process = Some(before);
                    self.io(s.lines, l).dirty = true;
                    return true;
                }
            }
        }
        let label = self.label();
        let line = &mut s.lines[l];
        let io = &mut line.ends[self.side as usize];
        let mut ready = false;
        match self.side {
            Side::Primary => {
                if io.tx_octets == 0 {
                    line.label = label;
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

    /// Primary: label of the process that holds its session, once that has answered.
    fn label(&self) -> Option<u32> {
        let session = self
            .session
            .as_ref()
            .filter(|_| self.side == Side::Primary)?;
        Some(u32::from_be_bytes(session.id()?.label()))
    }

    /// Proxy: the process before this one, if a ClientHello that has arrived names another one
    /// than this.
    fn passes_to(&self, s: &mut Surroundings, l: usize) -> Option<u32> {
        let before = self.before.filter(|before| s.processes.contains(before))?;
        let io = self.io(s.lines, l);
        let has_come = io.tx_octets == 0 && io.holds(CLIENT_HELLO);
        let names_another = s.lines[l].label.is_some_and(|label| label != self.process);
        (has_come && names_another).then_some(before)
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
            let least_bursts = s.routes[route].least_bursts.filter(|_| !attempt.express);
            if let Some([own, peer]) = least_bursts {
                session.set_least_bursts(id, own, peer);
            }
            session.set_cost(id, s.routes[route].cost);
            io.stage = Stage::Up(id);
            s.lines[l].subflow = Some(id);
            if let Some(Leaving { rejoin, .. }) = &mut self.leaving {
                rejoin.handle_joined(link, id);
            } else {
                let local = Some(attempt.local);
                s.manager.handle_dialled(clock, attempt.dial, id, local);
            }
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
                let end = [
                    CloseCode::UnknownSession,
                    CloseCode::Done,
                    CloseCode::GoingAway,
                ];
                if s.is_lasting && end.contains(&e.code) {
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
            Welcome::Unknown(code) if s.is_lasting => {
                self.say_close(s, l, code, "no such session");
                return Ok(Ok(()));
            }
            Welcome::Unknown(_) => return Err("a join before any session".to_owned()),
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
        if self.is_managed() {
            match stage {
                Stage::Up(id) => {
                    let quiet = self.session.as_ref().map(|s| s.quiet_for(clock));
                    let quiet = quiet.unwrap_or_default();
                    s.manager.handle_subflow_closed(clock, id, quiet);
                }
                Stage::Handshake => {
                    let dial = s.lines[l].attempt.dial;
                    s.manager.handle_dial_failed(clock, dial, "connection lost");
                }
                Stage::AwaitHello | Stage::Gone => {}
            }
        } else if let Some(Leaving { rejoin, .. }) = &mut self.leaving
            && stage == Stage::Handshake
            && s.lines[l].attempt.dial == DIAL
        {
            rejoin.handle_not_joined(LinkId(s.lines[l].route));
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
