//! Upgrade of the proxy: a new process accepts connections, and the old one serves what is open
//! until it ends or a deadline passes (docs/upgrade.md).
//!
//! The course is that of `mpbond::upgrade`, `mpbond::proxy` and `mpbond::primary::retiring`: the
//! old process sends GO_AWAY; the primary opens a session at the new one, and keeps the old session
//! for the streams that are open there; a connection whose ClientHello carries the label of another
//! process is passed on to the process before.

use std::time::Duration;

use mpbond_manager::{LinkId, Rejoin, RejoinAction, RequestId};
use mpbond_session::{CloseCode, Session};
use mpbond_units::Timestamp;

use super::World;
use super::host::{Host, Leaving, Side};
use super::line::{DIAL, Line, Stage};
use super::sessions::LEAVING;

/// Time for which an old process serves open connections: the default of a proxy's `drain`.
const DRAIN: Duration = Duration::from_secs(600);

/// Longest time for which a primary keeps a session that takes no new streams.
const RETIRE_WITHIN: Duration = Duration::from_secs(3_600);

/// Time for the acknowledgements of the last bytes of such a session.
const LINGER: Duration = Duration::from_secs(1);

/// Request of connections that are not the manager's.
const REQUEST: RequestId = RequestId(u64::MAX);

impl Host {
    /// Whether its session has no open stream.
    fn is_drained(&self) -> bool {
        let open = |session: &Session| session.stats().streams_open > 0;
        !self.session.as_ref().is_some_and(open)
    }
}

impl World {
    /// A new process of the proxy has taken over.
    pub(super) fn upgrade_proxy(&mut self) {
        let next = self.hosts[1].next();
        let mut old = std::mem::replace(&mut self.hosts[1], next);
        if let Some(session) = &mut old.session {
            session.go_away(LEAVING);
            old.look_again();
        }
        self.leave(old, DRAIN);
    }

    /// The primary's session takes no new streams: the next one is opened beside it.
    pub(super) fn retire_session(&mut self) {
        let next = self.hosts[0].next();
        let old = std::mem::replace(&mut self.hosts[0], next);
        let (session, is_drained) = (old.number, old.is_drained());
        self.leave(old, RETIRE_WITHIN);
        if is_drained {
            self.end_session(session, None);
        }
        let clock = self.primary_clock();
        self.manager.handle_session_retired(clock);
    }

    fn leave(&mut self, mut host: Host, within: Duration) {
        host.leaving = Some(Leaving {
            until: self.now + within,
            rejoin: Rejoin::default(),
        });
        self.leaving.push(host);
    }

    /// Does the work of hosts that leave; whether there was any.
    pub(super) fn drive_leaving(&mut self) -> Result<bool, String> {
        if self.leaving.is_empty() {
            return Ok(false);
        }
        self.with_hosts(|_, leaving, s| {
            let mut any = false;
            for host in leaving {
                any |= host.drive(s)?;
            }
            Ok(any)
        })
    }

    /// Ends hosts that have nothing left to serve or have served for long enough, and joins
    /// sessions again of which no subflow works. Returns whether anything happened.
    pub(super) fn end_leaving(&mut self) -> bool {
        let mut any = false;
        for i in (0..self.leaving.len()).rev() {
            if self.leaving[i].is_frozen(self.now) {
                continue;
            }
            any |= match self.leaving[i].side {
                Side::Primary => self.retiring(i),
                Side::Proxy => self.draining(i),
            };
        }
        any
    }

    /// A session of the primary that takes no new streams.
    fn retiring(&mut self, i: usize) -> bool {
        let host = &mut self.leaving[i];
        let lost = host.lost.take();
        let (session, is_drained) = (host.number, host.is_drained());
        let Some(leaving) = &mut host.leaving else {
            return false;
        };
        if is_drained {
            leaving.until = leaving.until.min(self.now + LINGER);
        }
        if lost.is_some() || leaving.until <= self.now {
            self.end_session(session, lost);
            return true;
        }
        self.join_again(i)
    }

    /// The primary ends a session, and says so on all of its subflows.
    fn end_session(&mut self, session: u64, lost: Option<String>) {
        self.close_all(0, |host| host.number == session, "no stream is left");
        self.close_connections(session);
        let is_it = |host: &Host| host.side == Side::Primary && host.number == session;
        for host in self.leaving.iter_mut().filter(|host| is_it(host)) {
            host.set_aside();
        }
        self.keep_unread();
        self.leaving.retain(|host| !is_it(host));
        self.repeat(session, lost);
    }

