//! Plain TCP over the first route of a scenario, for comparison with mpbond.
//!
//! Links, faults and exchanges are those of the scenario. An exchange makes a connection of its own
//! or uses that of others before. There is no TLS and no session. Both ends check every byte.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::app::{End, WRITE, slice};
use super::net::Net;
use super::scenario::{Ending, Exchange, Happening, Scenario};
use super::visits::Visits;
use super::when::When;
use super::{ExchangeOutcome, Failure, Observed, Share};
use crate::ideal::Direction;
use crate::tcp::{Config, End as Tcp};

/// Limit of steps at one instant.
const MAX_TURNS: u32 = 20_000;

/// Simulates a scenario with plain TCP over the links of its first route, whose hosts forward
/// packets.
///
/// Parts of the scenario that concern sessions are ignored: helpers, stopped readers, resets,
/// crashes of a route's hosts.
///
/// # Panics
/// For exchanges with rounds.
pub fn observe_plain(scenario: &Scenario) -> Observed {
    let has_rounds = |x: &Exchange| x.rounds.is_some();
    assert!(
        !scenario.exchanges.iter().any(has_rounds),
        "rounds need a session"
    );
    let mut plain = Plain {
        scenario,
        now: Timestamp::ZERO,
        net: Net::new(&scenario.links, scenario.seed, scenario.keeps_log),
        exchanges: scenario.exchanges.clone(),
        visits: Visits::new(scenario),
        running: scenario.exchanges.iter().map(|_| None).collect(),
        left_out: vec![false; scenario.exchanges.len()],
        faults_done: vec![false; scenario.faults.len()],
    };
    let failure = plain.live().err().map(|what| Failure {
        at: plain.now,
        what,
    });
    let all = plain.running.iter().zip(&plain.exchanges);
    let exchanges = all
        .map(|(running, x)| {
            let running = running.as_ref().filter(|r| r.ended.is_some())?;
            Some(running.outcome(x, plain.route_name()))
        })
        .collect();
    Observed {
        exchanges,
        visits: plain.visits.outcomes(),
        left_out: plain.left_out,
        passed: plain.net.passed.take().unwrap_or_default(),
        ended: plain.now,
        failure,
    }
}

struct Plain<'a> {
    scenario: &'a Scenario,
    now: Timestamp,
    net: Net,
    /// Those of the scenario, then those of visits.
    exchanges: Vec<Exchange>,
    visits: Visits,
    running: Vec<Option<Running>>,
    left_out: Vec<bool>,
    faults_done: Vec<bool>,
}

/// Bytes read and written by one end of an exchange.
#[derive(Debug, Default)]
struct Account {
    read: u64,
    written: u64,
    last: Option<Timestamp>,
    first: Option<Timestamp>,
    longest_gap: Duration,
    arrivals: Vec<(Timestamp, u64)>,
    /// Of an origin of constant rate.
    writes: Vec<(Timestamp, u64)>,
}

#[derive(Debug)]
struct Running {
    started: Timestamp,
    conn: usize,
    client: Account,
    origin: Account,
    /// When the origin could first write.
    ready: Option<Timestamp>,
    ended: Option<Timestamp>,
}

