//! Worlds of an ablation, by group.

use std::time::Duration;

use mpbond_sim::rows;
use mpbond_sim::world::{Ending, Exchange, Late, Rounds, Scenario, StreamClass, When};
use mpbond_units::Size;

use super::options::AblationOptions;
use crate::experiment::{Direction, name_of};
use crate::survey::{Case, Over, Setting, SurveyStart};

/// Sizes over settings of the survey; those up to [`SMALL`] are a group of their own.
const SIZES: [u64; 3] = [64 << 10, 512 << 10, 4 << 20];
const SMALL: u64 = 128 << 10;

/// Seed of the first random world. Those of settings and of random worlds are apart.
const FIRST_WORLD: u64 = 1_001;

/// Quantity of a world that is its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gauge {
    /// Time of the last exchange.
    Transfer,
    /// Mean time of the rounds of the first exchange.
    Rounds,
    /// Sum of the times of all exchanges, and the longest gap.
    World,
}

/// A world, and what is measured in it.
#[derive(Debug)]
pub(super) struct Subject {
    pub group: String,
    /// Name for people: with it the world can be found again.
    pub name: String,
    pub gauge: Gauge,
    pub scenario: Scenario,
}

/// All worlds: transfers over settings of the survey, the rows in virtual time, messages beside a
/// download, random worlds.
pub(super) fn subjects(options: &AblationOptions) -> Vec<Subject> {
    let mut all = Vec::new();
    for &seed in &options.seed {
        for number in 0..options.settings {
            all.extend(of_setting(&Setting::draw(seed, number)));
        }
    }
    for row in rows::all() {
        for variant in 0..options.repeat {
            let mut scenario = row.scenario.clone().varied(variant);
            scenario.keeps_log = true;
            scenario.has_bounds = false;
            all.push(Subject {
                group: format!("rows {}", row.kind),
                name: format!("{} #{variant}", row.label.trim()),
                gauge: Gauge::Transfer,
                scenario,
            });
        }
    }
    for variant in 0..options.repeat {
        all.extend(messages(variant));
    }
    for seed in FIRST_WORLD..FIRST_WORLD + options.worlds {
        all.push(Subject {
            group: "worlds".to_owned(),
            name: format!("world {seed}"),
            gauge: Gauge::World,
            scenario: Scenario::random(seed),
        });
    }
    all
}

/// Transfers over a setting: both directions, all sizes. Numbers of devices and states before the
/// transfer take turns.
fn of_setting(setting: &Setting) -> Vec<Subject> {
    let mut all = Vec::new();
    for direction in [Direction::Down, Direction::Up] {
        for bytes in SIZES {
            // Smooth settings have even numbers.
            let turn = setting.number as usize / 2 + all.len();
            let case = Case {
                devices: 2 + ((turn + turn / SurveyStart::ALL.len()) % 2) as u8,
                start: SurveyStart::ALL[turn % SurveyStart::ALL.len()],
                direction,
                transfer: Size(bytes),
            };
            let mut scenario = case.add_to(setting.world(Over::Devices(case.devices), 0), false);
            scenario.has_bounds = false;
            let size = if bytes <= SMALL { "small" } else { "large" };
            let links = if setting.rough { "rough" } else { "smooth" };
            all.push(Subject {
                group: format!("{links} {} {size}", name_of(direction)),
                name: format!(
                    "seed {} setting {}: {} {} KiB, {} devices, {}",
                    setting.seed,
                    setting.number,
                    name_of(direction),
                    bytes >> 10,
                    case.devices,
                    case.start.name(),
                ),
                gauge: Gauge::Transfer,
                scenario,
            });
        }
    }
    all
}

/// Messages and keystrokes beside a download over a direct link and a helper.
fn messages(variant: u32) -> Vec<Subject> {
    let ms = Duration::from_millis;
    let (start, length) = (Duration::from_secs(4), Duration::from_secs(10));
    let mut all = Vec::new();
    for (ps, hs, pipe) in [(8.0, 30.0, 1.1), (8.0, 10.0, 5.0), (4.0, 30.0, 3.0)] {
        for (what, bytes, class, late) in [
            ("messages", 2 << 10, StreamClass::Bulk, Late::LeftOut),
            ("keys", 48, StreamClass::Interactive, Late::SentAhead),
        ] {
            let mut scenario = Scenario::bonded(ps, &[(hs, pipe)], ms(25), ms(2));
            let rounds = Rounds {
                first: ms(200),
                every: ms(200),
                length,
                late,
            };
            let mut download = Exchange::download(When::At(start), 1 << 40);
            download.client.ending = Ending::StopAt(length);
            scenario.exchanges = vec![
                Exchange {
                    by_length: true,
                    class,
                    rounds: Some(rounds),
                    ..Exchange::download(When::At(start), bytes)
                },
                download,
            ];
            scenario.has_bounds = false;
            scenario.stall_limit = length * 2;
            all.push(Subject {
                group: "messages".to_owned(),
                name: format!("{what} beside a download {ps}/{hs}/{pipe} #{variant}"),
                gauge: Gauge::Rounds,
                scenario: scenario.varied(variant),
            });
        }
    }
    all
}
