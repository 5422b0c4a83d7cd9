//! Processor time of the whole machine, interrupts and softirqs included, that loads cost
//! ("Trimming the Smartphone Network Stack").
//!
//! In each repetition every load runs once, in an order that changes, after a run without a load,
//! which gives the use of the idle machine. Two loads are compared within a repetition. Runs whose
//! use by other processes and stolen time differ by more than 2 % of a processor, or exceed 25 %,
//! are disturbed: they enter no figure of processor time, and further repetitions
//! follow (ADR 0055). So do they after a load that failed; the report has the reason.
//!
//! Transfers run at each rate of the file; comparisons of them do, too. Their names are then
//! followed by the rate.

mod kept;
mod load;
mod repetition;
mod report;

use std::collections::BTreeSet;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::Deserialize;

use super::core_power;
use super::options::Options;
use super::outcome::Outcome;
use crate::error::{Error, Result};
use crate::machine_use::{Soaker, further};
use crate::schedule::repetitions::order;
use kept::{Kept, Subject};
use load::{Place, Scheme};
use repetition::{Load, Ran, Repetition, Run, run};

/// A short run: one repetition of this duration.
const QUICK: Duration = Duration::from_millis(500);
/// Figure of the rate at which data arrived.
const ARRIVED: &str = "arrived_mbps";
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

/// Extent of a measurement.
struct Plan {
    /// Length of a run.
    length: Duration,
    repetitions: u32,
    /// Repetitions after these, where some were disturbed, at most.
    further: u32,
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
            let figures = ["cpu_share", "per_GB_s", ARRIVED];
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

    fn plan(&self, options: &Options) -> Plan {
        let (length, file) = match options.is_quick() {
            true => (QUICK, 1),
            false => (Duration::from_secs(self.seconds.into()), self.repetitions),
        };
        let repetitions = options.repetitions.unwrap_or(file);
        Plan {
            length,
            repetitions,
            further: options.further.unwrap_or(further(repetitions)),
        }
    }

    /// Figures of which a run says nothing: in a short one, the kernel's steps of 10 ms are 2 % of
    /// a processor.
    fn inexact(&self, options: &Options) -> BTreeSet<String> {
        let keys = self.keys().into_iter().filter(|_| options.is_quick());
        keys.filter(|key| !key.ends_with(ARRIVED)).collect()
    }

    /// Completes the repetitions that are kept for the experiment of this name, and reports all.
    /// `file` is the text of its file.
    ///
    /// # Errors
    /// When the file that keeps them is wrong or cannot be written.
    pub(super) fn measure(
        &self,
        experiment: &str,
        file: &str,
        options: &Options,
    ) -> Result<Outcome> {
        let plan = self.plan(options);
        let names = self.loads().into_iter().map(|load| load.name).collect();
        let subject = Subject::new(experiment, plan.length, names, file);
        let mut kept = Kept::open(subject, options.resume.as_deref())?;
        let mut outcome = Outcome {
            inexact: self.inexact(options),
            ..Outcome::default()
        };
        // Nothing is started where all have run before.
        if self.next(&plan, kept.all()).is_some() {
            match self.start() {
                Ok((soaker, place)) => self.repeat(&plan, &mut kept, |load| {
                    run(&soaker, load, plan.length, &place)
                })?,
                Err(why) => outcome.notes.push(format!("not measured: {why}")),
            }
        }
        if !kept.all().is_empty() {
            self.report(kept.all(), plan.repetitions as usize, &mut outcome);
            let (ran, planned) = (kept.all().len(), self.repetitions);
            if ran < planned as usize && !options.is_quick() {
                let note = format!("{ran} of {planned} planned repetitions");
                outcome.notes.push(note);
            }
        }
        Ok(outcome)
    }

    fn start(&self) -> Result<(Soaker, Place), String> {
        let soaker = Soaker::start()?;
        let place = Place::new(&self.schemes)?;
        Ok((soaker, place))
    }

    /// Runs the repetitions that are not kept yet, each of them by `run` for every load. A load
    /// that fails leaves the others their runs.
    fn repeat(
        &self,
        plan: &Plan,
        kept: &mut Kept,
        run: impl Fn(Option<&Load<'_>>) -> Result<Ran, String>,
    ) -> Result<()> {
        let loads = self.loads();
        let mut is_told = false;
        while let Some(number) = self.next(plan, kept.all()) {
            let idle = run(None).map_err(|why| Error::run(format!("{NONE}: {why}")))?;
            let mut runs = Vec::new();
            for position in order(loads.len(), SEED, number) {
                let load = loads.get(position);
                let ran = run(load).map_or_else(Run::Failed, Run::Ran);
                // The report has all failures, but may be hours away.
                if let (Run::Failed(why), Some(load), false) = (&ran, load, is_told) {
                    eprintln!("mpbond: {}: failed: {why}", load.name);
                    is_told = true;
                }
                runs.push((position, ran));
            }
            runs.sort_by_key(|(position, _)| *position);
            kept.add(Repetition {
                number,
                idle: idle.used,
                runs: runs.into_iter().map(|(_, ran)| ran).collect(),
            })?;
        }
        Ok(())
    }

    /// The number of the next repetition that has to run.
    fn next(&self, plan: &Plan, all: &[Repetition]) -> Option<u32> {
        let has = |number: &u32| all.iter().any(|r| r.number == *number);
        let next = (0..plan.repetitions.saturating_add(plan.further)).find(|n| !has(n))?;
        let is_planned = next < plan.repetitions;
        (is_planned || !self.lacks_none(all, plan.repetitions as usize)).then_some(next)
    }

    /// Whether each load and each comparison has `count` undisturbed repetitions. One that never
    /// ran lacks none: it would fail again.
    fn lacks_none(&self, all: &[Repetition], count: usize) -> bool {
        let loads = (0..self.loads().len()).map(|load| vec![load]);
        let compared = self.compared().into_iter().map(|c| vec![c.of, c.with]);
        let runs = |of: &[usize]| {
            of.iter()
                .all(|load| all.iter().any(|r| r.ran(*load).is_some()))
        };
        let undisturbed =
            |of: &[usize]| all.iter().filter(|r| r.is_undisturbed(of)).count() >= count;
        loads
            .chain(compared)
            .all(|of| !runs(&of) || undisturbed(&of))
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
