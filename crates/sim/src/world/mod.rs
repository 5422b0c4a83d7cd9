//! Whole sessions over virtual links in virtual time.
//!
//! A [`Scenario`] consists of links, routes, applications and faults. [`World::run`] simulates it
//! with the primary's and the proxy's [`Session`] and the primary's
//! [`Manager`], the code that the daemons run, and returns an [`Outcome`]
//! or a [`Failure`]. The same scenario always has the same outcome.
//!
//! The driver between session and sockets follows that of the daemons: records have the size of
//! TLS records, a socket gets more only when its unsent queue is short, the kernel's view of a path
//! is read at most once per millisecond, helpers report every 100 ms while data flows and for
//! half a second after.
//!
//! A running world checks that every byte arrives once and in order, that both ends learn how each
//! stream ended, that windows and memory limits hold, that time advances, and that new bytes arrive
//! while any route works.
//!
//! ```
//! use mpbond_sim::ideal::Direction;
//! use mpbond_sim::world::{Before, Scenario, World};
//! use std::time::Duration;
//!
//! let ms = Duration::from_millis;
//! let scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], ms(25), ms(2))
//!     .measuring(Before::Joined, Direction::Down, 1 << 20);
//! let outcome = World::new(scenario).run().unwrap();
//! let ratio = outcome.exchanges[0].ratio().unwrap();
//! assert!((1.0..1.5).contains(&ratio), "{ratio}");
//! ```

mod account;
mod agenda;
mod app;
mod bluetooth;
mod course;
mod ended;
mod exchanges;
mod first_manager;
mod happenings;
mod helpers;
mod host;
mod invariants;
mod lasting;
mod lasting_events;
mod line;
mod manage;
mod nat;
mod net;
mod outcome;
mod pipes;
mod plain;
mod random;
mod relay_report;
mod reporting;
mod reports;
mod results;
mod rounds;
mod scenario;
mod sessions;
mod signal_watch;
mod signals;
mod sockets;
mod together;
mod unread;
mod upgrade;
mod user;
mod visit;
mod visiting;
mod visits;
mod watch;
mod watched_pipes;
mod when;

use std::time::Duration;

use mpbond_manager::Manager;
use mpbond_session::Session;
use mpbond_units::{MessageWatch, Timestamp};

pub use app::End as StreamEnd;
pub use bluetooth::Bluetooth;
pub use lasting::{Note, Noted};
pub use mpbond_manager::{SNIFF_PAUSE, WithoutProxy};
pub use mpbond_session::{
    BufferDelay, FeedbackRule, HelperId, LeastBurst, Mechanism, Mechanisms, ReinjectionRule,
    SchedulerKind, StreamClass, StreamOrder,
};
pub use nat::{Nat, Portal};
pub use outcome::{ExchangeOutcome, Failure, Observed, Outcome, Passed, Share};
pub use plain::observe_plain;
pub use rounds::{Late, Round, Rounds};
pub use scenario::{
    Before, Daemon, Ending, Exchange, Fault, Happening, Lasting, Manner, Pace, Pause, Route,
    Scenario, TwoWay,
};
pub use together::Sessions;
pub use user::User;
pub use visit::{Program, Visit, VisitOutcome};
pub use when::When;

pub(crate) use random::Dice;
pub(crate) use watch::Served;

use crate::link::LinkChange;
use agenda::Agenda;
use app::{App, Running};
use ended::Ended;
use first_manager::first_manager;
use host::{Host, Side, Surroundings};
use lasting::LastingState;
use line::{Line, Stage};
use net::{Net, SharedLinks};
use signals::Signals;
use visits::Visits;
use watched_pipes::WatchedPipes;

/// A link with a longer one-way delay does not count as working: a connection over it takes too
/// long to make.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// Bytes that an end may hold beyond its limits, since applications write in pieces.
const SLACK_BYTES: u64 = 128 << 10;