impl Plain<'_> {
    fn route_name(&self) -> &str {
        self.scenario.routes.first().map_or("", |r| &r.name)
    }

    fn live(&mut self) -> Result<(), String> {
        let mut turns = 0;
        let mut over: Option<Timestamp> = None;
        loop {
            self.step()?;
            let all_over = (0..self.running.len()).all(|e| self.over(e).is_some());
            let done = all_over && self.visits.are_over();
            if over.is_none() && done {
                over = Some(self.now + self.scenario.linger);
            }
            let next = self.next_event();
            if over.is_some_and(|over| next.is_none_or(|next| next > over)) {
                return Ok(());
            }
            let next = next.ok_or("no event is left, and exchanges are open")?;
            if next > Timestamp::ZERO + self.scenario.limit {
                return Err("the scenario's time limit is over".to_owned());
            }
            turns = if next > self.now { 0 } else { turns + 1 };
            if turns > MAX_TURNS {
                return Err("time does not advance".to_owned());
            }
            self.now = self.now.max(next);
        }
    }

    /// When an exchange was over; the beginning for one that was left out.
    fn over(&self, e: usize) -> Option<Timestamp> {
        match self.left_out[e] {
            true => Some(Timestamp::ZERO),
            false => self.running.get(e)?.as_ref()?.ended,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.faults();
        self.start();
        loop {
            self.net.handle(self.now);
            self.net.take_touched();
            let mut moved = false;
            for e in 0..self.running.len() {
                moved |= self.pump(e)?;
            }
            moved |= self.visit();
            if !moved {
                return Ok(());
            }
        }
    }

    fn instant(&self, when: When) -> Option<Timestamp> {
        let exchange = |e: usize| self.running.get(e)?.as_ref();
        match when {
            When::At(after) => Some(Timestamp::ZERO + after),
            // There is nothing to join.
            When::AfterJoined(after) => Some(Timestamp::ZERO + after),
            When::AfterStart(e, after) => Some(exchange(e)?.started + after),
            When::AfterEnd(e, after) => Some(exchange(e)?.ended? + after),
            When::AfterVisit(v, after) => Some(self.visits.ended(v)? + after),
            When::AfterAll { first, last, wait } => {
                let mut all = (first..=last).rev();
                Some(all.try_fold(Timestamp::ZERO, |end, e| Some(end.max(self.over(e)?)))? + wait)
            }
        }
    }

    fn faults(&mut self) {
        for (fault, done) in self.scenario.faults.iter().zip(0..) {
            let due = self.instant(fault.when).is_some_and(|t| t <= self.now);
            if self.faults_done[done] || !due {
                continue;
            }
            self.faults_done[done] = true;
            match &fault.what {
                Happening::Link { link, up, down } => {
                    for (change, is_up) in [(up, true), (down, false)] {
                        if let Some(change) = change {
                            self.net.apply(self.now, *link, is_up, change);
                        }
                    }
                }
                Happening::RestRadios => self.net.rest_radios(),
                // It has one connection over packets, and no daemons.
                Happening::Signal { .. }
                | Happening::Disconnect { .. }
                | Happening::Kill { .. }
                | Happening::Leave { .. }
                | Happening::Sever { .. }
                | Happening::Depart { .. }
                | Happening::Sleep { .. }
                | Happening::Network { .. }
                | Happening::Refuse { .. }
                | Happening::Restart
                | Happening::Upgrade
                | Happening::Freeze { .. }
                | Happening::Unplug { .. }
                | Happening::ClockJump { .. } => {}
            }
        }
    }

    /// Begins visits that are due, and the exchanges that their clients request. Returns whether
    /// there are any.
    fn visit(&mut self) -> bool {
        for (visit, start) in self.visits.waiting() {
            if self.instant(start).is_some_and(|at| at <= self.now) {
                self.visits.begin(self.now, visit);
            }
        }
        let before = self.exchanges.len();
        let ended = |e: usize| self.running.get(e)?.as_ref()?.ended;
        while let Some(exchange) = self.visits.poll(self.now, self.exchanges.len(), ended) {
            self.exchanges.push(exchange);
        }
        self.running.resize_with(self.exchanges.len(), || None);
        self.left_out.resize(self.exchanges.len(), false);
        let any = self.exchanges.len() > before;
        if any {
            self.start();
        }
        let stops = self.visits.take_stops();
        for e in &stops {
            if let Some(running) = &self.running[*e] {
                let after = self.now.since(running.started);
                self.exchanges[*e].client.ending = Ending::StopAt(after);
            }
        }
        any || !stops.is_empty()
    }

    fn start(&mut self) {
        for (e, x) in self.exchanges.iter().enumerate() {
            let due = self.instant(x.start).is_some_and(|t| t <= self.now);
            if self.running[e].is_some() || self.left_out[e] || !due {
                continue;
            }
            let runs = |r: &Running| r.ended.is_none();
            let mut others = x.never_beside.clone();
            if others.any(|other| self.running[other].as_ref().is_some_and(runs)) {
                self.left_out[e] = true;
                continue;
            }
            let shares = |(other, _): &(&Exchange, _)| {
                x.connection.is_some() && other.connection == x.connection
            };
            let mut others = self.exchanges.iter().zip(&self.running).filter(shares);
            let conn = match others.find_map(|(_, running)| Some(running.as_ref()?.conn)) {
                Some(conn) => conn,
                None => {
                    let links = self.scenario.routes.first().map_or(&[][..], |r| &r.links);
                    let (a, b) = (plain_config(), plain_config());
                    self.net.connect(self.now, 0, true, links, (a, b))
                }
            };
            self.running[e] = Some(Running {
                started: self.now,
                conn,
                client: Account::default(),
                origin: Account::default(),
                ready: None,
                ended: None,
            });
        }
    }

    /// Whether a connection goes away with this exchange. Those of visits stay.
    fn closes(&self, e: usize) -> bool {
        let of_scenario = &self.scenario.exchanges;
        let connection = self.exchanges[e].connection;
        let last = of_scenario.iter().rposition(|x| x.connection == connection);
        connection.is_none() || last == Some(e)
    }

    /// Reads and writes as much as both ends can. Returns whether anything moved.
    fn pump(&mut self, e: usize) -> Result<bool, String> {
        let x = &self.exchanges[e];
        let salt = e as u64 * 2;
        let (now, net) = (self.now, &mut self.net);
        let Some(r) = self.running[e].as_mut().filter(|r| r.ended.is_none()) else {
            return Ok(false);
        };
        let conn = r.conn;
        let mut moved = false;
        moved |= r.client.write(net, conn, Tcp::A, salt + 1, x.up_bytes);
        moved |= r.origin.read(now, net, conn, Tcp::B, salt + 1)?;
        if x.at_once || r.origin.read >= x.up_bytes {
            let ready = *r.ready.get_or_insert(now);
            let due = x.origin.pace.map(|pace| pace.due_bytes(now.since(ready)));
            let bytes = due.map_or(x.down_bytes, |due| due.min(x.down_bytes));
            if r.origin.write(net, conn, Tcp::B, salt, bytes) {
                moved = true;
                let paced = due.map(|_| (now, r.origin.written));
                r.origin.writes.extend(paced);
            }
        }
        moved |= r.client.read(now, net, conn, Tcp::A, salt)?;
        if moved {
            for end in [Tcp::A, Tcp::B] {
                net.push(now, conn, end);
            }
        }
        let enough = match x.client.ending {
            Ending::StopAt(after) => now >= r.started + after,
            _ => false,
        };
        if enough || (r.client.read >= x.down_bytes && r.client.written >= x.up_bytes) {
            r.ended = Some(now);
            if self.closes(e) {
                // It goes away; what still comes finds nobody.
                self.net.socket_mut(conn, Tcp::A).abort();
                self.net.push(now, conn, Tcp::A);
            }
        }
        Ok(moved)
    }

    fn next_event(&self) -> Option<Timestamp> {
        let faults = self.scenario.faults.iter().zip(&self.faults_done);
        let faults = faults.filter(|(_, done)| !**done).map(|(f, _)| f.when);
        let all = || self.exchanges.iter().zip(&self.running);
        let waiting = all().zip(&self.left_out);
        let waiting = waiting.filter(|((_, r), left_out)| r.is_none() && !**left_out);
        let starts = waiting.map(|((x, _), _)| x.start);
        let stops = all().filter_map(|(x, r)| match (x.client.ending, r) {
            (Ending::StopAt(after), Some(r)) if r.ended.is_none() => Some(r.started + after),
            _ => None,
        });
        let known = faults.chain(starts).filter_map(|when| self.instant(when));
        let pieces = all().filter_map(|(x, r)| {
            let (pace, r) = (x.origin.pace?, r.as_ref()?);
            let goes_on = r.ended.is_none() && r.origin.written < x.down_bytes;
            let due = r.ready? + pace.due_after(r.origin.written);
            (goes_on && due > self.now).then_some(due)
        });
        self.net
            .next_event()
            .into_iter()
            .chain(known)
            .chain(stops)
            .chain(pieces)
            .chain(self.visits.due(|when| self.instant(when)))
            .min()
    }
}

