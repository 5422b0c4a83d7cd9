//! Worlds from the hosts, links, schemes and workloads of an experiment.
//!
//! Exchanges and faults of a world take the place of clients and daemons: all subflows join, the
//! session idles, a transfer runs. Between transfers, radios rest and links are as at the start. A
//! session continues from workload to workload, unless its estimates would be wrong for the next
//! one.

use std::ops::Range;
use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_sim::ideal;
use mpbond_sim::link::{LinkChange, LinkConfig, NEAR_DBM, Rate};
use mpbond_sim::world::{
    Bluetooth, Ending, Exchange, Fault, Happening, HelperId, Late, Observed, Pace, Program, Rounds,
    Route, SNIFF_PAUSE, Scenario, TwoWay, User, Visit, When, World, observe_plain,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::price;
use super::users::{Other, ways};
use crate::error::{Error, Result};
use crate::experiment::{
    Application, Carrier, Chunks, Connection, Direction, Experiment, Link, Messages, Scheme, Start,
    Workload, bluetooth_radio,
};
use crate::network::links::{self, timed_changes};
use crate::player::{TimedChange, restoring};
use crate::schedule::duration::time_limit;
use crate::transfer::app::gaps;
use crate::transfer::client::WARM_UP_BYTES;
use crate::transfer::energy::Accountant;
use crate::transfer::ideal::ideal_time;

/// Maximum additional delay of each link, drawn from the seed. Without it, all seeds would be equal
/// where there is neither loss nor jitter, although a single packet more or less changes estimates.
/// It is less than the time of one packet on most links.
const MAX_EXTRA_DELAY: Duration = Duration::from_millis(1);
/// More bytes than any of the links carries in an hour.
const ENDLESS_BYTES: u64 = 1 << 40;
/// No page or video, and no time without a device, lasts longer.
const MAX_VISIT: Duration = Duration::from_secs(24 * 3_600);
/// Time after a transfer that belongs to it, since its closing packets wake radios too: a few round
/// trips, about as long as the lab takes to notice the end.
pub(crate) const CLOSING: Duration = Duration::from_millis(100);
/// Connection of plain TCP that a scheme keeps, and that of chunks.
const KEPT: u32 = 0;
/// Connection of plain TCP for messages.
const OF_MESSAGES: u32 = 1;
/// Time limit for joining.
const JOIN_LIMIT: Duration = Duration::from_secs(60);

/// The world of the workloads that one session carries, or of one workload without a session.
#[derive(Debug)]
pub(super) struct Prepared<'e> {
    pub scheme: &'e Scheme,
    pub parts: Vec<Part<'e>>,
    /// Names of the links of the world.
    pub links: Vec<String>,
    scenario: Scenario,
    /// Chunks whose pauses a seed draws, also those of other users.
    pauses: Vec<Pauses<'e>>,
    /// Worlds of other users, with the same exchanges.
    pub others: Vec<Other>,
}

/// Chunks of a workload with pauses between them.
#[derive(Debug)]
struct Pauses<'e> {
    /// Number of the first chunk's exchange.
    first: usize,
    chunks: &'e Chunks,
}

/// A transfer in a world.
#[derive(Debug)]
pub(super) struct Part<'e> {
    pub workload: &'e Workload,
    /// Its exchanges in the world, by number, those of its visit excepted.
    pub exchanges: Range<usize>,
    /// Its page or video in the world, by number.
    pub visit: Option<usize>,
    /// Fluid bound; `None` where it depends on the bytes: for pages, videos, messages and downloads
    /// of a given duration.
    pub ideal: Option<Duration>,
}

impl Part<'_> {
    /// The instant `wait` after its end.
    fn over(&self, wait: Duration) -> When {
        match self.visit {
            Some(visit) => When::AfterVisit(visit, wait),
            None => When::AfterAll {
                first: self.exchanges.start,
                last: self.exchanges.end - 1,
                wait,
            },
        }
    }
}

