//! Whole sessions over virtual links in virtual time.
//!
//! A [`Scenario`] says which links and routes there are, what applications do and what goes
//! wrong; [`World::run`] lets a primary's and a proxy's session, the very code that the daemons
//! run, live through it, and gives an [`Outcome`] or a [`Failure`]. The same scenario gives the
//! same outcome, always.
//!
//! What a driver does between session and sockets is done as the daemons do it: records of TLS's
//! size, a socket that is given more only when its unsent queue is short, the kernel's view of a
//! path at most every millisecond, helpers' reports every 100 ms while data flows.
//!
//! While a world runs it checks that every byte arrives once and in order, that both ends learn
//! how each stream ended, that windows and memory limits hold, that nothing spins, and that new
//! bytes arrive while any route works.
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
mod app;
mod host;
mod line;
mod misfortune;
mod net;
mod outcome;
mod plain;
mod random;
mod scenario;

use std::time::Duration;

use mpbond_session::{FarReport, Session};
use mpbond_units::{BitRate, Timestamp};

pub use app::End as StreamEnd;
pub use mpbond_session::{FeedbackRule, HelperId, SchedulerKind};
pub use outcome::{ExchangeOutcome, Failure, Observed, Outcome, Passed, Share};
pub use plain::observe_plain;
pub use scenario::{
    Before, Daemon, Ending, Exchange, Fault, Happening, Manner, Pause, Route, Scenario, TwoWay,
    When,
};

use crate::link::LinkChange;
use crate::relay::Relay;
use crate::tcp::{Config, End, State};
use app::{App, Running};
use host::{Host, Surroundings, destination, far_report};
use line::{LOWAT, Line, Stage};
use net::{Net, Report};

/// A primary that has not got through by then tries anew.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Over a link that is slower than this, one way, nobody gets through before [`CONNECT_TIMEOUT`].
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// No fault makes a link slower than this.
const SLOWEST: Duration = Duration::from_secs(10);

/// How long a connection of the daemons may be quiet before their kernel asks whether it works: a
/// NAT that has forgotten it then passes the question on under another port, and a reset comes back.
const KEEPALIVE: Duration = Duration::from_secs(240);

/// More turns at one instant than anything sensible takes.
const MAX_TURNS: u32 = 20_000;

/// Of a helper's bound this much may be in the socket it reads from.
const RELAY_RECEIVE_BYTES: u64 = 1 << 20;

/// What the proxy may hold beyond its limits: applications write in pieces.
const SLACK_BYTES: u64 = 128 << 10;

/// A primary, a proxy, helpers, links, and applications.
pub struct World {
    scenario: Scenario,
    now: Timestamp,
    net: Net,
    lines: Vec<Line>,
    live: Vec<usize>,
    /// By route: when the primary dials, unless it has a line there.
    dial_at: Vec<Option<Timestamp>>,
    hosts: [Host; 2],
    running: Vec<Option<Running>>,
    faults_done: Vec<bool>,
    /// By link and direction (up, down): what became of its rate.
    rates: Vec<[Vec<(Timestamp, LinkChange)>; 2]>,
    /// Unique bytes that have arrived, and when the last did.
    progress: (u64, Timestamp),
    /// Since when some route has worked.
    usable_since: Option<Timestamp>,
    /// When every route was joined for the first time.
    joined: Option<Timestamp>,
    /// Lines that carry nothing more, of which the primary's system has not told it: when it does.
    severed: Vec<(usize, Timestamp)>,
    /// By link: until when its delay is beyond anything that a connection can be made over.
    slow_until: Vec<Timestamp>,
    /// The longest time without a new byte for those who wanted some, while a route worked.
    longest_gap: Duration,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(scenario: Scenario) -> Self {
        let start = |r: &Route| Some(Timestamp::ZERO + r.joins_at);
        Self {
            now: Timestamp::ZERO,
            net: Net::new(&scenario.links, scenario.seed, scenario.keeps_log),
            lines: Vec::new(),
            live: Vec::new(),
            dial_at: scenario.routes.iter().map(start).collect(),
            hosts: [
                Host::primary(scenario.client.clone()),
                Host::proxy(scenario.server.clone()),
            ],
            running: scenario.exchanges.iter().map(|_| None).collect(),
            faults_done: vec![false; scenario.faults.len()],
            rates: scenario.links.iter().map(|_| Default::default()).collect(),
            progress: (0, Timestamp::ZERO),
            usable_since: Some(Timestamp::ZERO),
            joined: None,
            severed: Vec::new(),
            slow_until: vec![Timestamp::ZERO; scenario.links.len()],
            longest_gap: Duration::ZERO,
            scenario,
        }
    }

