//! From an experiment's hosts, links, schemes and workloads to a world.
//!
//! What the lab does with its daemons is done here with exchanges and faults:
//! all is joined, then idles, then a transfer runs; between transfers radios
//! rest and links are as at the start; a session lives on from workload to
//! workload, unless what it has learnt would be of another place.

use std::ops::Range;
use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_sim::ideal;
use mpbond_sim::link::{LinkChange, LinkConfig, Rate};
use mpbond_sim::world::{
    Ending, Exchange, Fault, FeedbackRule, Happening, HelperId, Route, Scenario, SchedulerKind,
    TwoWay, When,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::app::chunks::gaps;
use crate::error::{Error, Result};
use crate::experiment::{
    Application, Carrier, Connection, Direction, Experiment, Feedback, Link, Scheduler, Scheme,
    Start, Workload,
};
use crate::fetch::WARM_UP_BYTES;
use crate::ideal::ideal_time;
use crate::links::{self, timed_changes};
use crate::player::restoring;

/// Each link is longer by up to this, as the seed has it: without loss or
/// jitter all seeds would be one, and a packet more or less decides what the
/// next estimate is. It is less than a packet takes on most links.
const MAX_EXTRA_DELAY: Duration = Duration::from_millis(1);
/// More than any of the links carries in an hour.
const ENDLESS_BYTES: u64 = 1 << 40;
/// What closes a transfer wakes radios, too, and belongs to it: a few round
/// trips, about as long as the lab needs to hear that it is closed.
pub(super) const CLOSING: Duration = Duration::from_millis(100);
/// Everything is joined by then.
const JOIN_LIMIT: Duration = Duration::from_secs(60);

/// Workloads that one session carries, or one without a session, ready to run.
#[derive(Debug)]
pub(super) struct Prepared<'e> {
    pub scheme: &'e Scheme,
    pub parts: Vec<Part<'e>>,
    /// Names of the world's links.
    pub links: Vec<String>,
    scenario: Scenario,
}

/// One transfer of a world.
#[derive(Debug)]
pub(super) struct Part<'e> {
    pub workload: &'e Workload,
    /// Which of the world's exchanges it is.
    pub exchanges: Range<usize>,
    /// The bound; of a transfer that ends with its time it depends on what
    /// came.
    pub ideal: Option<Duration>,
}

impl Prepared<'_> {
    /// The world of one seed.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = self.scenario.clone();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
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
}

/// Everything that `scheme` carries, a world for each session.
///
/// # Errors
/// When a recording or profile cannot be read, or the links never carry a
/// workload.
pub(super) fn prepare<'e>(e: &'e Experiment, scheme: &'e Scheme) -> Result<Vec<Prepared<'e>>> {
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
        .map(|workloads| Builder::new(e, scheme, &workloads)?.build(&workloads))
        .collect()
}

/// Whether the session that carried `before` carries `next` as well.
fn lives_on(e: &Experiment, scheme: &Scheme, before: Option<&Workload>, next: &Workload) -> bool {
    let before = before.filter(|b| b.faults.is_empty() && !b.leaves_other_links(e, next));
    before.is_some() && scheme.scheme == Carrier::Mpbond && scheme.start == Start::Warm
}

struct Builder<'e> {
    e: &'e Experiment,
    scheme: &'e Scheme,
    /// The links that the scheme uses, in the order of the world's.
    used: Vec<&'e Link>,
    scenario: Scenario,
}

impl<'e> Builder<'e> {
    fn new(e: &'e Experiment, scheme: &'e Scheme, workloads: &[&Workload]) -> Result<Self> {
        let mut used: Vec<&Link> = Vec::new();
        let mut routes = Vec::new();
        for link in scheme.direct_links(e) {
            routes.push(Route::direct(link.name.get_ref(), used.len()));
            used.push(link);
        }
        for (helper, number) in scheme.helpers(e).zip(0..) {
            let (Some(pipe), Some(up)) = (e.pipe_of(helper), e.uplink_of(helper)) else {
                continue;
            };
            let at = used.len();
            used.extend([pipe, up]);
            routes.push(if scheme.split {
                Route::through(helper, HelperId(number), at, at + 1)
            } else {
                let mut route = Route::direct(helper, at);
                route.links.push(at + 1);
                route
            });
        }
        let profiles = Profiles::shipped().map_err(Error::run)?;
        // All of them are of one setting.
        let first = workloads.first().copied();
        let world_links = used.iter().map(|link| two_way(e, first, link, &profiles));
        let mut scenario = Scenario::new(world_links.collect::<Result<_>>()?, routes);
        let kind = scheduler(scheme);
        for config in [&mut scenario.client, &mut scenario.server] {
            config.scheduler = kind;
            config.reinjection.rebalance = scheme.reinjection;
        }
        scenario.client.feedback = match scheme.feedback {
            Feedback::Flexible => FeedbackRule::Flexible,
            Feedback::FixedAlways => FeedbackRule::FixedAlways,
            Feedback::FixedOnDemand => FeedbackRule::FixedOnDemand,
        };
        scenario.keeps_log = true;
        scenario.linger = CLOSING;
        scenario.has_bounds = false;
        scenario.limit = JOIN_LIMIT;
        Ok(Self {
            e,
            scheme,
            used,
            scenario,
        })
    }