impl Prepared<'_> {
    /// Simulates it with a seed. Results of the first user come first.
    pub fn observe(&self, seed: u64) -> Vec<Observed> {
        let first = User {
            scenario: varied(&self.scenario, &self.pauses, seed, 0),
            reversed: Vec::new(),
        };
        let others = (1..).zip(&self.others).map(|(number, other)| User {
            scenario: varied(&other.scenario, &self.pauses, seed, number),
            reversed: other.reversed.clone(),
        });
        let users = std::iter::once(first).chain(others);
        match self.scheme.scheme {
            Carrier::Single => users.map(|user| observe_plain(&user.scenario)).collect(),
            _ => World::observe_together(users.collect(), self.scheme.sessions()),
        }
    }
}

/// The scenario of a user with what a seed draws.
fn varied(scenario: &Scenario, pauses: &[Pauses], seed: u64, user: u32) -> Scenario {
    let mut scenario = scenario.clone();
    for Pauses { first, chunks } in pauses {
        let chunk = scenario.exchanges.iter_mut().skip(*first);
        let later = chunk.take(chunks.count as usize).skip(1);
        for (exchange, pause) in later.zip(gaps(chunks, seed, user)) {
            if let When::AfterEnd(_, wait) = &mut exchange.start {
                *wait = pause;
            }
        }
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (u64::from(user) << 32));
    scenario.seed = rng.next_u64();
    let extra: Vec<Duration> = (scenario.links.iter())
        .map(|_| {
            let share = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            MAX_EXTRA_DELAY.mul_f64(share)
        })
        .collect();
    for (link, extra) in scenario.links.iter_mut().zip(&extra) {
        link.up.delay += *extra;
        link.down.delay += *extra;
    }
    for fault in &mut scenario.faults {
        if let Happening::Link { link, up, down } = &mut fault.what
            && let Some(extra) = extra.get(*link)
        {
            let delays = [up, down].into_iter().flatten();
            for delay in delays.filter_map(|change| change.delay.as_mut()) {
                *delay += *extra;
            }
        }
    }
    scenario
}

/// The worlds of all workloads that `scheme` carries, one for each session.
///
/// # Errors
/// When a recording or profile cannot be read, or the links never carry a workload.
pub(super) fn prepare<'e>(
    e: &'e Experiment,
    scheme: &'e Scheme,
    accountants: &[Accountant<'e>],
) -> Result<Vec<Prepared<'e>>> {
    let mut sessions: Vec<Vec<&Workload>> = Vec::new();
    for workload in e.workloads_of(scheme) {
        let last = sessions.last_mut();
        match last.filter(|before| lives_on(e, scheme, before.last().copied(), workload)) {
            Some(session) => session.push(workload),
            None => sessions.push(vec![workload]),
        }
    }
    let worlds = sessions.into_iter();
    worlds
        .map(|workloads| {
            let of = |user| Builder::new(e, scheme, &workloads, accountants, user);
            let mut world = of(0)?.build(&workloads)?;
            for user in 1..scheme.users.max(1 + usize::from(scheme.dual)) {
                let other = of(user)?.build_other(&workloads)?;
                world.others.push(other);
            }
            Ok(world)
        })
        .collect()
}

/// Whether the session of `before` carries `next` as well.
fn lives_on(e: &Experiment, scheme: &Scheme, before: Option<&Workload>, next: &Workload) -> bool {
    let before = before.filter(|b| b.faults.is_empty() && !b.leaves_other_links(e, next));
    // Users would not end at the same time.
    let has_others = scheme.dual || scheme.users > 1;
    let has_session = scheme.scheme == Carrier::Mpbond && scheme.start == Start::Warm;
    before.is_some() && has_session && !has_others
}

struct Builder<'e> {
    e: &'e Experiment,
    scheme: &'e Scheme,
    /// Number of the user.
    user: usize,
    /// Links of the scheme, in the order of the world's.
    used: Vec<&'e Link>,
    /// By route, the name of its direct link or of the device behind it.
    of_routes: Vec<&'e str>,
    /// Indices of links that are seen from their other end.
    reversed: Vec<usize>,
    pauses: Vec<Pauses<'e>>,
    scenario: Scenario,
}