    /// Lives through the scenario.
    ///
    /// # Errors
    /// A [`Failure`] when something happened that must not, whatever the links do.
    pub fn run(self) -> Result<Outcome, Failure> {
        self.run_watched(|_, _, _| {})
    }

    /// The same, and shows both ends' sessions (primary, proxy) whenever something has happened.
    ///
    /// # Errors
    /// See [`World::run`].
    pub fn run_watched(
        mut self,
        watch: impl FnMut(Timestamp, Option<&Session>, Option<&Session>),
    ) -> Result<Outcome, Failure> {
        self.live(watch)?;
        self.outcome()
    }

    /// Lives through the scenario, and tells as much as can be told should it fail.
    pub fn observe(mut self) -> Observed {
        let failure = self.live(|_, _, _| {}).err();
        self.observed(failure)
    }

    fn live(
        &mut self,
        mut watch: impl FnMut(Timestamp, Option<&Session>, Option<&Session>),
    ) -> Result<(), Failure> {
        let mut turns = 0;
        let mut over: Option<Timestamp> = None;
        loop {
            self.step().map_err(|what| self.failure(what))?;
            self.note_joined();
            let [primary, proxy] = &self.hosts;
            watch(self.now, primary.session.as_ref(), proxy.session.as_ref());
            if over.is_none() && self.is_done() {
                over = Some(self.now + self.scenario.linger);
            }
            let next = self.next_event();
            if over.is_some_and(|over| next.is_none_or(|next| next > over)) {
                return Ok(());
            }
            self.check()?;
            let Some(next) = next else {
                return Err(self.failure("nothing will ever happen again".to_owned()));
            };
            if next > Timestamp::ZERO + self.scenario.limit {
                return Err(self.failure("the world's time is over".to_owned()));
            }
            turns = if next > self.now { 0 } else { turns + 1 };
            if turns > MAX_TURNS {
                return Err(self.failure("time does not go on".to_owned()));
            }
            self.now = self.now.max(next);
        }
    }

    fn failure(&self, what: String) -> Failure {
        let ends = self.hosts.iter().filter_map(|h| h.session.as_ref());
        let state: Vec<String> = ends
            .map(|s| {
                let subflows: Vec<String> = s
                    .subflows(self.now)
                    .iter()
                    .map(|s| format!("{} {} {:?} pad {:?}", s.id, s.name, s.state, s.pad))
                    .collect();
                format!(
                    "unscheduled {}, held {}, waiting {}, timeout {:?}, {}",
                    s.unscheduled_bytes(),
                    s.held_bytes(),
                    s.waiting_bytes(),
                    s.poll_timeout(),
                    subflows.join(", ")
                )
            })
            .collect();
        let open: Vec<String> = self
            .running
            .iter()
            .enumerate()
            .filter_map(|(e, r)| r.as_ref().filter(|r| !r.is_over()).map(|r| (e, r)))
            .map(|(e, r)| {
                let origin = r.origin.as_ref();
                format!(
                    "exchange {e}: client {}, origin {}",
                    r.client,
                    origin.map_or_else(|| "none".to_owned(), App::to_string)
                )
            })
            .collect();
        Failure {
            at: self.now,
            what: format!(
                "{what} [primary: {}] [open: {}]",
                state.join("] [proxy: "),
                open.join("; ")
            ),
        }
    }

    // ---- what happens ---------------------------------------------------------------------

