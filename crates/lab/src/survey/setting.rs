//! Settings of a survey: links drawn at random, and worlds over them.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_sim::ideal::{Capacity, Hop, Path, Topology};
use mpbond_sim::link::{LinkConfig, Queue, Rate};
use mpbond_sim::world::{HelperId, Route, Scenario, TwoWay};
use mpbond_units::BitRate;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Maximum number of devices of a setting: the primary and two helpers.
pub(super) const MAX_DEVICES: u8 = 3;

/// Maximum additional delay of each link, drawn from a transfer's seed. Without it, all seeds would
/// be equal where there is neither loss nor jitter, although a single packet more or less changes
/// estimates.
const MAX_EXTRA_DELAY: Duration = Duration::from_millis(1);

/// A link, the same in both directions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Link {
    pub name: &'static str,
    pub mbps: f64,
    /// One way.
    pub delay: Duration,
    /// Length of the queue.
    pub queue: Duration,
    pub loss: f64,
    /// Additional delay of a packet, at most.
    pub jitter: Duration,
}

/// Links of a primary and two helpers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub number: u32,
    /// Whether links lose or delay packets at random: those with odd numbers.
    pub rough: bool,
    /// PS-Path; pipe and HS-Path of each helper.
    pub links: [Link; 5],
}

/// What carries a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// A session over the paths of this many devices.
    Devices(u8),
    /// A session over one path: the primary's own (0), or a helper's.
    Alone(u8),
    /// Plain TCP over one path. A helper forwards its packets.
    Tcp(u8),
}

/// Random numbers of a setting.
struct Dice(ChaCha8Rng);

impl Dice {
    /// From 0 up to, but not including, 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With uniformly distributed logarithm, and three digits, as people write it.
    fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        let exact = low * (high / low).powf(self.unit());
        let text = format!("{exact:.2e}");
        text.parse().unwrap_or(exact)
    }

    fn ms(&mut self, low: f64, high: f64) -> Duration {
        Duration::from_secs_f64(self.magnitude(low, high) / 1e3)
    }

    /// A link whose rate is up to `mbps`. Both kinds of settings draw the same numbers.
    fn link(&mut self, name: &'static str, mbps: (f64, f64), ms: (f64, f64), rough: bool) -> Link {
        let mbps = self.magnitude(mbps.0, mbps.1);
        let delay = self.ms(ms.0, ms.1);
        let queue = self.ms(30.0, 400.0);
        let (loses, loss) = (self.unit() < 0.5, self.magnitude(0.000_1, 0.02));
        let (jitters, jitter) = (self.unit() < 0.5, self.ms(1.0, 20.0));
        let given = |happens: bool| rough && happens;
        Link {
            name,
            mbps,
            delay,
            queue,
            loss: if given(loses) { loss } else { 0.0 },
            jitter: if given(jitters) {
                jitter
            } else {
                Duration::ZERO
            },
        }
    }
}

impl Setting {
    /// Setting `number` of the survey with this seed.
    pub fn draw(seed: u64, number: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(number));
        let mut dice = Dice(rng);
        let rough = number % 2 == 1;
        let (internet, nearby) = ((1.0, 80.0), (2.0, 100.0));
        let (far, near) = ((5.0, 100.0), (1.0, 30.0));
        Self {
            number,
            rough,
            links: [
                dice.link("ps", internet, far, rough),
                dice.link("pipe", nearby, near, rough),
                dice.link("hs", internet, far, rough),
                dice.link("pipe2", nearby, near, rough),
                dice.link("hs2", internet, far, rough),
            ],
        }
    }

    /// The links of a path, from the primary on: 0 is its own, others are through helpers.
    fn path(&self, path: u8) -> &[Link] {
        match path {
            0 => &self.links[..1],
            1 => &self.links[1..3],
            _ => &self.links[3..],
        }
    }

    /// A world over these links without exchanges. A seed gives each link the same additional delay
    /// whatever else is in the world.
    pub fn world(&self, over: Over, seed: u64) -> Scenario {
        let paths = match over {
            Over::Devices(count) => 0..count,
            Over::Alone(path) | Over::Tcp(path) => path..path + 1,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let world_seed = rng.next_u64();
        let mut dice = Dice(rng);
        let extra = self.links.each_ref().map(|l| (l.name, dice.unit()));
        let (mut links, mut routes) = (Vec::new(), Vec::new());
        for path in paths {
            let at = links.len();
            routes.push(match (path, over) {
                (0, _) => Route::direct("own", at),
                (_, Over::Tcp(_)) => Route {
                    links: vec![at, at + 1],
                    ..Route::direct("forwarded", at)
                },
                _ => {
                    let helper = HelperId(u32::from(path) - 1);
                    Route::through(&format!("helper {path}"), helper, at, at + 1)
                }
            });
            for link in self.path(path) {
                let share = extra.iter().find(|(name, _)| *name == link.name);
                let extra = MAX_EXTRA_DELAY.mul_f64(share.map_or(0.0, |(_, share)| *share));
                links.push(link.two_way(extra));
            }
        }
        let mut scenario = Scenario::new(links, routes);
        scenario.seed = world_seed;
        scenario.has_bounds = false;
        scenario
    }

    /// The topology of these devices, for bounds.
    pub fn topology(&self, devices: u8) -> Topology {
        let path = |path| Path {
            name: format!("path {path}"),
            hops: self.path(path).iter().map(Link::hop).collect(),
        };
        Topology {
            paths: (0..devices).map(path).collect(),
            media: Vec::new(),
        }
    }

    /// Properties of the links of these devices, by name: `ps_mbps`, `hs_delay_ms` and so on.
    pub fn properties(&self, devices: u8) -> BTreeMap<String, f64> {
        let links = (0..devices).flat_map(|path| self.path(path));
        links.flat_map(Link::properties).collect()
    }
}

