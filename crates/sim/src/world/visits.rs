//! Clients of visits: their connections, and the objects that they request over them.

use mpbond_units::Timestamp;

use super::scenario::{Exchange, Scenario};
use super::visit::{Program, Visit, VisitOutcome};
use super::when::When;
use crate::application::page::{self, Order};
use crate::application::video::{self, VideoPlayer};

/// The visits of a world, by index.
#[derive(Debug)]
pub(super) struct Visits(Vec<Visiting>);

/// A visit.
#[derive(Debug)]
struct Visiting {
    visit: Visit,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    client: Client,
    connections: Vec<Connection>,
    /// When its client is to be asked again, unless an object arrives before.
    due: Option<Timestamp>,
    exchanges: Vec<usize>,
}

#[derive(Debug)]
enum Client {
    Page(Order),
    Video(Box<VideoPlayer>),
}

/// A connection of a visit.
#[derive(Debug)]
struct Connection {
    /// Number of the host, of those of the page.
    host: usize,
    /// Its number in the world.
    number: u32,
    is_open: bool,
    fetches: Option<Fetch>,
}

/// An object under way.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    exchange: usize,
    asked: Timestamp,
    /// Number of the object, or index of the segment's bit rate.
    what: usize,
}

impl Visits {
    /// All visits of a scenario, before they begin.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let used = scenario.exchanges.iter().filter_map(|x| x.connection);
        let mut numbers = used.max().map_or(0, |last| last + 1)..;
        let visits = scenario.visits.iter();
        Self(visits.map(|v| Visiting::new(v, &mut numbers)).collect())
    }

    /// Whether all have ended.
    pub(super) fn are_over(&self) -> bool {
        self.0.iter().all(|v| v.ended.is_some())
    }

    /// When a visit ended.
    pub(super) fn ended(&self, visit: usize) -> Option<Timestamp> {
        self.0.get(visit)?.ended
    }

    /// Instants at which visits begin, where `instant` knows them, or go on.
    pub(super) fn due(
        &self,
        instant: impl Fn(When) -> Option<Timestamp>,
    ) -> impl Iterator<Item = Timestamp> {
        self.0.iter().filter_map(move |v| match v.started {
            None => instant(v.visit.start),
            Some(_) => v.due,
        })
    }

    /// Visits that have not begun, each with its start.
    pub(super) fn waiting(&self) -> Vec<(usize, When)> {
        let waiting = self.0.iter().enumerate();
        let waiting = waiting.filter(|(_, v)| v.started.is_none());
        waiting.map(|(i, v)| (i, v.visit.start)).collect()
    }

    /// Begins a visit.
    pub(super) fn begin(&mut self, now: Timestamp, visit: usize) {
        if let Some(visit) = self.0.get_mut(visit) {
            visit.begin(now);
        }
    }

    /// The next exchange to begin now, which gets the index `next`. `ended` has the ends of those
    /// that are over.
    pub(super) fn poll(
        &mut self,
        now: Timestamp,
        next: usize,
        ended: impl Fn(usize) -> Option<Timestamp>,
    ) -> Option<Exchange> {
        self.0.iter_mut().find_map(|v| v.poll(now, next, &ended))
    }

    /// Exchanges to be stopped now.
    pub(super) fn take_stops(&mut self) -> Vec<usize> {
        let over = self.0.iter_mut().filter(|v| v.ended.is_some());
        over.filter_map(|v| v.visit.stops.take()).collect()
    }

    /// Results of all visits.
    pub(super) fn outcomes(&self) -> Vec<VisitOutcome> {
        self.0.iter().map(Visiting::outcome).collect()
    }
}

impl Visiting {
    fn new(visit: &Visit, numbers: &mut impl Iterator<Item = u32>) -> Self {
        let (client, hosts) = match &visit.program {
            Program::Page {
                objects,
                connections,
            } => {
                let order = Order::new(objects.clone());
                let each = order.objects_by_host();
                let hosts = each.iter().enumerate().flat_map(|(host, objects)| {
                    std::iter::repeat_n(host, *objects.min(connections))
                });
                let hosts: Vec<usize> = hosts.collect();
                (Client::Page(order), hosts)
            }
            Program::Video(plan) => {
                let player = VideoPlayer::new(plan.clone(), Timestamp::ZERO);
                (Client::Video(Box::new(player)), vec![0])
            }
        };
        let connection = |(host, number)| Connection {
            host,
            number,
            is_open: false,
            fetches: None,
        };
        Self {
            visit: visit.clone(),
            started: None,
            ended: None,
            client,
            connections: hosts.into_iter().zip(numbers).map(connection).collect(),
            due: None,
            exchanges: Vec::new(),
        }
    }