    /// Everything that happens now.
    fn step(&mut self) -> Result<(), String> {
        self.faults();
        self.keep_alive();
        self.end_expresses();
        self.start_exchanges()?;
        self.dial();
        loop {
            self.net.handle(self.now);
            let mut moved = self.relay();
            let reports = match self.hosts[0].is_frozen(self.now) {
                true => Vec::new(),
                false => self.net.take_reports(),
            };
            for report in reports {
                self.with_host(0, |host, s| {
                    host.report(s, &report);
                    host.settle(s)
                })?;
                self.open_express(&report);
                moved = true;
            }
            for side in [0, 1] {
                moved |= self.with_host(side, Host::drive)?;
            }
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
        let mut surroundings = Surroundings {
            now: self.now,
            net: &mut self.net,
            lines: &mut self.lines,
            live: &self.live,
            routes: &self.scenario.routes,
            exchanges: &self.scenario.exchanges,
            running: &mut self.running,
            keeps_log: self.scenario.keeps_log,
        };
        f(&mut self.hosts[side], &mut surroundings)
    }

    /// When something of the scenario happens, if that is known yet.
    fn instant(&self, when: When) -> Option<Timestamp> {
        let exchange = |e: usize| self.running.get(e)?.as_ref();
        match when {
            When::At(after) => Some(Timestamp::ZERO + after),
            When::AfterJoined(after) => Some(self.joined? + after),
            When::AfterStart(e, after) => Some(exchange(e)?.started + after),
            When::AfterEnd(e, after) => Some(exchange(e)?.client.ended?.0 + after),
        }
    }

    /// Whether both ends have a subflow on every route, the first time that it is so.
    fn note_joined(&mut self) {
        let up = |route: usize| {
            self.live.iter().any(|&l| {
                let line = &self.lines[l];
                let is_up = |end: &line::Io| matches!(end.stage, Stage::Up(_));
                !line.express && line.route == route && line.ends.iter().all(is_up)
            })
        };
        if self.joined.is_none() && (0..self.scenario.routes.len()).all(up) {
            self.joined = Some(self.now);
        }
    }

    fn faults(&mut self) {
        for i in 0..self.scenario.faults.len() {
            let due = self.instant(self.scenario.faults[i].when);
            if self.faults_done[i] || due.is_none_or(|t| t > self.now) {
                continue;
            }
            self.faults_done[i] = true;
            match self.scenario.faults[i].what.clone() {
                Happening::Link { link, up, down } => {
                    for (direction, change) in [up, down].into_iter().enumerate() {
                        if let Some(change) = change {
                            self.note_delay(link, &change);
                            self.net.apply(self.now, link, direction == 0, &change);
                            self.rates[link][direction].push((self.now, change));
                        }
                    }
                }
                Happening::RestRadios => self.net.rest_radios(),
                Happening::Kill { route } => self.kill(route),
                Happening::Leave { route, length } => {
                    self.kill(route);
                    self.dial_at[route] = Some(self.now + length);
                }
                Happening::Sever {
                    route,
                    nearer,
                    told,
                } => self.sever(route, nearer, told),
                Happening::Freeze { who, length } => {
                    let host = &mut self.hosts[who as usize];
                    let until = self.now + length;
                    host.frozen_until = host.frozen_until.max(Some(until));
                }
                Happening::ClockJump { who, by } => self.hosts[who as usize].jump(by),
            }
        }
    }

    /// A link whose delay goes beyond all reason works no more; nor does it before what it holds
    /// has come out, for packets do not overtake each other.
    fn note_delay(&mut self, link: usize, change: &LinkChange) {
        let Some(delay) = change.delay else {
            return;
        };
        let slow_until = &mut self.slow_until[link];
        if delay > LONGEST_DELAY {
            *slow_until = Timestamp::FAR_FUTURE;
        } else if *slow_until == Timestamp::FAR_FUTURE {
            *slow_until = self.now + SLOWEST;
        }
    }

    fn sever(&mut self, route: usize, nearer: bool, told: [bool; 2]) {
        for l in self.live.clone() {
            let line = &self.lines[l];
            if line.route != route {
                continue;
            }
            let far = line.second.filter(|_| !nearer);
            self.net.sever(far.unwrap_or(line.first));
            if !told[0] {
                self.severed.push((l, self.now + KEEPALIVE));
            }
            for side in [0, 1] {
                if told[side] && self.lines[l].ends[side].stage != Stage::Gone {
                    self.with_host(side, |host, s| host.lose_line(s, l));
                }
            }
        }
        for side in [0, 1] {
            // What was lost has to be settled, and its timers anew.
            self.hosts[side].look_again();
        }
    }

    /// The kernel's keepalive finds out what a session with nothing to send does not.
    fn keep_alive(&mut self) {
        let due = |(_, at): &mut (usize, Timestamp)| *at <= self.now;
        let due: Vec<usize> = self.severed.extract_if(.., due).map(|(l, _)| l).collect();
        for l in due {
            if self.lines[l].ends[0].stage != Stage::Gone {
                self.with_host(0, |host, s| host.lose_line(s, l));
                self.hosts[0].look_again();
            }
        }
        let lines = &self.lines;
        self.severed
            .retain(|(l, _)| lines[*l].ends[0].stage != Stage::Gone);
    }

    /// An express ends with the relay beside which it was opened.
    fn end_expresses(&mut self) {
        if self.hosts[0].is_frozen(self.now) {
            return;
        }
        let lasts = |route| {
            let mut lines = self.live.iter().map(|&l| &self.lines[l]);
            lines.any(|l| !l.express && l.route == route && l.ends[0].stage != Stage::Gone)
        };
        let over = |l: &usize| {
            let line = &self.lines[*l];
            line.express && line.ends[0].stage != Stage::Gone && !lasts(line.route)
        };
        for l in self.live.iter().copied().filter(over).collect::<Vec<_>>() {
            self.with_host(0, |host, s| host.lose_line(s, l));
            self.hosts[0].look_again();
        }
    }

    fn kill(&mut self, route: usize) {
        for &l in &self.live {
            let line = &self.lines[l];
            if line.route != route {
                continue;
            }
            let ends = if line.relay.is_some() {
                let hs = line.second.map(|hs| (hs, End::A));
                [Some((line.first, End::B)), hs]
            } else {
                [Some((line.first, End::A)), Some((line.first, End::B))]
            };
            for (conn, end) in ends.into_iter().flatten() {
                self.net.socket_mut(conn, end).abort();
                self.net.push(self.now, conn, end);
            }
            for io in &mut self.lines[l].ends {
                io.dirty = true;
            }
        }
    }

    fn start_exchanges(&mut self) -> Result<(), String> {
        for e in 0..self.scenario.exchanges.len() {
            let x = &self.scenario.exchanges[e];
            if self.running[e].is_some() || self.instant(x.start).is_none_or(|t| t > self.now) {
                continue;
            }
            let host = &mut self.hosts[0];
            let clock = host.clock(self.now);
            if host.is_frozen(self.now) {
                continue;
            }
            let Some(session) = &mut host.session else {
                continue;
            };
            let stream = session
                .open(clock, destination(e), x.class)
                .map_err(|error| format!("exchange {e} can't be opened: {error}"))?;
            self.running[e] = Some(Running {
                started: self.now,
                stream,
                client: App::new(self.now, e, true, x.client, x.up_bytes, false)
                    .expecting(x.by_length.then_some(x.down_bytes))
                    .keeping_arrivals(self.scenario.keeps_log),
                origin: None,
            });
            host.wake(e);
        }
        for (side, host) in self.hosts.iter_mut().enumerate() {
            for (e, r) in self.running.iter().enumerate() {
                let app = match (side, r) {
                    (0, Some(r)) => Some(&r.client),
                    (_, Some(r)) => r.origin.as_ref(),
                    (_, None) => None,
                };
                if app.is_some_and(|a| a.resumes().any(|t| t == self.now)) {
                    host.wake(e);
                }
            }
        }
        Ok(())
    }

    fn dial(&mut self) {
        if self.hosts[0].is_frozen(self.now) {
            return;
        }
        for route in 0..self.scenario.routes.len() {
            if self.dial_at[route].is_none_or(|t| t > self.now) {
                continue;
            }
            self.dial_at[route] = None;
            self.connect(route, false);
        }
    }

    /// A primary hears that a helper holds much: it opens an express there, unless it has one.
    fn open_express(&mut self, report: &Report) {
        let holds = |hop: &FarReport| match hop.throughput {
            BitRate::ZERO => Duration::ZERO,
            rate => rate.time_for(hop.level_bytes),
        };
        let line = &self.lines[report.line];
        let (route, is_up) = (line.route, matches!(line.ends[0].stage, Stage::Up(_)));
        let held = holds(&report.pipe).max(holds(&report.hs));
        let wanted = self.scenario.express_at.is_some_and(|at| held >= at);
        let has_one = self.live.iter().any(|&l| {
            let line = &self.lines[l];
            line.express && line.route == route && line.ends[0].stage != Stage::Gone
        });
        if wanted && is_up && !line.express && !has_one {
            self.connect(route, true);
        }
    }

    /// The primary connects on a route.
    fn connect(&mut self, route: usize, express: bool) {
        let r = &self.scenario.routes[route];
        let bound = self.scenario.relay_bound_bytes;
        let relay = r
            .helper
            .map(|_| Relay::new(bound.saturating_sub(RELAY_RECEIVE_BYTES.min(bound / 4))));
        // A device that only forwards is no end of a connection.
        let (links, far) = match relay {
            Some(_) => (&r.links[..1], helper_config(bound)),
            None => (&r.links[..], endpoint_config()),
        };
        let l = self.lines.len();
        let first = self.net.connect(self.now, l, links, endpoint_config(), far);
        let line = Line::new(self.now, route, first, relay);
        self.lines.push(Line { express, ..line });
        self.live.push(l);
    }

    /// What helpers do; whether anything moved.
    fn relay(&mut self) -> bool {
        for l in self.net.take_touched() {
            for io in &mut self.lines[l].ends {
                io.dirty = true;
            }
        }
        let mut moved = false;
        for i in 0..self.live.len() {
            let l = self.live[i];
            let line = &mut self.lines[l];
            let Some(relay) = &mut line.relay else {
                continue;
            };
            if !line.ends[0].dirty && !line.ends[1].dirty {
                continue;
            }
            let Some(hs) = line.second else {
                // The helper connects onward when it was connected to.
                if self.net.socket(line.first, End::B).state() == State::Established {
                    let links = &self.scenario.routes[line.route].links[1..];
                    let near = helper_config(self.scenario.relay_bound_bytes);
                    let hs = self
                        .net
                        .connect(self.now, l, links, near, endpoint_config());
                    line.second = Some(hs);
                    line.ends[1].conn = Some(hs);
                    moved = true;
                }
                continue;
            };
            let (pipe_socket, hs_socket) = self.net.helper_sockets(line.first, hs);
            if relay.handle(pipe_socket, hs_socket) {
                moved = true;
                let taken = relay.backward_taken_bytes();
                if taken > line.downlink_bytes {
                    line.downlink_bytes = taken;
                    line.downlink_at = Some(self.now);
                }
                self.net.push(self.now, line.first, End::B);
                self.net.push(self.now, hs, End::A);
            }
            self.report(l);
        }
        moved
    }

    /// A helper reports while data flows.
    fn report(&mut self, l: usize) {
        let line = &mut self.lines[l];
        let relayed = line.relayed_bytes();
        if relayed == line.reported_bytes || self.now < line.report_at {
            return;
        }
        line.reported_bytes = relayed;
        line.report_at = self.now + self.scenario.report_every;
        let (Some(relay), Some(hs)) = (&line.relay, line.second) else {
            return;
        };
        let pipe = self.net.socket(line.first, End::B);
        let hs = self.net.socket(hs, End::A);
        let report = Report {
            line: l,
            pipe: far_report(&pipe.info(), relay.backward_level_bytes(pipe, hs)),
            hs: far_report(&hs.info(), relay.forward_level_bytes(pipe, hs)),
            downlink: line.downlink_at.map(|at| self.now.since(at)),
        };
        let link = self.scenario.routes[line.route].links[0];
        self.net.send_report(self.now, link, report);
    }

    /// Lines that are over make room for new ones.
    fn clean_up(&mut self) {
        for i in 0..self.live.len() {
            let l = self.live[i];
            let line = &self.lines[l];
            let frozen = self.hosts[0].is_frozen(self.now);
            let waits = line.ends[0].stage == Stage::Handshake && !frozen;
            if waits && self.now >= line.dialled + CONNECT_TIMEOUT {
                self.with_host(0, |host, s| host.lose_line(s, l));
            }
        }
        let mut swept = false;
        for i in 0..self.live.len() {
            let line = &self.lines[self.live[i]];
            let route = line.route;
            let others = self.live.iter().any(|&o| {
                let o = &self.lines[o];
                !o.express && o.route == route && o.ends[0].stage != Stage::Gone
            });
            if !others && self.dial_at[route].is_none() {
                self.dial_at[route] = Some(self.now + self.scenario.rejoin_after);
            }
            swept |= line.is_over();
        }
        if swept {
            let lines = &self.lines;
            self.live.retain(|&l| !lines[l].is_over());
            self.net.sweep();
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        let hosts = self.hosts.iter().filter_map(|h| {
            let frozen = h.frozen_until.filter(|t| *t > self.now);
            frozen.or(h.due)
        });
        // A primary that stands still starts and dials nothing.
        let awake = !self.hosts[0].is_frozen(self.now);
        let dials = self.dial_at.iter().copied().flatten().filter(|_| awake);
        let timeouts = self.live.iter().filter_map(|&l| {
            let line = &self.lines[l];
            let waits = line.ends[0].stage == Stage::Handshake && awake;
            waits.then(|| line.dialled + CONNECT_TIMEOUT)
        });
        let faults = self.scenario.faults.iter().zip(&self.faults_done);
        let faults = faults
            .filter(|(_, done)| !**done)
            .filter_map(|(f, _)| self.instant(f.when));
        let exchanges = self.scenario.exchanges.iter().zip(&self.running);
        let starts = exchanges
            .filter(|(_, running)| running.is_none() && awake)
            .filter_map(|(x, _)| self.instant(x.start));
        let resumes = self.running.iter().flatten().flat_map(|r| {
            let apps = [Some(&r.client), r.origin.as_ref()];
            apps.into_iter().flatten().flat_map(App::resumes)
        });
        self.net
            .next_event()
            .into_iter()
            .chain(hosts)
            .chain(self.severed.iter().map(|(_, at)| *at))
            .chain(dials)
            .chain(timeouts)
            .chain(faults)
            .chain(starts)
            .chain(resumes.filter(|t| *t > self.now))
            .min()
    }

    fn is_done(&self) -> bool {
        let all = self.scenario.exchanges.iter().zip(&self.running);
        self.hosts[1].has_let_go
            || all
                .into_iter()
                .all(|(x, r)| r.as_ref().is_some_and(|r| r.is_over() || x.is_endless()))
    }

    // ---- what must hold -------------------------------------------------------------------

    fn check(&mut self) -> Result<(), Failure> {
        let mut arrived = 0;
        for host in &self.hosts {
            let Some(s) = &host.session else {
                continue;
            };
            let stats = s.stats();
            arrived += stats.bytes_in - stats.redundant_bytes_in;
            let config = s.config();
            let most = config.receive_window_bytes + config.stalled_memory_bytes;
            let waiting = s.waiting_bytes();
            if waiting > most {
                return Err(self.failure(format!("{waiting} bytes wait, {most} may")));
            }
            let least_each = stats.streams_open * SLACK_BYTES;
            let most = config.send_memory_bytes + SLACK_BYTES + least_each;
            let held = s.held_bytes();
            if held > most {
                return Err(self.failure(format!("{held} bytes are held, {most} may be")));
            }
        }
        let wants_more = self.running.iter().flatten().any(|r| {
            let apps = [Some(&r.client), r.origin.as_ref()];
            let rests = apps.iter().flatten().any(|a| a.is_paused(self.now));
            r.waits_for_bytes() && !rests
        });
        if arrived != self.progress.0 || !wants_more {
            self.progress = (arrived, self.now);
        }
        let works = |(i, r): (usize, &Route)| {
            let away = self.dial_at[i].is_some_and(|t| t > self.now + self.scenario.rejoin_after);
            let link_works = |l: &usize| self.net.is_up(*l) && self.slow_until[*l] <= self.now;
            // The primary waits on a connection that is none.
            let severed = |(l, _): &(usize, Timestamp)| self.lines[*l].route == i;
            !away && r.links.iter().all(link_works) && !self.severed.iter().any(severed)
        };
        let awake = self.hosts.iter().all(|h| !h.is_frozen(self.now));
        let usable = awake && self.scenario.routes.iter().enumerate().any(works);
        self.usable_since = match (usable, self.usable_since) {
            (true, None) => Some(self.now),
            (true, since) => since,
            (false, _) => None,
        };
        if let Some(since) = self.usable_since {
            let silent = self.now.since(since.max(self.progress.1));
            self.longest_gap = self.longest_gap.max(silent);
            if silent > self.scenario.stall_limit {
                return Err(self.failure(format!("no new byte for {silent:?}")));
            }
        }
        Ok(())
    }
}

fn endpoint_config() -> Config {
    Config {
        notsent_lowat_bytes: LOWAT,
        ..Config::default()
    }
}

fn helper_config(bound: u64) -> Config {
    Config {
        notsent_lowat_bytes: bound / 4,
        recv_buffer_bytes: RELAY_RECEIVE_BYTES.min(bound / 4),
        ..Config::default()
    }
}
