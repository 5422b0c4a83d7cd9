//! Random scenarios. A seed always gives the same one.

mod faults;

use std::time::Duration;

use mpbond_session::{FeedbackRule, HelperId, SchedulerKind, SessionConfig, StreamClass};
use mpbond_units::BitRate;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::scenario::{Ending, Exchange, Fault, Happening, Manner, Pause, Route, Scenario, TwoWay};
use super::when::When;
use crate::link::{LinkChange, LinkConfig, Queue, Rate, Shared};

/// Maximum time for which one fault leaves all routes silent or away: sessions are kept for 60 s by
/// default.
const LONGEST_BLACKOUT: Duration = Duration::from_secs(50);

/// Time for which sessions are kept where faults may last longer together: longer than any
/// combination of them, and than a primary needs to detect that an idle connection is dead.
const RESUME_FOR: Duration = Duration::from_secs(300);

/// Random numbers of a seed.
pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with probability 1/n.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn unit(&mut self) -> f64 {
        self.0.next_u32() as f64 / f64::from(u32::MAX)
    }

    /// A number with uniformly distributed logarithm.
    pub(crate) fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    pub(crate) fn ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    fn rate(&mut self) -> Rate {
        let one = |dice: &mut Self| BitRate::from_mbps(dice.magnitude(0.4, 50.0));
        if !self.once_in(3) {
            return Rate::Constant(one(self));
        }
        let mut at = Duration::ZERO;
        let steps = (0..self.between(2, 12)).map(|_| {
            let step = (at, one(self));
            at += self.ms(50, 4_000);
            step
        });
        Rate::Schedule(steps.collect())
    }

    fn link(&mut self, longest_delay_ms: u64) -> LinkConfig {
        let rate = self.rate();
        let mut link = LinkConfig::new(rate).with_delay(self.ms(1, longest_delay_ms));
        if self.once_in(2) {
            link.queue = Queue::Time(self.ms(20, 600));
        }
        if self.once_in(4) {
            link.loss = self.unit() * 0.02;
        }
        if self.once_in(4) {
            link.jitter = self.ms(0, 10);
        }
        link
    }

    fn two_way(&mut self, name: String, longest_delay_ms: u64) -> TwoWay {
        let up = self.link(longest_delay_ms);
        let mut down = self.link(longest_delay_ms);
        down.delay = up.delay;
        let shared = Shared::default();
        TwoWay {
            name,
            up,
            down,
            shared,
            bluetooth: None,
        }
    }

    fn scheduler(&mut self) -> SchedulerKind {
        match self.below(9) {
            0 => SchedulerKind::MinPad,
            1 => SchedulerKind::MinRtt,
            2 => SchedulerKind::RoundRobin,
            3 => SchedulerKind::Redundant,
            4 => SchedulerKind::FixedRatio {
                direct: self.unit(),
            },
            5 => SchedulerKind::Single,
            _ => SchedulerKind::Mpbond,
        }
    }

    fn config(&mut self) -> SessionConfig {
        let mut config = SessionConfig {
            scheduler: self.scheduler(),
            feedback: match self.below(4) {
                0 => FeedbackRule::FixedAlways,
                1 => FeedbackRule::FixedOnDemand,
                _ => FeedbackRule::HelperRadio,
            },
            ..SessionConfig::default()
        };
        if self.once_in(3) {
            config.receive_window_bytes = self.between(128 << 10, 2 << 20);
            config.initial_stream_window_bytes = config.receive_window_bytes / self.between(1, 8);
        }
        if self.once_in(3) {
            config.send_memory_bytes = self.between(128 << 10, 2 << 20);
        }
        config.reinjection.rebalance = !self.once_in(4);
        config.reinjection.hedge = config.reinjection.rebalance;
        config
    }

    fn bytes(&mut self) -> u64 {
        match self.below(8) {
            0 => self.below(3),
            _ => self.magnitude(1.0, 2e6) as u64,
        }
    }

    fn manner(&mut self, bytes_in: u64, bytes_out: u64) -> Manner {
        let mut manner = Manner::default();
        if self.once_in(6) {
            manner.pause = Some(Pause {
                after_bytes: self.below(bytes_in + 1),
                length: Some(self.ms(1, 8_000)),
            });
        }
        manner.ending = match self.below(16) {
            0 => Ending::ResetAfter(self.below(bytes_out + 1)),
            1 => Ending::StopAfter(self.below(bytes_in + 1)),
            _ => Ending::Finish,
        };
        manner
    }

    fn exchange(&mut self) -> Exchange {
        let (up_bytes, down_bytes) = match self.below(3) {
            0 => (self.bytes(), self.bytes()),
            1 => (self.bytes(), self.below(200)),
            _ => (self.below(200), self.bytes()),
        };
        let mut origin = self.manner(up_bytes, down_bytes);
        if self.once_in(20) {
            origin.ending = Ending::Refuse;
        }
        Exchange {
            start: When::At(self.ms(0, 6_000)),
            up_bytes,
            down_bytes,
            at_once: self.once_in(2),
            by_length: false,
            rounds: None,
            connection: None,
            never_beside: 0..0,
            class: if self.once_in(3) {
                StreamClass::Interactive
            } else {
                StreamClass::Bulk
            },
            chunk_ends: Vec::new(),
            client: self.manner(down_bytes, up_bytes),
            origin,
        }
    }

    fn fault(&mut self, links: usize, routes: usize) -> Vec<Fault> {
        let at = self.between(0, 12_000);
        let when = |ms| When::At(Duration::from_millis(ms));
        let one = |what| {
            vec![Fault {
                when: when(at),
                what,
            }]
        };
        let link = self.below(links as u64) as usize;
        let route = self.below(routes as u64) as usize;
        match self.below(6) {
            0 => one(Happening::Kill { route }),
            1 => one(Happening::Leave {
                route,
                length: self.ms(0, 20_000),
            }),
            2 => {
                let length = self.between(10, 30_000);
                silence(link, at, length)
            }
            3 if self.once_in(2) => {
                // Everything goes silent, and comes back.
                let length = self.between(100, LONGEST_BLACKOUT.as_millis() as u64);
                (0..links).flat_map(|l| silence(l, at, length)).collect()
            }
            4 if self.once_in(2) => {
                // Every subflow is lost, at about the same time.
                let all = (0..routes).map(|route| Fault {
                    when: when(at + self.below(200)),
                    what: Happening::Leave {
                        route,
                        length: self.ms(0, LONGEST_BLACKOUT.as_millis() as u64),
                    },
                });
                all.collect()
            }
            _ => {
                let up = Some(LinkChange::rate(self.rate()));
                let mut down = LinkChange::rate(self.rate());
                if self.once_in(3) {
                    down.delay = Some(self.ms(1, 200));
                }
                one(Happening::Link {
                    link,
                    up,
                    down: Some(down),
                })
            }
        }
    }
}