impl Account {
    fn write(&mut self, net: &mut Net, conn: usize, end: Tcp, salt: u64, bytes: u64) -> bool {
        let mut any = false;
        while self.written < bytes {
            let length = (bytes - self.written).min(WRITE) as usize;
            let socket = net.socket_mut(conn, end);
            let taken = socket.write(&slice(salt, self.written, length));
            self.written += taken as u64;
            any |= taken > 0;
            if taken < length {
                break;
            }
        }
        any
    }

    fn read(
        &mut self,
        now: Timestamp,
        net: &mut Net,
        conn: usize,
        end: Tcp,
        salt: u64,
    ) -> Result<bool, String> {
        let mut any = false;
        while let Some(bytes) = net.socket_mut(conn, end).read(WRITE as usize) {
            if slice(salt, self.read, bytes.len()) != bytes {
                return Err(format!("wrong bytes at offset {}", self.read));
            }
            any = true;
            self.read += bytes.len() as u64;
        }
        if any {
            let gap = self.last.map_or(Duration::ZERO, |last| now.since(last));
            self.longest_gap = self.longest_gap.max(gap);
            self.last = Some(now);
            self.first = self.first.or(Some(now));
            match self.arrivals.last_mut() {
                Some((at, so_far)) if *at == now => *so_far = self.read,
                _ => self.arrivals.push((now, self.read)),
            }
        }
        Ok(any)
    }
}