impl<'e> Builder<'e> {
    fn new(
        e: &'e Experiment,
        scheme: &'e Scheme,
        workloads: &[&Workload],
        accountants: &[Accountant<'e>],
        user: usize,
    ) -> Result<Self> {
        let mut used: Vec<&Link> = Vec::new();
        let (mut routes, mut reversed) = (Vec::new(), Vec::new());
        let profiles = Profiles::shipped().map_err(Error::run)?;
        let mut of_routes = Vec::new();
        for way in ways(e, scheme, user) {
            // Several pipes to a helper share its own link.
            let of_way = way.links.iter().map(|link| {
                let known = used.iter().position(|u| u.name == link.name);
                known.unwrap_or_else(|| {
                    used.push(link);
                    used.len() - 1
                })
            });
            let links: Vec<usize> = of_way.collect();
            let mut route = match (way.helper, &links[..]) {
                (Some(number), [pipe, hs]) if scheme.split => {
                    Route::through(way.name, HelperId(number), *pipe, *hs)
                }
                _ => Route::direct(way.name, 0),
            };
            reversed.extend(links.first().copied().filter(|_| way.is_reversed));
            route.links = links;
            route.place = way.place;
            route.radios = way.radios;
            let is_bluetooth = |pipe: &&Link| {
                let mut radio = pipe.radio.iter();
                pipe.bluetooth.is_some()
                    || radio.any(|r| bluetooth_radio(&profiles, r.get_ref()).is_ok())
            };
            if way.links.first().is_some_and(is_bluetooth) {
                route.pause = SNIFF_PAUSE;
            }
            let mut costs = scheme.costs.iter();
            let cost = costs.find(|(name, _)| name.get_ref() == way.of);
            route.cost = cost.map_or(0, |(_, cost)| *cost);
            let mut standby = scheme.standby.iter();
            route.backup = standby.any(|name| name.get_ref() == way.of);
            let mut thresholds = scheme.weak_below.iter();
            let threshold = thresholds.find(|(name, _)| name.get_ref() == way.of);
            route.weak_below_dbm = threshold.map(|(_, dbm)| *dbm);
            routes.push(route);
            of_routes.push(way.of);
        }
        // All workloads have the same setting.
        let first = workloads.first().copied();
        let world_links = used.iter().map(|link| two_way(e, first, link, &profiles));
        let mut scenario = Scenario::new(world_links.collect::<Result<_>>()?, routes);
        price::set_least_bursts(scheme, accountants, &of_routes, &mut scenario)?;
        for config in [&mut scenario.client, &mut scenario.server] {
            config.scheduler = scheme.scheduler;
            config.reinjection = scheme.reinjection.into();
            config.feedback = scheme.feedback;
            config.buffer_delay = scheme.buffer_delay;
            config.stream_order = scheme.stream_order;
            scheme.without.iter().for_each(|m| config.leave_out(*m));
        }
        scenario.keeps_log = true;
        scenario.linger = CLOSING;
        scenario.has_bounds = false;
        scenario.limit = JOIN_LIMIT;
        Ok(Self {
            e,
            scheme,
            user,
            used,
            of_routes,
            reversed,
            pauses: Vec::new(),
            scenario,
        })
    }

    fn build(mut self, workloads: &[&'e Workload]) -> Result<Prepared<'e>> {
        let mut parts: Vec<Part> = Vec::new();
        for workload in workloads {
            let part = self.part(workload, parts.last())?;
            parts.push(part);
        }
        Ok(Prepared {
            scheme: self.scheme,
            parts,
            links: (self.used.iter().map(|l| l.name.get_ref().clone())).collect(),
            scenario: self.scenario,
            pauses: self.pauses,
            others: Vec::new(),
        })
    }

    fn build_other(self, workloads: &[&'e Workload]) -> Result<Other> {
        let (user, scheme, reversed) = (self.user, self.scheme, self.reversed.clone());
        let Prepared {
            mut scenario,
            links,
            ..
        } = self.build(workloads)?;
        if scheme.users > 1 {
            for link in &mut scenario.links {
                link.name += &format!(" of user {user}");
                let radios = [&mut link.shared.near_radio, &mut link.shared.far_radio];
                for radio in radios.into_iter().flatten() {
                    radio.owner += &format!(" of user {user}");
                }
            }
        } else if scheme.scheme == Carrier::Mpbond {
            // The links are the first user's, whose world changes them.
            scenario.faults.clear();
        }
        Ok(Other {
            scenario,
            reversed,
            links: if scheme.dual { links } else { Vec::new() },
        })
    }

    /// Adds a transfer after the one `before`.
    fn part(&mut self, workload: &'e Workload, before: Option<&Part>) -> Result<Part<'e>> {
        let (e, scheme) = (self.e, self.scheme);
        let most = workload.most_bytes();
        let ideal = ideal_time(e, scheme, workload, most.max(1))?;
        let after_before = |wait| before.map(|part| part.over(wait));
        if let Some(over) = after_before(Duration::ZERO) {
            self.happens(over, Happening::RestRadios);
            self.restore(over);
        }
        let has_session = scheme.scheme == Carrier::Mpbond;
        let from_start = |wait| match (has_session, scheme.start) {
            (true, Start::Warm) => When::AfterJoined(wait),
            _ => When::At(wait),
        };
        let kept = scheme.connection == Connection::Kept;
        let idle = scheme.idle;
        let mut start = match (has_session, scheme.start) {
            (true, Start::Warm) => after_before(idle).unwrap_or(from_start(idle)),
            _ => When::At(Duration::ZERO),
        };
        if kept {
            let at = after_before(Duration::ZERO).unwrap_or(from_start(Duration::ZERO));
            let warm_up = match workload.direction {
                Direction::Down => Exchange::download(at, WARM_UP_BYTES),
                Direction::Up => Exchange::upload(at, WARM_UP_BYTES),
            };
            self.scenario.exchanges.push(Exchange {
                connection: Some(KEPT),
                ..warm_up
            });
            start = When::AfterEnd(self.scenario.exchanges.len() - 1, idle);
        }
        let messages = match workload.application() {
            Some(Application::Messages(messages)) => Some(messages),
            _ => None,
        };
        if !has_session && messages.is_some_and(|m| m.connection == Connection::Kept) {
            // Opens the messages' connection before their time runs.
            self.scenario.exchanges.push(Exchange {
                up_bytes: 0,
                connection: Some(OF_MESSAGES),
                ..Exchange::download(start, 0)
            });
        }
        let first = self.scenario.exchanges.len();
        let visit = visit(workload, start, first);
        match &visit {
            Some(visit) => self.scenario.visits.push(visit.clone()),
            None => self.exchanges(workload, start, kept, has_session),
        }
        if visit.as_ref().is_some_and(|visit| visit.stops.is_some()) {
            let download = Exchange {
                class: workload.class,
                ..endless(start, MAX_VISIT)
            };
            self.scenario.exchanges.push(download);
        }
        for exchange in &mut self.scenario.exchanges {
            // HTTP: the length is known, and the connection stays open.
            exchange.by_length = true;
        }
        // The first message is not due at the start, and exchanges of a visit have no numbers yet.
        let begins = |after| match messages.is_some() || visit.is_some() {
            true => start.later(after),
            false => When::AfterStart(first, after),
        };
        self.restore(begins(Duration::ZERO));
        let at_rest = after_before(Duration::ZERO).unwrap_or(When::At(Duration::ZERO));
        for (link, set) in self.used.clone().into_iter().enumerate() {
            let set = workload.on(set);
            // The primary has seen it before.
            let first = set.signal_dbm.first().map(|(_, dbm)| (at_rest, *dbm));
            let later = set.signals().iter().map(|(at, dbm)| (begins(at.0), *dbm));
            for (when, dbm) in first.into_iter().chain(later) {
                self.happens(when, Happening::Signal { link, dbm });
            }
        }
        let changes = timed_changes(e, workload)?;
        for change in &changes {
            let begin = begins(change.at);
            self.change(begin, &change.link, change.direction, &change.change);
            // Of the two directions, the one to the primary tells it.
            let tells = change.direction == Direction::Down && change.carrier == Some(false);
            if tells && self.end_channels(begin, &change.link) {
                continue;
            }
            if let Some(route) = self.chosen_pipe(&change.link).filter(|_| tells) {
                let ends = |c: &&TimedChange| c.link == change.link && c.carrier == Some(true);
                let end = changes.iter().filter(ends).map(|c| c.at);
                let length = match end.filter(|end| *end > change.at).min() {
                    Some(end) => end - change.at,
                    None => MAX_VISIT,
                };
                self.happens(begin, Happening::Unplug { route, length });
            }
        }
        for fault in &workload.faults {
            let Some(host) = fault.kill.as_ref().filter(|_| has_session) else {
                continue;
            };
            for (route, of) in self.of_routes.clone().into_iter().enumerate() {
                if of == host.get_ref() && self.scenario.routes[route].helper.is_some() {
                    let length = MAX_VISIT;
                    self.happens(begins(fault.at), Happening::Leave { route, length });
                }
            }
        }
        // As in real time.
        let longest = time_limit(e, scheme, workload, ideal)?;
        self.scenario.stall_limit = self.scenario.stall_limit.max(longest);
        self.scenario.limit += longest + idle;
        let timed = matches!(workload.application(), Some(Application::Timed(_)));
        let has_ideal = !timed && messages.is_none() && visit.is_none();
        Ok(Part {
            workload,
            exchanges: first..self.scenario.exchanges.len(),
            visit: visit.map(|_| self.scenario.visits.len() - 1),
            ideal: has_ideal.then_some(ideal),
        })
    }

    fn exchanges(&mut self, workload: &'e Workload, start: When, kept: bool, has_session: bool) {
        let all = &mut self.scenario.exchanges;
        let bytes = workload.bytes.0;
        let class = workload.class;
        let connection = kept.then_some(KEPT);
        let endless = |length| Exchange {
            class,
            ..endless(start, length)
        };
        match workload.application() {
            Some(Application::Chunks(chunks)) => {
                self.pauses.push(Pauses {
                    first: all.len(),
                    chunks,
                });
                for number in 0..chunks.count {
                    let when = match all.len().checked_sub(1) {
                        Some(last) if number > 0 => When::AfterEnd(last, chunks.least_gap),
                        _ => start,
                    };
                    all.push(Exchange {
                        connection: Some(KEPT),
                        class,
                        ..Exchange::download(when, chunks.bytes.0)
                    });
                }
            }
            Some(Application::Files(files)) => {
                let ends = files.iter().scan(0, |end, file| {
                    *end += file.0;
                    Some(*end)
                });
                let ends: Vec<u64> = ends.collect();
                let told = self.scheme.chunk_ends;
                all.push(Exchange {
                    class,
                    chunk_ends: if told { ends.clone() } else { Vec::new() },
                    ..Exchange::download(start, ends.last().copied().unwrap_or_default())
                });
            }
            Some(Application::Messages(messages)) => {
                let download = Exchange::download(start, messages.bytes.0);
                let message = Exchange {
                    // No larger than the answer, which gives the exchange its direction.
                    up_bytes: download.up_bytes.min(download.down_bytes),
                    class: messages.class.unwrap_or(class),
                    ..download
                };
                if has_session && messages.connection == Connection::Kept {
                    all.push(over_one_stream(messages, message));
                } else {
                    let first = all.len();
                    all.extend(one_by_one(messages, &message, first));
                }
                // The last exchange, so that each message follows the one before.
                all.extend(messages.bulk.then(|| endless(messages.length)));
            }
            Some(Application::Timed(length)) => all.push(Exchange {
                connection,
                ..endless(length)
            }),
            Some(Application::Stream(stream)) => {
                let bytes = stream.messages() * stream.message.0;
                let mut exchange = Exchange::download(start, bytes);
                exchange.origin.pace = Some(Pace {
                    bytes: stream.message.0,
                    every: stream.every(),
                });
                all.push(Exchange {
                    connection,
                    class,
                    ..exchange
                });
            }
            // Pages and videos are visits.
            _ => {
                let exchange = match workload.direction {
                    Direction::Down => Exchange::download(start, bytes),
                    Direction::Up => Exchange::upload(start, bytes),
                };
                all.push(Exchange {
                    connection,
                    class,
                    ..exchange
                });
            }
        }
    }

    fn happens(&mut self, when: When, what: Happening) {
        self.scenario.faults.push(Fault { when, what });
    }

    /// Restores every link to its state at the start; schedules and recordings begin.
    fn restore(&mut self, when: When) {
        for link in 0..self.scenario.links.len() {
            let both = &self.scenario.links[link];
            let (up, down) = (Some(restoring(&both.up)), Some(restoring(&both.down)));
            let is_bluetooth = both.bluetooth.is_some();
            self.happens(when, Happening::Link { link, up, down });
            if is_bluetooth {
                let dbm = NEAR_DBM;
                self.happens(when, Happening::Signal { link, dbm });
            }
        }
    }

    /// If a link is one of Bluetooth, all connections over it end at both ends; whether it is.
    fn end_channels(&mut self, when: When, link: &str) -> bool {
        let mut links = self.scenario.links.iter();
        let link = links.position(|of| of.name == link && of.bluetooth.is_some());
        if let Some(link) = link {
            self.happens(when, Happening::Disconnect { link });
        }
        link.is_some()
    }

    /// The route over a pipe, if it is one of several of which the best one is used.
    fn chosen_pipe(&self, link: &str) -> Option<usize> {
        let mut routes = self.scenario.routes.iter();
        routes.position(|route| route.place.is_some() && route.name == link)
    }

    fn change(&mut self, when: When, link: &str, direction: Direction, change: &LinkChange) {
        let mut used = self.used.iter();
        let Some(link) = used.position(|l| l.name.get_ref() == link) else {
            return;
        };
        let change = change.clone();
        let (up, down) = match direction {
            Direction::Up => (Some(change), None),
            Direction::Down => (None, Some(change)),
        };
        self.happens(when, Happening::Link { link, up, down });
    }
}

/// The page or the video of a workload. A download beside it is the exchange `bulk`.
fn visit(workload: &Workload, start: When, bulk: usize) -> Option<Visit> {
    let (program, ahead, has_bulk) = match workload.application()? {
        Application::Page(page) => {
            let program = Program::Page {
                objects: page.plan(),
                connections: page.connections,
            };
            (program, page.ahead(), page.bulk)
        }
        Application::Video(video) => (Program::Video(video.plan()), Duration::ZERO, false),
        _ => return None,
    };
    Some(Visit {
        start: start.later(ahead),
        program,
        class: workload.class,
        stops: has_bulk.then_some(bulk),
    })
}

/// Messages over one stream.
fn over_one_stream(messages: &Messages, message: Exchange) -> Exchange {
    Exchange {
        rounds: Some(Rounds {
            first: messages.first_due(),
            every: messages.every,
            length: messages.length,
            late: Late::LeftOut,
        }),
        ..message
    }
}

/// One exchange for each message, on a stream of its own or by plain TCP; `first` is the index of
/// the first one.
fn one_by_one(messages: &Messages, message: &Exchange, first: usize) -> Vec<Exchange> {
    let kept = messages.connection == Connection::Kept;
    let exchange = |(before, due)| Exchange {
        start: message.start.later(due),
        connection: kept.then_some(OF_MESSAGES),
        never_beside: first..first + before,
        ..message.clone()
    };
    messages.due().enumerate().map(exchange).collect()
}

/// A download that stops after a time.
fn endless(start: When, length: Duration) -> Exchange {
    let mut exchange = Exchange::download(start, ENDLESS_BYTES);
    exchange.client.ending = Ending::StopAt(length);
    exchange
}

/// A link during a workload, with its recordings.
///
/// # Errors
/// When a recording cannot be read.
pub(crate) fn two_way(
    e: &Experiment,
    workload: Option<&Workload>,
    link: &Link,
    profiles: &Profiles,
) -> Result<TwoWay> {
    let set = workload.map_or_else(|| link.clone(), |w| w.on(link));
    let name = link.name.get_ref();
    let model = |direction| match set.model(direction) {
        // A plain wire.
        None => Ok(LinkConfig::new(Rate::Unlimited)),
        Some(spec) => spec
            .resolve(|file| e.read_recording(file))
            .map_err(|error| Error::Experiment(format!("link \"{name}\": {error}"))),
    };
    let up = model(Direction::Up)?;
    if link.bluetooth.is_some() {
        let radio = |name| bluetooth_radio(profiles, name).map_err(Error::Experiment);
        let [watch, phone] = link.bluetooth_radios();
        return Ok(TwoWay {
            bluetooth: Some(Bluetooth {
                watch: radio(watch)?,
                phone: radio(phone)?,
            }),
            ..TwoWay::symmetric(name, up)
        });
    }
    Ok(TwoWay {
        name: name.clone(),
        up,
        down: model(Direction::Down)?,
        shared: links::shared(e, link, profiles)?,
        bluetooth: None,
    })
}

/// Converts a direction of the bound.
pub(super) fn direction(of: ideal::Direction) -> Direction {
    match of {
        ideal::Direction::Down => Direction::Down,
        ideal::Direction::Up => Direction::Up,
    }
}