/// A simulation of a primary, a proxy, helpers, links and applications.
pub struct World {
    scenario: Scenario,
    now: Timestamp,
    net: Net,
    lines: Vec<Line>,
    live: Vec<usize>,
    /// By route: the earliest instant of its helper's next reports.
    report_at: Vec<Timestamp>,
    /// By route: when the primary's interface comes up, while it is down.
    up_at: Vec<Option<Timestamp>>,
    /// By route: how often the primary's address has changed.
    moves: Vec<u16>,
    manager: Manager,
    watched: WatchedPipes,
    /// Messages of each route's pipe.
    messages: Vec<MessageWatch>,
    signals: Signals,
    /// The primary with its present session, the proxy's newest process.
    hosts: [Host; 2],
    /// Sessions and processes of before, which serve what is open.
    leaving: Vec<Host>,
    /// Sessions that have ended, and are still read from.
    ended: Vec<Ended>,
    running: Vec<Option<Running>>,
    /// Exchanges that have started and are not over, in the order of their indices.
    active: Vec<usize>,
    /// Exchanges that have not started.
    waiting: Agenda,
    visits: Visits,
    /// By exchange: whether it was left out.
    left_out: Vec<bool>,
    /// By exchange: when it went direct.
    direct_at: Vec<Option<Timestamp>>,
    faults: Agenda,
    /// By link and direction (up, down): changes so far.
    rates: Vec<[Vec<(Timestamp, LinkChange)>; 2]>,
    /// Unique bytes that have arrived, and when the last arrived.
    progress: (u64, Timestamp),
    /// Beginning of the time in which some route has worked.
    usable_since: Option<Timestamp>,
    /// When all routes were first joined at once.
    joined: Option<Timestamp>,
    /// Dead lines of which the primary does not know, and when its kernel detects each.
    severed: Vec<(usize, Timestamp)>,
    /// By link: end of the time in which its delay is over [`LONGEST_DELAY`].
    slow_until: Vec<Timestamp>,
    /// Longest time without a new byte while an application waited for one and a route worked.
    longest_gap: Duration,
    lasting: LastingState,
}

impl World {
    /// A world at the beginning of its scenario.
    ///
    /// # Panics
    /// For visits in a world that lasts, which repeats its exchanges.
    pub fn new(scenario: Scenario) -> Self {
        Self::over(&SharedLinks::default(), scenario, &[])
    }

    /// The same, over links that others may use; see [`Net::over`].
    fn over(links: &SharedLinks, scenario: Scenario, reversed: &[usize]) -> Self {
        assert!(
            scenario.lasting.is_none() || scenario.visits.is_empty(),
            "a world that lasts has no visits"
        );
        let up = |r: &Route| (!r.joins_at.is_zero()).then(|| Timestamp::ZERO + r.joins_at);
        Self {
            now: Timestamp::ZERO,
            net: Net::over(
                links,
                (&scenario.links, reversed),
                scenario.seed,
                scenario.keeps_log,
            ),
            lines: Vec::new(),
            live: Vec::new(),
            report_at: vec![Timestamp::ZERO; scenario.routes.len()],
            up_at: scenario.routes.iter().map(up).collect(),
            moves: vec![0; scenario.routes.len()],
            manager: first_manager(&scenario),
            watched: WatchedPipes::new(&scenario),
            messages: vec![MessageWatch::default(); scenario.routes.len()],
            signals: Signals::new(&scenario),
            hosts: [
                Host::primary(scenario.client.clone()),
                Host::proxy(scenario.server.clone()),
            ],
            leaving: Vec::new(),
            ended: Vec::new(),
            running: scenario.exchanges.iter().map(|_| None).collect(),
            active: Vec::new(),
            waiting: Agenda::new(scenario.exchanges.iter().map(|x| x.start)),
            visits: Visits::new(&scenario),
            left_out: vec![false; scenario.exchanges.len()],
            direct_at: vec![None; scenario.exchanges.len()],
            faults: Agenda::new(scenario.faults.iter().map(|f| f.when)),
            rates: scenario.links.iter().map(|_| Default::default()).collect(),
            progress: (0, Timestamp::ZERO),
            usable_since: Some(Timestamp::ZERO),
            joined: None,
            severed: Vec::new(),
            slow_until: vec![Timestamp::ZERO; scenario.links.len()],
            longest_gap: Duration::ZERO,
            lasting: LastingState::new(&scenario),
            scenario,
        }
        .with_gates()
    }

    /// Simulates the scenario.
    ///
    /// # Errors
    /// A violated invariant or a wrong end, which no behaviour of the links excuses.
    pub fn run(self) -> Result<Outcome, Failure> {
        self.run_watched(|_, _, _| {})
    }

    /// Simulates the scenario and calls `watch` with both sessions (primary, proxy) after each
    /// step.
    ///
    /// # Errors
    /// See [`World::run`].
    pub fn run_watched(
        mut self,
        watch: impl FnMut(Timestamp, Option<&Session>, Option<&Session>),
    ) -> Result<Outcome, Failure> {
        let alone = std::slice::from_mut(&mut self);
        Self::live(alone, watch).map_err(|(_, failure)| failure)?;
        self.outcome()
    }

    /// Simulates the scenario; after a failure the result holds what happened before it.
    pub fn observe(mut self) -> Observed {
        let alone = std::slice::from_mut(&mut self);
        let failed = Self::live(alone, |_, _, _| {}).err();
        self.observed(failed.map(|(_, failure)| failure))
    }