impl Running {
    fn outcome(&self, x: &Exchange, route: &str) -> ExchangeOutcome {
        let direction = x.direction();
        let reader = match direction {
            Direction::Down => &self.client,
            Direction::Up => &self.origin,
        };
        let after = |t: Timestamp| t.since(self.started);
        ExchangeOutcome {
            started: self.started,
            took: self.ended.map(after),
            direction,
            client_saw: self.ended.map(|_| End::Finished),
            origin_saw: self.ended.map(|_| End::Finished),
            down_bytes: self.client.read,
            up_bytes: self.origin.read,
            shares: vec![Share {
                route: route.to_owned(),
                bytes: reader.read,
                finished: reader.last.map(after),
            }],
            redundant_bytes: 0,
            copies: mpbond_session::Copies::default(),
            longest_stall: reader.longest_gap,
            first_byte: self.client.first.map(after),
            ready: self.ready.map(after),
            writes: (self.origin.writes.iter().map(|(t, n)| (after(*t), *n))).collect(),
            rounds: Vec::new(),
            arrivals: (reader.arrivals.iter().map(|(t, n)| (after(*t), *n))).collect(),
            ideal: None,
        }
    }
}

/// TCP of an ordinary program: no limit of unsent bytes but the send buffer.
fn plain_config() -> Config {
    let config = Config::default();
    Config {
        notsent_lowat_bytes: config.send_buffer_bytes,
        ..config
    }
}

#[cfg(test)]
mod tests {
    use mpbond_session::StreamClass;

    use super::*;
    use crate::application::page::{Begins, PageObject};
    use crate::world::visit::{Program, Visit};

    const MIB: u64 = 1 << 20;

    fn one_path() -> Scenario {
        Scenario::multihomed(&[(8.0, Duration::from_millis(25))])
    }

    fn seconds(observed: &Observed, exchange: usize) -> f64 {
        assert!(observed.failure.is_none(), "{:?}", observed.failure);
        let x = observed.exchanges[exchange].as_ref().unwrap();
        x.took.unwrap().as_secs_f64()
    }

    #[test]
    fn a_page_with_an_object_that_is_never_requested_is_not_loaded() {
        let page = |after| {
            let begins = Begins::After {
                object: after,
                delay: Duration::ZERO,
            };
            let object = |begins| PageObject {
                bytes: 1_000,
                host: 0,
                begins,
            };
            let mut scenario = one_path();
            scenario.visits.push(Visit {
                start: When::At(Duration::ZERO),
                program: Program::Page {
                    objects: vec![object(Begins::At(Duration::ZERO)), object(begins)],
                    connections: 1,
                },
                class: StreamClass::default(),
                stops: None,
            });
            let observed = observe_plain(&scenario);
            assert!(observed.failure.is_none(), "{:?}", observed.failure);
            (observed.visits[0].exchanges.len(), observed.visits[0].took)
        };
        let (requested, took) = page(0);
        assert_eq!((requested, took.is_some()), (2, true));
        // The second object waits for itself.
        assert_eq!(page(1), (1, None));
    }