impl Link {
    fn two_way(&self, extra: Duration) -> TwoWay {
        let rate = Rate::Constant(BitRate::from_mbps(self.mbps));
        let mut link = LinkConfig::new(rate)
            .with_delay(self.delay + extra)
            .with_queue(Queue::Time(self.queue));
        link.loss = self.loss;
        link.jitter = self.jitter;
        TwoWay::symmetric(self.name, link)
    }

    fn hop(&self) -> Hop {
        let rate = Capacity::constant(BitRate::from_mbps(self.mbps));
        Hop {
            down: rate.clone(),
            up: rate,
            delay: self.delay,
            shared_medium: None,
        }
    }

    fn properties(&self) -> Vec<(String, f64)> {
        let of = |what: &str, value| (format!("{}_{what}", self.name), value);
        let ms = |span: Duration| span.as_nanos() as f64 / 1e6;
        let mut all = vec![
            of("mbps", self.mbps),
            of("delay_ms", ms(self.delay)),
            of("queue_ms", ms(self.queue)),
        ];
        if self.loss > 0.0 {
            all.push(of("loss", self.loss));
        }
        if !self.jitter.is_zero() {
            all.push(of("jitter_ms", ms(self.jitter)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_depends_on_seed_and_number_alone() {
        let settings: Vec<Setting> = (0..50).map(|n| Setting::draw(7, n)).collect();
        assert_eq!(settings[33], Setting::draw(7, 33));
        assert_ne!(settings[33].links, settings[32].links);
        assert_ne!(settings[33].links, Setting::draw(8, 33).links);
        for s in &settings {
            assert_eq!(s.rough, s.number % 2 == 1);
            for link in &s.links {
                let nearby = link.name.starts_with("pipe");
                let (low, high) = if nearby { (2.0, 100.0) } else { (1.0, 80.0) };
                assert!((low..=high).contains(&link.mbps), "{link:?}");
                assert!(s.rough || (link.loss == 0.0 && link.jitter.is_zero()));
                assert!(link.loss <= 0.02);
            }
        }
        // Half of the links of rough settings lose packets.
        let links = settings.iter().filter(|s| s.rough).flat_map(|s| &s.links);
        let losing = links.filter(|l| l.loss > 0.0).count();
        assert!((40..85).contains(&losing), "{losing} of 125");
    }

    #[test]
    fn a_links_extra_delay_is_the_same_in_all_worlds_of_a_seed() {
        let setting = Setting::draw(1, 4);
        let all = setting.world(Over::Devices(3), 9).links;
        let alone = setting.world(Over::Alone(2), 9);
        assert_eq!(alone.links[0].up, all[3].up);
        assert_eq!(alone.links[1].up, all[4].up);
        assert_ne!(setting.world(Over::Devices(1), 10).links[0].up, all[0].up);
        assert_eq!(alone.routes[0].helper, Some(HelperId(1)));
        let tcp = setting.world(Over::Tcp(1), 9);
        assert_eq!(
            (tcp.routes[0].helper, &tcp.routes[0].links[..]),
            (None, &[0, 1][..])
        );
    }
}