    /// Handles everything that is due now.
    fn step(&mut self) -> Result<(), String> {
        self.wake_up();
        self.happenings();
        self.keep_alive();
        self.links_up();
        self.start_exchanges()?;
        self.watch_pipes();
        self.watch_signals();
        self.manage();
        loop {
            self.net.handle(self.now);
            let mut moved = self.relay();
            self.report();
            let reports = match self.hosts[0].is_frozen(self.now) {
                true => Vec::new(),
                false => self.net.take_reports(),
            };
            for report in reports {
                self.take_report(&report)?;
                self.manage();
                moved = true;
            }
            for side in [0, 1] {
                moved |= self.with_host(side, Host::drive)?;
            }
            moved |= self.drive_leaving()?;
            moved |= self.renew_sessions();
            moved |= self.deliver_unread()?;
            moved |= self.visit()?;
            moved |= self.manage();
            if !moved {
                break;
            }
        }
        self.clean_up();
        Ok(())
    }

    fn with_host<T>(
        &mut self,
        side: usize,
        f: impl FnOnce(&mut Host, &mut Surroundings) -> T,
    ) -> T {
        self.with_hosts(|hosts, _, s| f(&mut hosts[side], s))
    }

    fn with_hosts<T>(
        &mut self,
        f: impl FnOnce(&mut [Host; 2], &mut [Host], &mut Surroundings) -> T,
    ) -> T {
        let processes = self.leaving.iter().filter(|h| h.side == Side::Proxy);
        let processes: Vec<u32> = processes.map(|h| h.process).collect();
        let mut surroundings = Surroundings {
            now: self.now,
            net: &mut self.net,
            lines: &mut self.lines,
            live: &self.live,
            active: &self.active,
            routes: &self.scenario.routes,
            exchanges: &self.scenario.exchanges,
            running: &mut self.running,
            manager: &mut self.manager,
            processes: &processes,
            keeps_log: self.scenario.keeps_log,
            is_lasting: self.scenario.lasting.is_some(),
            is_visiting: !self.visits.are_over(),
        };
        f(&mut self.hosts, &mut self.leaving, &mut surroundings)
    }

    /// An end of a connection closes it.
    fn lose_line(&mut self, side: usize, l: usize) {
        self.with_hosts(|hosts, leaving, s| {
            let owns = |h: &&mut Host| h.side as usize == side && h.owns(&s.lines[l]);
            let host = match leaving.iter_mut().find(owns) {
                Some(host) => host,
                None => &mut hosts[side],
            };
            host.lose_line(s, l);
        });
    }

    /// All hosts of a side, those that leave included.
    fn hosts_of(&mut self, side: usize) -> impl Iterator<Item = &mut Host> {
        let of_side = move |h: &&mut Host| h.side as usize == side;
        let all = self.hosts.iter_mut().chain(&mut self.leaving);
        all.filter(of_side)
    }

    /// Notes the first instant at which both ends have a subflow on every route.
    fn note_joined(&mut self) {
        let up = |route: usize| {
            self.live.iter().any(|&l| {
                let line = &self.lines[l];
                let is_up = |end: &line::Io| matches!(end.stage, Stage::Up(_));
                !line.attempt.express && line.route == route && line.ends.iter().all(is_up)
            })
        };
        if self.joined.is_none() && (0..self.scenario.routes.len()).all(up) {
            self.joined = Some(self.now);
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        let hosts = self.hosts.iter().chain(&self.leaving).filter_map(|h| {
            let frozen = h.frozen_until.filter(|t| *t > self.now);
            frozen.or_else(|| h.due.into_iter().chain(self.leaving_due(h)).min())
        });
        // A suspended primary does nothing.
        let awake = !self.hosts[0].is_frozen(self.now);
        let ups = self.up_at.iter().copied().flatten().filter(|_| awake);
        let timeouts = self.live.iter().filter(|_| awake);
        let timeouts = timeouts.filter_map(|&l| self.handshake_limit(l));
        let manager = self.manager_due().filter(|_| awake);
        let faults = self
            .faults
            .next(|f| self.instant(self.scenario.faults[f].when));
        let starts = self.waiting.next(|e| self.start_of(e));
        let starts = starts.filter(|_| awake && self.hosts[0].session.is_some());
        let active = self.active.iter().filter_map(|e| self.running[*e].as_ref());
        let resumes = active.flat_map(|r| {
            let apps = [Some(&r.client), r.origin.as_ref()];
            apps.into_iter().flatten().flat_map(App::resumes)
        });
        self.net
            .next_event()
            .into_iter()
            .chain(self.next_report())
            .chain(self.pipes_due())
            .chain(self.signals_due())
            .chain(hosts)
            .chain(self.severed.iter().map(|(_, at)| *at))
            .chain(ups)
            .chain(manager)
            .chain(timeouts)
            .chain(faults)
            .chain(starts)
            .chain(self.unread_due())
            .chain(self.visits.due(|when| self.instant(when)))
            .chain(resumes.filter(|t| *t > self.now))
            .min()
    }
}