    fn begin(&mut self, now: Timestamp) {
        if let Program::Video(plan) = &self.visit.program {
            self.client = Client::Video(Box::new(VideoPlayer::new(plan.clone(), now)));
        }
        (self.started, self.due) = (Some(now), Some(now));
    }

    fn poll(
        &mut self,
        now: Timestamp,
        next: usize,
        ended: impl Fn(usize) -> Option<Timestamp>,
    ) -> Option<Exchange> {
        let started = self.started.filter(|_| self.ended.is_none())?;
        if self.take_arrived(started, ended) || self.due.is_some_and(|due| due <= now) {
            let request = self.request(now, started, next);
            if request.is_none() {
                let rests = self.connections.iter().all(|c| c.fetches.is_none());
                self.ended = (rests && self.due.is_none()).then_some(now);
            }
            return request;
        }
        None
    }

    /// Takes note of objects that have arrived. Returns whether there are any.
    fn take_arrived(
        &mut self,
        started: Timestamp,
        ended: impl Fn(usize) -> Option<Timestamp>,
    ) -> bool {
        let mut any = false;
        for connection in &mut self.connections {
            let Some(fetch) = connection.fetches else {
                continue;
            };
            if let Some(at) = ended(fetch.exchange) {
                any = true;
                connection.fetches = None;
                match &mut self.client {
                    Client::Page(order) => order.finished(fetch.what, at.since(started)),
                    Client::Video(player) => player.fetched(fetch.asked, at, fetch.what),
                }
            }
        }
        any
    }

    /// Requests an object over a connection without a request: an open one, if the host has any.
    fn request(&mut self, now: Timestamp, started: Timestamp, next: usize) -> Option<Exchange> {
        self.due = None;
        let is_free = |c: &&mut Connection| c.fetches.is_none();
        let mut free: Vec<_> = self.connections.iter_mut().filter(is_free).collect();
        free.sort_by_key(|c| !c.is_open);
        for connection in free {
            let (what, bytes) = match &mut self.client {
                Client::Page(order) => match order.next(connection.host, now.since(started)) {
                    page::Next::Fetch { object, bytes } => (object, bytes),
                    page::Next::Wait(at) => {
                        let at = at.map(|at| started + at);
                        self.due = self.due.into_iter().chain(at).min();
                        continue;
                    }
                    page::Next::Done => continue,
                },
                Client::Video(player) => match player.next(now) {
                    video::Next::Fetch { quality, bytes, .. } => (quality, bytes),
                    video::Next::Wait(until) => {
                        self.due = Some(until);
                        continue;
                    }
                    video::Next::Done => continue,
                },
            };
            connection.is_open = true;
            connection.fetches = Some(Fetch {
                exchange: next,
                asked: now,
                what,
            });
            // Another connection may be free as well.
            self.due = Some(now);
            self.exchanges.push(next);
            let start = When::At(now.since(Timestamp::ZERO));
            // An empty object has one byte, instead of the head of its response.
            return Some(Exchange {
                by_length: true,
                connection: Some(connection.number),
                class: self.visit.class,
                ..Exchange::download(start, bytes.max(1))
            });
        }
        None
    }

    fn outcome(&self) -> VisitOutcome {
        // An object that waits for one which is never requested is not requested, either.
        let is_whole = match &self.client {
            Client::Page(order) => order.is_loaded(),
            Client::Video(_) => true,
        };
        let took = self.started.zip(self.ended).filter(|_| is_whole);
        VisitOutcome {
            started: self.started,
            took: took.map(|(started, ended)| ended.since(started)),
            exchanges: self.exchanges.clone(),
            watched: match &self.client {
                Client::Page(_) => None,
                Client::Video(player) => Some(player.watched()),
            },
        }
    }
}