    /// Hosts that leave tell the other end on all subflows that their session is over.
    fn close_all(&mut self, side: usize, which: impl Fn(&Host) -> bool, reason: &str) {
        self.with_hosts(|_, leaving, s| {
            let is_it = |host: &&mut Host| host.side as usize == side && which(host);
            for host in leaving.iter_mut().filter(is_it) {
                for &l in s.live {
                    let line = &s.lines[l];
                    if host.owns(line) && matches!(line.ends[side].stage, Stage::Up(_)) {
                        host.say_close(s, l, CloseCode::GoingAway, reason);
                    }
                }
            }
        });
    }

    /// Connects for a session of which no subflow works.
    fn join_again(&mut self, i: usize) -> bool {
        let host = &mut self.leaving[i];
        let (number, clock) = (host.number, host.clock(self.now));
        let subflows = host.session.as_ref().map(|s| s.subflows(clock));
        let subflows = subflows.iter().flatten().map(|s| (s.id, s.state));
        let links = (0..self.scenario.routes.len()).map(LinkId);
        let Some(Leaving { rejoin, .. }) = &mut host.leaving else {
            return false;
        };
        rejoin.handle_state(clock, links, subflows);
        let actions: Vec<_> = std::iter::from_fn(|| rejoin.poll_action()).collect();
        for action in &actions {
            match *action {
                RejoinAction::Dial { link } => self.dial_again(i, link),
                RejoinAction::Drop { subflow, .. } => {
                    let up = Stage::Up(subflow);
                    self.lose(|line| line.session == number && line.ends[0].stage == up);
                }
            }
        }
        !actions.is_empty()
    }

    /// Connects on a route for a session that takes no new streams.
    fn dial_again(&mut self, i: usize, link: LinkId) {
        let (session, route) = (self.leaving[i].number, link.0);
        let refuses = self.lasting.refused_until[route] > self.now;
        if self.up_at[route].is_none() && !refuses {
            let request = self.scenario.routes[route].helper.map(|_| REQUEST);
            self.connect(session, route, DIAL, request, false);
        } else if let Some(Leaving { rejoin, .. }) = &mut self.leaving[i].leaving {
            rejoin.handle_not_joined(link);
        }
    }

    /// A process of the proxy that was replaced. It waits for the process before it.
    fn draining(&mut self, i: usize) -> bool {
        let host = &mut self.leaving[i];
        let (process, before) = (host.process, host.before);
        let lost = host.lost.take().is_some();
        let late = host.leaving.as_ref().is_some_and(|l| l.until <= self.now);
        if lost {
            self.with_hosts(|_, leaving, s| leaving[i].abandon(s));
            self.leaving[i].set_aside();
            self.keep_unread();
        }
        let host = &self.leaving[i];
        let mut lines = self.live.iter().map(|l| &self.lines[*l]);
        let is_up = |line: &Line| matches!(line.ends[1].stage, Stage::Up(_));
        let has_subflow = lines.any(|line| host.owns(line) && is_up(line));
        let is_over = host.is_drained() && !has_subflow && !self.has_unread(process);
        if !is_over && !late {
            return lost;
        }
        let had_session = host.session.is_some();
        if had_session {
            self.close_all(1, |host| host.process == process, "the proxy stops");
            self.leaving[i].drop_session();
        }
        self.drop_unread_of(Some(process));
        let is_before = |h: &Host| h.side == Side::Proxy && Some(h.process) == before;
        if self.leaving.iter().any(is_before) {
            return had_session || lost;
        }
        for l in self.live.clone() {
            let line = &self.lines[l];
            if line.process == Some(process) && line.ends[1].stage != Stage::Gone {
                self.lose_line(1, l);
            }
        }
        self.leaving.remove(i);
        true
    }

    /// When a host that leaves has something to do besides its session.
    pub(super) fn leaving_due(&self, host: &Host) -> Option<Timestamp> {
        let leaving = host.leaving.as_ref()?;
        let dials = leaving.rejoin.poll_timeout();
        let dials = dials.map(|at| host.world_time(at));
        dials.into_iter().chain([leaving.until]).min()
    }
}
