//! Processor time of the whole machine, interrupts and softirqs included, that loads cost
//! ("Trimming the Smartphone Network Stack").
//!
//! In each repetition every load runs once, in an order that changes, after a run without a load,
//! which gives the use of the idle machine. Two loads are compared within a repetition. Runs whose
//! use by other processes and stolen time differ by more than 2 % of a processor, or exceed 25 %,
//! are disturbed: they enter no figure of processor time, and further repetitions
//! follow (ADR 0055).
//!
//! Transfers run at each rate of the file; comparisons of them do, too. Their names are then
//! followed by the rate.

mod load;
mod repetition;
mod report;

use std::time::Duration;

use mpbond_units::BitRate;
use serde::Deserialize;

use super::core_power;
use super::outcome::Outcome;
use crate::error::Result;
use crate::machine_use::{Soaker, further};
use crate::repetitions::order;
use load::{Place, Scheme};
use repetition::{Load, Repetition, run};

/// A short run: one repetition of this duration.
const QUICK: Duration = Duration::from_millis(500);
/// Name of the run without a load.
const NONE: &str = "none";
/// Rates of transfers.
const RATES_BPS: std::ops::RangeInclusive<u64> = 100_000..=10_000_000_000;
/// Seed of the orders of loads.
const SEED: u64 = 1;

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cpu {
    /// Duration of each run.
    seconds: u32,
    repetitions: u32,
    /// Rates of transfers; as fast as possible when there are none.
    #[serde(default)]
    rates: Vec<BitRate>,
    #[serde(rename = "scheme")]
    schemes: Vec<Scheme>,
    #[serde(default, rename = "compare")]
    compares: Vec<Compare>,
    /// Processor whose power the saved use is given in.
    power: Option<Power>,
}

/// Saving of one scheme against another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    name: String,
    of: String,
    with: String,
}

/// Power of one fully used core of a profile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Power {
    /// Name of a shipped profile of a processor.
    profile: String,
    mhz: f64,
}

impl Power {
    /// Power of one core at full use, in mW.
    fn milliwatts(&self) -> Result<f64, String> {
        core_power::full_mw(&self.profile, self.mhz)
    }
}

/// A comparison at one rate, with the positions of its loads.
struct Compared {
    name: String,
    of: usize,
    with: usize,
}

