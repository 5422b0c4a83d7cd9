//! Sessions that have ended before applications have read everything: what has arrived completely
//! is still delivered, as by `mpbond::driver`.

use std::collections::{BTreeMap, BTreeSet};

use mpbond_session::{Event, Session};
use mpbond_units::Timestamp;

use super::World;
use super::app::App;
use super::ended::Ended;
use super::host::Side;

impl World {
    /// Takes over the sessions that hosts have set aside.
    pub(super) fn keep_unread(&mut self) {
        for host in self.hosts.iter_mut().chain(&mut self.leaving) {
            let clock = host.clock(self.now);
            for (number, mut session) in host.aside.drain(..) {
                session.end(clock);
                self.ended.push(Ended {
                    side: host.side,
                    process: host.process,
                    number,
                    session,
                    ended: self.now,
                    taken: BTreeMap::new(),
                    given_up: BTreeSet::new(),
                });
            }
        }
    }

    /// Hands applications what is left of ended sessions. Returns whether anything happened.
    pub(super) fn deliver_unread(&mut self) -> Result<bool, String> {
        self.keep_unread();
        let mut ended = std::mem::take(&mut self.ended);
        let mut any = false;
        for one in &mut ended {
            let host = &self.hosts[one.side as usize];
            if host.is_frozen(self.now) {
                continue;
            }
            let clock = host.clock(self.now);
            for &e in &self.active {
                let running = self.running[e].as_mut();
                let Some(r) = running.filter(|r| r.session == one.number) else {
                    continue;
                };
                let stream = r.stream;
                let app = match one.side {
                    Side::Primary => Some(&mut r.client),
                    Side::Proxy => r.origin.as_mut(),
                };
                let is_read = |app: &&mut App| app.closed.is_none() && !one.given_up.contains(&e);
                let Some(app) = app.filter(is_read) else {
                    continue;
                };
                let before = app.read;
                app.pump(self.now, clock, &mut one.session, stream)
                    .map_err(|what| format!("exchange {e} at {:?}: {what}", one.side))?;
                if app.read > before {
                    one.taken.insert(e, self.now);
                    any = true;
                }
                while let Some(event) = one.session.poll_event() {
                    if let Event::StreamClosed(stats) = event
                        && stats.id == stream
                    {
                        app.closed = Some(stats);
                        any = true;
                    }
                }
            }
        }
        self.ended = ended;
        let dropped = self.drop_unread(|world, one, e| {
            let stalls = one.stalls_at(e) <= world.now;
            stalls && !world.hosts[one.side as usize].is_frozen(world.now)
        });
        Ok(any | dropped)
    }

    /// Exchanges that still read from an ended session.
    fn readers(&self, one: &Ended) -> impl Iterator<Item = usize> {
        self.active.iter().copied().filter(|e| {
            let running = self.running[*e].as_ref();
            running.is_some_and(|r| {
                let app = match one.side {
                    Side::Primary => Some(&r.client),
                    Side::Proxy => r.origin.as_ref(),
                };
                let is_open = app.is_some_and(|app| app.closed.is_none());
                r.session == one.number && is_open && !one.given_up.contains(e)
            })
        })
    }

    /// Gives up exchanges that read from ended sessions, and has those repeated of which the origin
    /// lacks the rest. Drops ended sessions from which nobody reads. Returns whether any exchange
    /// is repeated.
    pub(super) fn drop_unread(&mut self, which: impl Fn(&Self, &Ended, usize) -> bool) -> bool {
        let mut kept = Vec::new();
        let mut any = false;
        for mut one in std::mem::take(&mut self.ended) {
            let readers = self.readers(&one);
            let (gone, left): (Vec<_>, Vec<_>) = readers.partition(|e| which(self, &one, *e));
            // The primary learns it when it joins.
            let learns = one.side == Side::Proxy && self.is_live(Side::Primary, one.number);
            for &e in gone.iter().filter(|_| !learns) {
                self.active.retain(|other| *other != e);
                self.begin_again(e);
                any = true;
            }
            if !left.is_empty() {
                one.given_up.extend(gone);
                kept.push(one);
            }
        }
        self.ended = kept;
        any
    }

    /// Whether a host of this side has this session, not ended.
    fn is_live(&self, side: Side, number: u64) -> bool {
        let mut hosts = self.hosts.iter().chain(&self.leaving);
        hosts.any(|h| h.side == side && h.number == number && h.session.is_some())
    }

    /// Whether a process of the proxy has the session of this exchange, or what is left of it.
    fn is_at_proxy(&self, e: usize, number: u64) -> bool {
        let mut ended = self.ended.iter();
        let has_rest = |one: &Ended| one.number == number && !one.given_up.contains(&e);
        self.is_live(Side::Proxy, number)
            || ended.any(|one| one.side == Side::Proxy && has_rest(one))
    }

    /// Whether a process of the proxy delivers the rest of an ended session.
    pub(super) fn has_unread(&self, process: u32) -> bool {
        let mut ended = self.ended.iter();
        ended.any(|one| one.side == Side::Proxy && one.process == process)
    }

    /// Whether both applications of an exchange get everything although its session is over at the
    /// primary: both directions have arrived completely.
    pub(super) fn is_whole(&self, e: usize) -> bool {
        let Some(r) = self.running[e].as_ref() else {
            return false;
        };
        let of_client = |one: &&Ended| one.side == Side::Primary && one.number == r.session;
        let unread = self.ended.iter().find(of_client).map(|one| &one.session);
        let unread = unread.into_iter().flat_map(Session::streams);
        let mut unread = unread.filter(|s| s.id == r.stream);
        let closed = r.client.closed.as_ref();
        let over = closed.is_some_and(|stats| stats.reset.is_none());
        let origin_reads = |origin: &App| origin.closed.is_some() || self.is_at_proxy(e, r.session);
        (over || unread.any(|stats| stats.reset.is_none()))
            && r.origin.as_ref().is_some_and(origin_reads)
    }

    /// When rests of ended sessions are dropped.
    pub(super) fn unread_due(&self) -> impl Iterator<Item = Timestamp> {
        self.ended
            .iter()
            .flat_map(|one| self.readers(one).map(|e| one.stalls_at(e)))
    }

    /// A process of the proxy is gone, or all are. Exchanges of which no process has the rest any
    /// more are repeated.
    pub(super) fn drop_unread_of(&mut self, process: Option<u32>) {
        self.drop_unread(|_, one, _| {
            let is_it = process.is_none_or(|process| process == one.process);
            one.side == Side::Proxy && is_it
        });
        let is_cut_off = |e: &usize| {
            let running = self.running[*e].as_ref();
            running.is_some_and(|r| r.is_whole && !r.is_over() && !self.is_at_proxy(*e, r.session))
        };
        let cut_off: Vec<usize> = self.active.iter().copied().filter(is_cut_off).collect();
        for e in cut_off {
            self.active.retain(|other| *other != e);
            self.begin_again(e);
        }
    }
}