    fn build(mut self, workloads: &[&'e Workload]) -> Result<Prepared<'e>> {
        let mut parts: Vec<Part> = Vec::new();
        for workload in workloads {
            let before = parts.last().map(|part| part.exchanges.end - 1);
            parts.push(self.part(workload, before)?);
        }
        Ok(Prepared {
            scheme: self.scheme,
            parts,
            links: (self.used.iter().map(|l| l.name.get_ref().clone())).collect(),
            scenario: self.scenario,
        })
    }

    /// Adds a transfer after the exchange `before`.
    fn part(&mut self, workload: &'e Workload, before: Option<usize>) -> Result<Part<'e>> {
        let (e, scheme) = (self.e, self.scheme);
        let most = workload.most_bytes();
        let ideal = ideal_time(e, scheme, workload, most.max(1))?;
        let after_before = |wait| before.map(|b| When::AfterEnd(b, wait));
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
            self.scenario.exchanges.push(match workload.direction {
                Direction::Down => Exchange::download(at, WARM_UP_BYTES),
                Direction::Up => Exchange::upload(at, WARM_UP_BYTES),
            });
            start = When::AfterEnd(self.scenario.exchanges.len() - 1, idle);
        }
        let first = self.scenario.exchanges.len();
        self.exchanges(workload, start, kept);
        for exchange in &mut self.scenario.exchanges {
            // It is HTTP.
            exchange.by_length = true;
        }
        let begins = |after| When::AfterStart(first, after);
        self.restore(begins(Duration::ZERO));
        for change in timed_changes(e, workload)? {
            self.change(
                begins(change.at),
                &change.link,
                change.direction,
                change.change,
            );
        }
        for fault in &workload.faults {
            let Some(host) = fault.kill.as_ref().filter(|_| has_session) else {
                continue;
            };
            let mut routes = self.scenario.routes.iter();
            let found = routes.position(|r| r.helper.is_some() && r.name == *host.get_ref());
            if let Some(route) = found {
                let length = Duration::from_secs(24 * 3_600);
                self.happens(begins(fault.at), Happening::Leave { route, length });
            }
        }
        let least = workload.application().map(|app| app.least_time());
        // As long as the lab waits.
        let longest = Duration::from_secs(30) + least.unwrap_or_default() * 2 + ideal * 10;
        self.scenario.stall_limit = self.scenario.stall_limit.max(longest);
        self.scenario.limit += longest + idle;
        let timed = matches!(workload.application(), Some(Application::Timed(_)));
        Ok(Part {
            workload,
            exchanges: first..self.scenario.exchanges.len(),
            ideal: (!timed).then_some(ideal),
        })
    }

    fn exchanges(&mut self, workload: &Workload, start: When, continues: bool) {
        let all = &mut self.scenario.exchanges;
        let bytes = workload.bytes.0;
        match workload.application() {
            Some(Application::Chunks(chunks)) => {
                let pauses = gaps(chunks, self.e.seed);
                for (number, pause) in (0..chunks.count).zip(pauses) {
                    // The first one's pause comes after it.
                    let when = match all.len().checked_sub(1) {
                        Some(last) if number > 0 => When::AfterEnd(last, pause),
                        _ => start,
                    };
                    all.push(Exchange {
                        continues: continues || number > 0,
                        ..Exchange::download(when, chunks.bytes.0)
                    });
                }
            }
            Some(Application::Timed(length)) => {
                let mut exchange = Exchange::download(start, ENDLESS_BYTES);
                exchange.client.ending = Ending::StopAt(length);
                exchange.continues = continues;
                all.push(exchange);
            }
            // What else there is cannot be simulated and was left out.
            _ => {
                let exchange = match workload.direction {
                    Direction::Down => Exchange::download(start, bytes),
                    Direction::Up => Exchange::upload(start, bytes),
                };
                all.push(Exchange {
                    continues,
                    ..exchange
                });
            }
        }
    }

    fn happens(&mut self, when: When, what: Happening) {
        self.scenario.faults.push(Fault { when, what });
    }

    /// Every link is as at the start; schedules and recordings begin.
    fn restore(&mut self, when: When) {
        for link in 0..self.scenario.links.len() {
            let both = &self.scenario.links[link];
            let (up, down) = (Some(restoring(&both.up)), Some(restoring(&both.down)));
            self.happens(when, Happening::Link { link, up, down });
        }
    }

    fn change(&mut self, when: When, link: &str, direction: Direction, change: LinkChange) {
        let mut used = self.used.iter();
        let Some(link) = used.position(|l| l.name.get_ref() == link) else {
            return;
        };
        let (up, down) = match direction {
            Direction::Up => (Some(change), None),
            Direction::Down => (None, Some(change)),
        };
        self.happens(when, Happening::Link { link, up, down });
    }
}

fn two_way(
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
            .resolve(|file| links::read(e, file))
            .map_err(|error| Error::Experiment(format!("link \"{name}\": {error}"))),
    };
    Ok(TwoWay {
        name: name.clone(),
        up: model(Direction::Up)?,
        down: model(Direction::Down)?,
        shared: links::shared(e, link, profiles)?,
    })
}

fn scheduler(scheme: &Scheme) -> SchedulerKind {
    match scheme.scheduler {
        Scheduler::Pams => SchedulerKind::Pams,
        Scheduler::MinPad => SchedulerKind::MinPad,
        Scheduler::MinRtt => SchedulerKind::MinRtt,
        Scheduler::RoundRobin => SchedulerKind::RoundRobin,
        Scheduler::Redundant => SchedulerKind::Redundant,
        Scheduler::FixedRatio => SchedulerKind::FixedRatio {
            direct: scheme.direct_share.unwrap_or(0.5),
        },
        Scheduler::Single => SchedulerKind::Single,
    }
}

/// The bound's word for a direction.
pub(super) fn direction(of: ideal::Direction) -> Direction {
    match of {
        ideal::Direction::Down => Direction::Down,
        ideal::Direction::Up => Direction::Up,
    }
}