/// Time from the first of these faults until the end of the last.
fn length(faults: &[Fault]) -> Duration {
    let times = faults.iter().map(|fault| {
        let When::At(begin) = fault.when else {
            return (Duration::ZERO, Duration::ZERO);
        };
        let length = match fault.what {
            Happening::Leave { length, .. } => length,
            _ => Duration::ZERO,
        };
        (begin, begin + length)
    });
    let begin = times.clone().map(|(begin, _)| begin).min();
    let end = times.map(|(_, end)| end).max();
    end.zip(begin)
        .map_or(Duration::ZERO, |(end, begin)| end - begin)
}

/// A link goes down silently for a time.
fn silence(link: usize, at_ms: u64, length_ms: u64) -> Vec<Fault> {
    let change = |ms: u64, change: LinkChange| Fault {
        when: When::At(Duration::from_millis(ms)),
        what: Happening::Link {
            link,
            up: Some(change.clone()),
            down: Some(change),
        },
    };
    vec![
        change(at_ms, LinkChange::down()),
        change(at_ms + length_ms, LinkChange::up()),
    ]
}

impl Scenario {
    /// The mild scenario of a seed: one to four routes, direct and through helpers, of which two
    /// may be the same; links that change, lose packets and go silent; subflows that break and
    /// rejoin, also all of them for less than a session is kept; all schedulers; applications that
    /// send, receive, pause, reset, stop and refuse.
    pub fn random_mild(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut links: Vec<TwoWay> = Vec::new();
        let mut routes: Vec<Route> = Vec::new();
        let mut helpers = 0;
        for i in 0..dice.between(1, 4) {
            let through = dice.once_in(2);
            let last_hs = routes.iter().rev().find_map(|r| r.links.get(1).copied());
            let mut route = if !through {
                links.push(dice.two_way(format!("ps{i}"), 120));
                Route::direct(&format!("direct{i}"), links.len() - 1)
            } else {
                links.push(dice.two_way(format!("pipe{i}"), 12));
                let pipe = links.len() - 1;
                // A second pipe to the same helper shares its HS-Path.
                let hs = match last_hs.filter(|_| dice.once_in(3)) {
                    Some(hs) => hs,
                    None => {
                        helpers += 1;
                        links.push(dice.two_way(format!("hs{i}"), 120));
                        links.len() - 1
                    }
                };
                Route::through(&format!("helper{i}"), HelperId(helpers), pipe, hs)
            };
            route.joins_at = match dice.below(3) {
                0 => dice.ms(0, 5_000),
                _ => Duration::ZERO,
            };
            route.backup = dice.once_in(8);
            routes.push(route);
        }
        let mut world = Self::new(links, routes);
        world.seed = seed;
        world.client = dice.config();
        world.server = dice.config();
        world.relay_bound_bytes = dice.magnitude(2e5, 4e6) as u64;
        world.exchanges = (0..dice.between(1, 6)).map(|_| dice.exchange()).collect();
        if dice.once_in(10) {
            // A reader that stops for ever must not block the others.
            let mut stuck = dice.exchange();
            stuck.client.pause = Some(Pause {
                after_bytes: 0,
                length: None,
            });
            world.exchanges.push(stuck);
        }
        let mut without_routes = Duration::ZERO;
        for _ in 0..dice.below(5) {
            let faults = dice.fault(world.links.len(), world.routes.len());
            without_routes += length(&faults);
            world.faults.extend(faults);
        }
        if without_routes > LONGEST_BLACKOUT {
            // One after the other, they may leave no route for longer than sessions are kept.
            world.client.resume_for = RESUME_FOR;
            world.server.resume_for = RESUME_FOR;
        }
        world
    }
}