    #[test]
    fn a_file_takes_what_tcp_takes() {
        let start = When::At(Duration::ZERO);
        for exchange in [
            Exchange::download(start, 2 * MIB),
            Exchange::upload(start, 2 * MIB),
        ] {
            let took = seconds(&observe_plain(&one_path().with_exchange(exchange)), 0);
            // 17.4 Mbit with headers at 8, three round trips, and slow start's holes; Linux
            // takes 2.29 s.
            assert!((2.25..2.40).contains(&took), "{took}");
        }
    }

    #[test]
    fn a_kept_connection_saves_its_beginning() {
        let after = |e| When::AfterEnd(e, Duration::from_millis(100));
        let first = Exchange::download(When::At(Duration::ZERO), 64 << 10);
        let over = |connection, exchange| Exchange {
            connection,
            ..exchange
        };
        let took = |connection| {
            let scenario = one_path().with_exchange(over(Some(7), first.clone()));
            let second = Exchange::download(after(0), 64 << 10);
            seconds(
                &observe_plain(&scenario.with_exchange(over(connection, second))),
                1,
            )
        };
        let saved = took(Some(8)) - took(Some(7));
        assert_eq!(took(None), took(Some(8)));
        assert!(saved >= 0.05, "{saved}");
    }

    #[test]
    fn what_is_due_too_early_is_left_out() {
        // 64 KiB take from 0.2 to 0.3 s over a new connection, from 0.1 to 0.2 s over an open one.
        let message = |number: usize| Exchange {
            connection: Some(0),
            never_beside: 0..number,
            ..Exchange::download(
                When::At(Duration::from_millis(100) * number as u32),
                64 << 10,
            )
        };
        let scenario = (0..6).fold(one_path(), |s, number| s.with_exchange(message(number)));
        let after = When::AfterAll {
            first: 0,
            last: 5,
            wait: Duration::from_secs(1),
        };
        let observed = observe_plain(&scenario.with_exchange(Exchange::download(after, 1)));
        assert!(observed.failure.is_none(), "{:?}", observed.failure);
        assert_eq!(
            observed.left_out,
            [0, 1, 1, 0, 1, 0, 0].map(|left| left == 1)
        );
        let (first, later) = (seconds(&observed, 0), seconds(&observed, 3));
        assert!(first - later >= 0.05, "{first} {later}");
        let last = observed.exchanges[5].as_ref().unwrap();
        let over = last.started + last.took.unwrap() + Duration::from_secs(1);
        assert_eq!(observed.exchanges[6].as_ref().unwrap().started, over);
    }

    #[test]
    fn a_download_may_end_with_its_time() {
        let mut exchange = Exchange::download(When::At(Duration::ZERO), 1 << 40);
        exchange.client.ending = Ending::StopAt(Duration::from_secs(10));
        let observed = observe_plain(&one_path().with_exchange(exchange));
        assert_eq!(seconds(&observed, 0), 10.0);
        let bytes = observed.exchanges[0].as_ref().unwrap().down_bytes;
        let share = bytes as f64 * 8.0 * 1500.0 / 1448.0 / 80e6;
        assert!((0.95..1.0).contains(&share), "{share}");
    }

    #[test]
    fn bytes_that_never_arrive_are_reported() {
        let mut scenario =
            one_path().with_exchange(Exchange::download(When::At(Duration::ZERO), MIB));
        scenario.links[0].down.loss = 1.0;
        scenario.limit = Duration::from_secs(60);
        let observed = observe_plain(&scenario);
        assert!(observed.exchanges[0].is_none());
        assert!(observed.failure.is_some());
    }
}
