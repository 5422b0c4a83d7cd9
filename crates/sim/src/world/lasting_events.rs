//! Events of worlds that last for hours: sleep, NATs that forget connections, restarts of the
//! proxy, sessions that are lost and opened again, and exchanges that are repeated.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::World;
use super::app::{App, End};
use super::host::Side as HostSide;
use super::lasting::{Before, LastingState, Note, Noted};
use super::line::Stage;
use super::scenario::Lasting;
use crate::tcp::{End as Side, State};

impl World {
    /// Puts the NATs of a lasting scenario into their places.
    pub(super) fn with_gates(mut self) -> Self {
        if let Some(Lasting { nats, .. }) = &self.scenario.lasting {
            for (gate, nat) in self.net.gates.iter_mut().zip(nats) {
                gate.nat = *nat;
            }
            self.net.passed = Some(Vec::new());
        }
        self
    }

    /// Keep-alive of a new connection.
    pub(super) fn keepalive(&self, express: bool) -> Option<Duration> {
        let lasting = self.scenario.lasting.as_ref().filter(|_| !express);
        lasting.and_then(|l| l.keepalive)
    }

    /// The primary's host goes to sleep.
    pub(super) fn sleep(&mut self, length: Duration) {
        let until = self.now + length;
        self.lasting.asleep_until = Some(until);
        self.net.asleep = true;
        let now = self.now;
        self.hosts_of(0).for_each(|host| host.sleep(now, until));
    }

    /// Wakes the primary's host if its sleep is over.
    pub(super) fn wake_up(&mut self) {
        let over = |until: &mut Timestamp| *until <= self.now;
        if self.lasting.asleep_until.take_if(over).is_some() {
            self.net.asleep = false;
            let now = self.now;
            let mut length = Duration::ZERO;
            for host in self.hosts_of(0) {
                length = host.wake_up(now);
                host.look_again();
            }
            let clock = self.primary_clock();
            self.manager.handle_slept(clock, length);
        }
    }

    /// The proxy's process is replaced by one that knows no session.
    pub(super) fn restart_proxy(&mut self) {
        for l in self.live.clone() {
            if self.lines[l].ends[1].stage != Stage::Gone {
                self.lose_line(1, l);
            }
        }
        self.hosts[1].drop_session();
        self.hosts[1].aside.clear();
        self.leaving.retain(|host| host.side == HostSide::Primary);
        self.drop_unread_of(None);
    }

    /// Settles lost sessions at both ends. Returns whether there was one.
    pub(super) fn renew_sessions(&mut self) -> bool {
        let proxy = self.hosts[1].lost.take().is_some();
        if proxy {
            self.with_host(1, |host, s| host.abandon(s));
            self.hosts[1].set_aside();
        }
        let primary = self.hosts[0].lost.take();
        let mut any = proxy || primary.is_some();
        if let Some(reason) = primary {
            self.lose_session(reason);
        } else if std::mem::take(&mut self.hosts[0].retires) {
            self.retire_session();
            any = true;
        }
        any | self.end_leaving()
    }

    /// The primary's session is over: all connections are closed, and applications see a reset.
    fn lose_session(&mut self, reason: String) {
        let session = self.hosts[0].number;
        self.close_connections(session);
        self.hosts[0].set_aside();
        self.keep_unread();
        self.hosts[0] = self.hosts[0].next();
        self.repeat(session, Some(reason));
        let clock = self.primary_clock();
        self.manager.handle_session_lost(clock);
    }

    /// The primary closes all connections of a session.
    pub(super) fn close_connections(&mut self, session: u64) {
        for l in self.live.clone() {
            let line = &self.lines[l];
            if line.session == session && line.ends[0].stage != Stage::Gone {
                self.lose_line(0, l);
            }
        }
    }

    /// One of the primary's sessions is over, for this reason if it was lost: what was open is
    /// repeated in the next one.
    pub(super) fn repeat(&mut self, session: u64, reason: Option<String>) {
        if let Some(reason) = reason {
            let what = Noted::SessionLost(reason);
            self.lasting.notes.push(Note {
                at: self.now,
                until: Some(self.now),
                what,
            });
        }
        let of_session = |e: &usize| {
            let running = self.running[*e].as_ref();
            running.is_some_and(|r| r.session == session)
        };
        let ended: Vec<usize> = self.active.iter().copied().filter(of_session).collect();
        for e in ended {
            let is_whole = self.is_whole(e);
            if let Some(running) = self.running[e].as_mut().filter(|_| is_whole) {
                running.is_whole = true;
                continue;
            }
            self.active.retain(|other| *other != e);
            self.begin_again(e);
        }
    }

    /// Has an exchange that was cut off repeated, unless both applications have everything.
    pub(super) fn begin_again(&mut self, e: usize) {
        let Some(running) = self.running[e].take() else {
            return;
        };
        let origin = running.origin.as_ref();
        let taken = origin.is_some_and(|o| o.read == self.scenario.exchanges[e].up_bytes);
        let finished = matches!(running.client.ended, Some((_, End::Finished)));
        if finished && taken {
            self.running[e] = Some(running);
            return;
        }
        let before = self.lasting.before[e].get_or_insert(Before {
            started: running.started,
            waits_since: running.started,
            lost_answer: false,
            attempts: 0,
        });
        // An origin that had nothing to say kept nobody waiting until now.
        if let Some(ready) = running.origin.as_ref().and_then(App::ready) {
            before.waits_since = ready.max(running.client.last_read()).min(self.now);
            before.lost_answer = ready < self.now;
        }
        before.attempts += 1;
        let pause = self.scenario.lasting.as_ref().map(|l| l.repeat_after);
        self.waiting.put(self.now + pause.unwrap_or_default(), e);
    }

    /// The manager opens a session. That of the beginning is open already.
    pub(super) fn open_session(&mut self) {
        if self.hosts[0].session.is_none() {
            self.hosts[0].open_session();
            let clock = self.primary_clock();
            self.manager.handle_session_opened(clock);
        }
    }

    /// Notes what NATs have forgotten, and closes ends that nothing will ever reach: a proxy limits
    /// handshakes, and a host does not keep the sockets of a process that has closed them.
    pub(super) fn tidy(&mut self) {
        let forgotten = std::mem::take(&mut self.net.forgotten);
        if self.scenario.lasting.is_none() {
            return;
        }
        for l in forgotten {
            let state = &mut self.lasting;
            state.forgotten.push((l, state.notes.len()));
            state.notes.push(Note {
                at: self.now,
                until: None,
                what: Noted::Forgotten(self.lines[l].route),
            });
        }
        let LastingState {
            notes, forgotten, ..
        } = &mut self.lasting;
        forgotten.retain(|(l, note)| {
            let closed = self.lines[*l].ends[0].stage == Stage::Gone;
            notes[*note].until = closed.then_some(self.now);
            !closed
        });
        for i in 0..self.live.len() {
            let l = self.live[i];
            let [near, far] = &self.lines[l].ends;
            let never_up = matches!(far.stage, Stage::Handshake | Stage::AwaitHello);
            if near.stage == Stage::Gone && never_up && !self.hosts[0].is_frozen(self.now) {
                self.lose_line(1, l);
            }
            let line = &self.lines[l];
            if line.is_over() {
                for conn in [Some(line.first), line.second].into_iter().flatten() {
                    self.net.discard(conn);
                }
            }
        }
    }

    /// Whether a line's connection to the proxy is established.
    pub(super) fn is_connected(&self, conn: usize) -> bool {
        let ends = [Side::A, Side::B];
        let open = |end| self.net.socket(conn, end).state() == State::Established;
        ends.into_iter().all(open)
    }
}
