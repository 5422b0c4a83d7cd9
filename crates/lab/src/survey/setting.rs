//! Settings of a survey: links drawn at random or recorded, and worlds over them.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_sim::ideal::{Capacity, Hop, Path, Topology};
use mpbond_sim::link::{LinkConfig, Queue, Rate, Shared};
use mpbond_sim::world::{Fault, Happening, HelperId, Route, Scenario, TwoWay, When};
use mpbond_units::BitRate;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::player::restoring;

/// Maximum number of devices of a setting: the primary and two helpers.
pub(super) const MAX_DEVICES: u8 = 3;

/// Maximum additional delay of each link, drawn from a transfer's seed. Without it, all seeds would
/// be equal where there is neither loss nor jitter, although a single packet more or less changes
/// estimates.
const MAX_EXTRA_DELAY: Duration = Duration::from_millis(1);

/// Time over which the rate of a recorded link is averaged for the record.
const MEAN_OF: Duration = Duration::from_secs(60);

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    pub name: &'static str,
    pub down: LinkConfig,
    pub up: LinkConfig,
}

/// Links of a primary and its helpers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    /// Seed from which its links were drawn; 0 for recorded links.
    pub seed: u64,
    pub number: u32,
    /// Name of a pair of recorded links.
    pub pair: Option<String>,
    /// Options of `mpbond lab survey` that select it, with its number.
    pub options: String,
    /// Whether links lose or delay packets at random: drawn ones with odd numbers.
    pub rough: bool,
    /// PS-Path; pipe and HS-Path of each helper.
    pub links: Vec<Link>,
}

/// What carries a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Over {
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
        let mut link = LinkConfig::new(Rate::Constant(BitRate::from_mbps(mbps)))
            .with_delay(delay)
            .with_queue(Queue::Time(queue));
        if rough && loses {
            link.loss = loss;
        }
        if rough && jitters {
            link.jitter = jitter;
        }
        Link {
            name,
            down: link.clone(),
            up: link,
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
            seed,
            number,
            pair: None,
            options: format!("--seed {seed}"),
            rough,
            links: vec![
                dice.link("ps", internet, far, rough),
                dice.link("pipe", nearby, near, rough),
                dice.link("hs", internet, far, rough),
                dice.link("pipe2", nearby, near, rough),
                dice.link("hs2", internet, far, rough),
            ],
        }
    }

    /// Devices, the primary included.
    pub fn devices(&self) -> u8 {
        self.links.len().div_ceil(2) as u8
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
        let extra: Vec<_> = (self.links.iter().map(|l| (l.name, dice.unit()))).collect();
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

    /// Starts recordings at their offsets when the last exchange begins.
    pub fn restart_recordings(&self, scenario: &mut Scenario) {
        let last = scenario.exchanges.len().saturating_sub(1);
        for link in 0..scenario.links.len() {
            if self.pair.is_none() {
                break;
            }
            let both = &scenario.links[link];
            let (up, down) = (Some(restoring(&both.up)), Some(restoring(&both.down)));
            scenario.faults.push(Fault {
                when: When::AfterStart(last, Duration::ZERO),
                what: Happening::Link { link, up, down },
            });
        }
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
        let longer = |link: &LinkConfig| {
            let delay = link.delay + extra;
            link.clone().with_delay(delay)
        };
        TwoWay {
            name: self.name.to_owned(),
            up: longer(&self.up),
            down: longer(&self.down),
            shared: Shared::default(),
            bluetooth: None,
        }
    }

    fn hop(&self) -> Hop {
        Hop {
            down: Capacity::from(&self.down.rate),
            up: Capacity::from(&self.up.rate),
            delay: self.down.delay,
            shared_medium: None,
        }
    }

    fn properties(&self) -> Vec<(String, f64)> {
        let of = |what: &str, value| (format!("{}_{what}", self.name), value);
        let ms = |span: Duration| span.as_nanos() as f64 / 1e6;
        let link = &self.down;
        let mut all = vec![of("mbps", mbps(&link.rate)), of("delay_ms", ms(link.delay))];
        if self.up.rate != link.rate {
            all.push(of("up_mbps", mbps(&self.up.rate)));
        }
        if let Queue::Time(queue) = link.queue {
            all.push(of("queue_ms", ms(queue)));
        }
        if link.loss > 0.0 {
            all.push(of("loss", link.loss));
        }
        if !link.jitter.is_zero() {
            all.push(of("jitter_ms", ms(link.jitter)));
        }
        all
    }
}

/// Rate in Mbit/s, of a recorded link the mean since its offset, to three places.
fn mbps(rate: &Rate) -> f64 {
    match rate {
        Rate::Constant(rate) => rate.mbps(),
        other => {
            let bits = Capacity::from(other).bits_between(Duration::ZERO, MEAN_OF);
            (bits / MEAN_OF.as_secs_f64() / 1e3).round() / 1e3
        }
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
                assert!((low..=high).contains(&mbps(&link.down.rate)), "{link:?}");
                assert_eq!(link.down, link.up);
                let LinkConfig {
                    loss,
                    jitter,
                    delay,
                    queue,
                    ..
                } = &link.down;
                assert!(s.rough || (*loss == 0.0 && jitter.is_zero()));
                assert!(*loss <= 0.02 && *jitter <= Duration::from_millis(20));
                let delays = if nearby { 1..=30 } else { 5..=100 };
                let ms = |span: &Duration| span.as_micros().div_ceil(1000);
                assert!(delays.contains(&ms(delay)), "{link:?}");
                let Queue::Time(queue) = queue else {
                    panic!("{link:?}")
                };
                assert!((30..=400).contains(&ms(queue)), "{link:?}");
            }
        }
        // Half of the links of rough settings lose packets.
        let links = settings.iter().filter(|s| s.rough).flat_map(|s| &s.links);
        let losing = links.filter(|l| l.down.loss > 0.0).count();
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
