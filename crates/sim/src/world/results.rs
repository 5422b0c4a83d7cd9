//! Results of a host's session, carried out: events, bytes for applications, records for sockets.

use mpbond_manager::{LinkOf, SubflowFacts};
use mpbond_session::{Destination, Event, Session, StreamId, SubflowId};

use super::app::{App, Running};
use super::host::{Host, Side, Surroundings};
use super::line::Stage;
use super::rounds::Part;

impl Host {
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
                    if let Some(e) = exchange_with(s.running, s.active, (self.number, id)) {
                        self.wake(e);
                    }
                }
                Event::StreamStopped { stream, .. } => {
                    if let Some(e) = exchange_with(s.running, s.active, (self.number, stream)) {
                        if let Some(app) = self.app(s.running, e) {
                            app.stop_writing();
                        }
                        self.wake(e);
                    }
                }
                Event::StreamClosed(stats) => {
                    let found = exchange_with(s.running, s.active, (self.number, stats.id));
                    if let Some(app) = found.and_then(|e| self.app(s.running, e)) {
                        app.closed = Some(stats);
                    }
                }
                Event::SubflowClosed { subflow, .. } => {
                    if let Some(l) = self.line_of(s, subflow) {
                        self.lose_line(s, l);
                    }
                }
                Event::Established { .. } if self.is_managed() => {
                    s.manager.handle_established(self.clock(s.now));
                }
                Event::SubflowUp(id) if self.is_managed() => {
                    self.show_subflows(s);
                    s.manager.handle_subflow_up(self.clock(s.now), id);
                }
                Event::SubflowPotentiallyFailed(_) if self.is_managed() => {
                    self.show_subflows(s);
                }
                Event::Moving if self.is_managed() => {
                    s.manager.handle_moving(self.clock(s.now));
                }
                Event::GoAway { .. } => self.retires = true,
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
        let running = s.running.get_mut(e).and_then(Option::as_mut);
        let running = running.filter(|r| r.session == self.number);
        let (Some(x), Some(running)) = (s.exchanges.get(e), running) else {
            // The primary may have lost the session meanwhile.
            return match s.is_lasting {
                true => Ok(()),
                false => Err(format!(
                    "{stream} leads to exchange {e}, which has not started"
                )),
            };
        };
        if running.stream != stream || running.origin.is_some() {
            return Err(format!("exchange {e} was dialled twice, now by {stream}"));
        }
        let app = App::new(s.now, e, false, x.origin, x.down_bytes, !x.at_once)
            .expecting(x.is_by_length().then_some(x.up_bytes))
            .repeating(x.rounds.map(|_| Part::Answers(x.up_bytes)))
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

    /// Proxy: exchanges with others what is on its links, where they do.
    fn exchange(&mut self, s: &Surroundings) {
        if self.side != Side::Proxy || !s.net.has_ledger() {
            return;
        }
        let up = |l: &usize| match s.lines[*l].ends[self.side as usize].stage {
            Stage::Up(subflow) if self.owns(&s.lines[*l]) => {
                let route = &s.routes[s.lines[*l].route];
                let link = *route.links.last()?;
                let is_own = route.helper.is_none();
                Some(LinkOf {
                    subflow,
                    link,
                    is_own,
                })
            }
            _ => None,
        };
        let links: Vec<_> = s.live.iter().filter_map(up).collect();
        let clock = self.clock(s.now);
        if let Some(session) = &mut self.session {
            s.net.exchange(clock, session, links);
        }
    }

    /// Fetches records and writes them as the daemons' driver does: one record at a time to a
    /// socket, and none while the socket is full.
    fn transmit(&mut self, s: &mut Surroundings) -> bool {
        let clock = self.clock(s.now);
        self.refresh_paths(s);
        self.exchange(s);
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
        live.find(|l| self.owns(&s.lines[*l]) && s.lines[*l].ends[side].stage == up)
    }

    /// Writes queued records, and updates the session's room.
    pub(super) fn flush(&mut self, s: &mut Surroundings, l: usize) {
        let side = self.side as usize;
        let io = &mut s.lines[l].ends[side];
        let (Some(conn), Stage::Up(id)) = (io.conn, io.stage) else {
            return;
        };
        if io.blocked && !s.net.socket(conn, io.end).is_writable() {
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
    pub(super) fn refresh_paths(&mut self, s: &mut Surroundings) {
        let clock = self.clock(s.now);
        let sending = self.session.as_ref().is_some_and(Session::is_sending);
        for &l in s.live {
            if !self.owns(&s.lines[l]) {
                continue;
            }
            let io = &mut s.lines[l].ends[self.side as usize];
            let (Some(conn), Stage::Up(id)) = (io.conn, io.stage) else {
                continue;
            };
            if let Some(path) = io.read_path(s.now, s.net.socket_mut(conn, io.end), sending)
                && let Some(session) = &mut self.session
            {
                session.handle_path(clock, id, path);
            }
        }
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
    let waits = |r: &Option<Running>| {
        r.as_ref().is_none_or(|r| {
            let rests = |app: &App| app.is_paused(s.now);
            r.waits_for_bytes() && !rests(&r.client) && !r.origin.as_ref().is_some_and(rests)
        })
    };
    s.is_visiting || s.running.iter().any(waits)
}

/// The exchange of a session's stream, of those that run.
pub(super) fn exchange_with(
    running: &[Option<Running>],
    active: &[usize],
    (session, stream): (u64, StreamId),
) -> Option<usize> {
    let is = |r: &Running| r.session == session && r.stream == stream;
    let is = |e: &&usize| running[**e].as_ref().is_some_and(is);
    active.iter().find(is).copied()
}