impl Cpu {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=600).contains(&self.seconds) || !(1..=1000).contains(&self.repetitions) {
            return Err("seconds: 1 to 600; repetitions: 1 to 1000".to_owned());
        }
        if self.schemes.is_empty() {
            return Err("scheme: at least one".to_owned());
        }
        if self
            .rates
            .iter()
            .any(|rate| !RATES_BPS.contains(&rate.bps()))
        {
            return Err("rates: 100 kbit/s to 10 Gbit/s".to_owned());
        }
        if let Some(rate) = repeated(self.rates.iter().copied()) {
            return Err(format!("rates: {rate} is there twice"));
        }
        for (n, scheme) in self.schemes.iter().enumerate() {
            if let Some(why) = scheme.complaint() {
                return Err(format!("scheme \"{}\": {why}", scheme.name));
            }
            if scheme.name == NONE {
                return Err(format!("scheme \"{NONE}\": that is the run without a load"));
            }
            if self.position(&scheme.name) != Some(n) {
                return Err(format!("there are two schemes \"{}\"", scheme.name));
            }
        }
        // With their rates, which follow the names.
        let loads = self.loads().into_iter().map(|load| load.name);
        if let Some(name) = repeated(loads) {
            return Err(format!("there are two loads \"{name}\""));
        }
        for compare in &self.compares {
            let place = |name: &String| {
                let place = self.position(name);
                place.ok_or_else(|| format!("there is no scheme \"{name}\" to compare"))
            };
            let both = [place(&compare.of)?, place(&compare.with)?];
            let [of, with] = both.map(|n| self.schemes.get(n).is_some_and(Scheme::has_rate));
            if of != with {
                let name = &compare.name;
                return Err(format!(
                    "comparison \"{name}\": only one of the two has rates"
                ));
            }
        }
        if let Some(name) = repeated(self.compared().into_iter().map(|c| c.name)) {
            return Err(format!("there are two comparisons \"{name}\""));
        }
        match &self.power {
            Some(power) => power.milliwatts().map(|_| ()),
            None => Ok(()),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.schemes.iter().position(|s| s.name == name)
    }

    /// Rates of a scheme, and what follows its name.
    fn rates_of(&self, scheme: &Scheme) -> Vec<(Option<BitRate>, String)> {
        match scheme.has_rate() && !self.rates.is_empty() {
            true => (self.rates.iter())
                .map(|rate| (Some(*rate), format!(", {rate}")))
                .collect(),
            false => vec![(None, String::new())],
        }
    }

    fn loads(&self) -> Vec<Load<'_>> {
        let of = |scheme| {
            let rates = self.rates_of(scheme).into_iter();
            rates.map(move |(rate, suffix)| Load {
                name: format!("{}{suffix}", scheme.name),
                scheme,
                rate,
            })
        };
        self.schemes.iter().flat_map(of).collect()
    }

    fn compared(&self) -> Vec<Compared> {
        let loads = self.loads();
        let of = |compare: &Compare| {
            let position = |scheme: &str, suffix: &str| {
                let name = format!("{scheme}{suffix}");
                loads.iter().position(|load| load.name == name)
            };
            let first = self.position(&compare.of).and_then(|n| self.schemes.get(n));
            let rates = first.map(|s| self.rates_of(s)).unwrap_or_default();
            let each = rates.into_iter().filter_map(|(_, suffix)| {
                Some(Compared {
                    name: format!("{}{suffix}", compare.name),
                    of: position(&compare.of, &suffix)?,
                    with: position(&compare.with, &suffix)?,
                })
            });
            each.collect::<Vec<_>>()
        };
        self.compares.iter().flat_map(of).collect()
    }

    /// `LOAD: cpu_share`, and of transfers `LOAD: per_GB_s` and `LOAD: arrived_mbps`; of
    /// comparisons `NAME: saving_share`, `NAME: saved_share` (of one processor) and `NAME:
    /// saved_mW`. `none: cpu_share` is the use of the idle machine.
    pub(super) fn keys(&self) -> Vec<String> {
        let loads = self.loads();
        let of_loads = loads.iter().flat_map(|load| {
            let figures = ["cpu_share", "per_GB_s", "arrived_mbps"];
            let count = if load.scheme.has_rate() { 3 } else { 1 };
            let figures = figures.into_iter().take(count);
            figures.map(|figure| format!("{}: {figure}", load.name))
        });
        let compared = self.compared();
        let of_compares = compared.iter().flat_map(|c| {
            ["saving_share", "saved_share", "saved_mW"]
                .map(|figure| format!("{}: {figure}", c.name))
        });
        let idle = std::iter::once(format!("{NONE}: cpu_share"));
        idle.chain(of_loads).chain(of_compares).collect()
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        match self.repeat(quick) {
            Ok((all, planned)) => self.report(&all, planned, &mut outcome),
            Err(why) => outcome.notes.push(format!("not measured: {why}")),
        }
        Ok(outcome)
    }

    /// All repetitions, and how many of them were planned.
    fn repeat(&self, quick: bool) -> Result<(Vec<Repetition>, usize), String> {
        let soaker = Soaker::start()?;
        let (length, count) = match quick {
            true => (QUICK, 1),
            false => (Duration::from_secs(self.seconds.into()), self.repetitions),
        };
        let place = Place::new(self.schemes.iter().any(Scheme::needs_cable))?;
        let loads = self.loads();
        let once = |repetition| {
            let idle = run(&soaker, None, length, &place)?.used;
            let mut runs = Vec::new();
            for position in order(loads.len(), SEED, repetition) {
                let load = loads.get(position);
                let ran = run(&soaker, load, length, &place);
                let name = load.map_or("", |load| load.name.as_str());
                runs.push((position, ran.map_err(|why| format!("{name}: {why}"))?));
            }
            runs.sort_by_key(|(position, _)| *position);
            let runs = runs.into_iter().map(|(_, ran)| ran).collect();
            Ok::<_, String>(Repetition { idle, runs })
        };
        let mut all = Vec::new();
        for repetition in 0..count + further(count) {
            if repetition >= count && self.lacks_none(&all, count as usize) {
                break;
            }
            all.push(once(repetition)?);
        }
        Ok((all, count as usize))
    }

    /// Whether each load and each comparison has `count` undisturbed repetitions.
    fn lacks_none(&self, all: &[Repetition], count: usize) -> bool {
        let loads = (0..self.loads().len()).map(|load| vec![load]);
        let compared = self.compared().into_iter().map(|c| vec![c.of, c.with]);
        let undisturbed =
            |of: &[usize]| all.iter().filter(|r| r.is_undisturbed(of)).count() >= count;
        loads.chain(compared).all(|of| undisturbed(&of))
    }
}

/// The first value that is there twice.
fn repeated<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut seen = Vec::new();
    for value in values {
        if seen.contains(&value) {
            return Some(value);
        }
        seen.push(value);
    }
    None
}

#[cfg(test)]
mod tests;
