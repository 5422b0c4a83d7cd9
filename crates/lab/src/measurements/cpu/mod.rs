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

use std::time::{Duration, Instant};

use mpbond_statistics::Sample;
use mpbond_units::BitRate;
use serde::Deserialize;

use super::core_power;
use super::outcome::Outcome;
use crate::error::Result;
use crate::machine_use::{Counters, Pair, Soaker, Use, are_enough, are_undisturbed, further};
use crate::repetitions::order;
use crate::report::SheetTable;
use load::{Arrived, Place, Running, Scheme};

/// Time for which a load runs before and after it is measured; half of a shorter measurement.
const WARM: Duration = Duration::from_secs(1);
/// A short run: one repetition of this duration.
const QUICK: Duration = Duration::from_millis(500);
/// Name of the run without a load.
const NONE: &str = "none";
/// Rates of transfers.
const RATES_BPS: std::ops::RangeInclusive<u64> = 100_000..=10_000_000_000;
/// Columns of the table of loads.
const HEADER: [&str; 10] = [
    "load",
    "undisturbed",
    "use",
    "95 %",
    "all",
    "steal",
    "others",
    "Mbit/s",
    "lost, %",
    "s/GB",
];
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

/// A scheme at one rate.
struct Load<'a> {
    name: String,
    scheme: &'a Scheme,
    rate: Option<BitRate>,
}

/// A comparison at one rate, with the positions of its loads.
struct Compared {
    name: String,
    of: usize,
    with: usize,
}

/// Result of one run.
#[derive(Debug, Clone, Copy)]
struct Ran {
    used: Use,
    arrived: Option<Arrived>,
}

/// One run of each load in a repetition, and the run without a load.
struct Repetition {
    idle: Use,
    /// In the order of the loads.
    runs: Vec<Ran>,
}

impl Repetition {
    /// Whether these loads can be compared, with each other and with the idle machine.
    fn is_undisturbed(&self, loads: &[usize]) -> bool {
        let used = |load: &usize| Some(self.runs.get(*load)?.used);
        let idle = std::iter::once(Some(self.idle));
        let used: Option<Vec<Use>> = loads.iter().map(used).chain(idle).collect();
        used.is_some_and(|used| are_undisturbed(&used))
    }
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

    fn report(&self, all: &[Repetition], planned: usize, outcome: &mut Outcome) {
        let mut table = SheetTable {
            title: "Use of the whole machine, % of one processor".to_owned(),
            note:
                "use: without that of the idle machine, steal, and other processes, with the 95 % \
                   interval of the mean; all: everything but idle time; Mbit/s: of data that \
                   arrived; s/GB: processor time for 10^9 bytes"
                    .to_owned(),
            header: HEADER.map(str::to_owned).to_vec(),
            words: vec![0, 1, 3],
            ..SheetTable::default()
        };
        let idle = (all.iter()).map(|r| Ran {
            used: r.idle,
            arrived: None,
        });
        let idle: Vec<Ran> = idle.collect();
        let quiet = idle.iter().filter(|ran| are_undisturbed(&[ran.used]));
        let quiet: Vec<f64> = quiet.map(|ran| ran.used.own()).collect();
        let head = vec![NONE.to_owned(), format!("{} of {}", quiet.len(), all.len())];
        let unloaded = enough(quiet, planned);
        let key = format!("{NONE}: cpu_share");
        let mean = unloaded.as_ref().and_then(Sample::mean);
        outcome.figures.insert(key, mean);
        table.rows.push(row(head, None, &idle, None));
        for (n, load) in self.loads().iter().enumerate() {
            let runs = all.iter().filter_map(|r| Some((*r.runs.get(n)?, r.idle)));
            let runs: Vec<(Ran, Use)> = runs.collect();
            let quiet = runs
                .iter()
                .filter(|(ran, idle)| are_undisturbed(&[ran.used, *idle]));
            let quiet: Vec<(Ran, Use)> = quiet.copied().collect();
            let head = format!("{} of {}", quiet.len(), all.len());
            let used = quiet.iter().map(|(ran, idle)| ran.used.own() - idle.own());
            let used = enough(used.collect(), planned);
            let mean = used.as_ref().and_then(Sample::mean);
            // Of the runs whose use is in the mean.
            let per_gb = per_gb(mean, rate_of(quiet.iter().map(|(ran, _)| ran)));
            let runs: Vec<Ran> = runs.into_iter().map(|(ran, _)| ran).collect();
            let head = vec![load.name.clone(), head];
            table.rows.push(row(head, used.as_ref(), &runs, per_gb));
            let mut put = |figure: &str, value| {
                let key = format!("{}: {figure}", load.name);
                outcome.figures.insert(key, value);
            };
            put("cpu_share", mean);
            if load.scheme.has_rate() {
                put("per_GB_s", per_gb);
                // Other programs may delay a transfer, but its figure is right beside them.
                put("arrived_mbps", rate_of(&runs).map(|rate| rate * 8.0 / 1e6));
            }
        }
        outcome.tables.push(table);
        if !self.compares.is_empty() {
            let table = self.savings(all, planned, outcome);
            outcome.tables.push(table);
        }
    }

    fn savings(&self, all: &[Repetition], planned: usize, outcome: &mut Outcome) -> SheetTable {
        let milliwatts = self.power.as_ref().and_then(|p| p.milliwatts().ok());
        let of_power = match &self.power {
            Some(p) => format!("; mW: of a core of {} at {} MHz", p.profile, p.mhz),
            None => String::new(),
        };
        let mut table = SheetTable {
            title: "Savings, by pairs of runs of one repetition".to_owned(),
            note: format!("saving: 1 - use of the first / use of the second{of_power}"),
            header: [
                "comparison",
                "undisturbed pairs",
                "saving, %",
                "95 %",
                "saved, mW",
            ]
            .map(str::to_owned)
            .to_vec(),
            words: vec![0, 1, 3],
            ..SheetTable::default()
        };
        for compare in &self.compared() {
            let pairs = all.iter().filter_map(|r| {
                let pair = Pair {
                    of: r.runs.get(compare.of)?.used,
                    with: r.runs.get(compare.with)?.used,
                };
                let compares = are_undisturbed(&[pair.of, pair.with, r.idle]);
                compares.then(|| (pair, r.idle.own()))
            });
            let quiet: Vec<(Pair, f64)> = pairs.collect();
            // Without those pairs that have none, the mean would not be that of the others.
            let savings: Option<Vec<f64>> = quiet
                .iter()
                .map(|(pair, idle)| pair.saving(*idle))
                .collect();
            let savings = savings.and_then(|values| enough(values, planned));
            let saved = enough(quiet.iter().map(|(p, _)| p.saved()).collect(), planned);
            let share = savings.as_ref().and_then(Sample::mean);
            let saved = saved.as_ref().and_then(Sample::mean);
            let milliwatts = saved.zip(milliwatts).map(|(saved, mw)| saved * mw);
            table.rows.push(vec![
                compare.name.clone(),
                format!("{} of {}", quiet.len(), all.len()),
                cell(share.map(|s| s * 100.0)),
                interval(savings.as_ref()),
                cell(milliwatts),
            ]);
            let figures = &mut outcome.figures;
            figures.insert(format!("{}: saving_share", compare.name), share);
            figures.insert(format!("{}: saved_share", compare.name), saved);
            figures.insert(format!("{}: saved_mW", compare.name), milliwatts);
        }
        table
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

/// One run of a load, or of none.
fn run(
    soaker: &Soaker,
    load: Option<&Load<'_>>,
    length: Duration,
    place: &Place,
) -> Result<Ran, String> {
    let warm = WARM.min(length / 2);
    let running = load.map(|l| l.scheme.start(l.rate, warm + length + warm, place));
    let running = running.transpose()?;
    std::thread::sleep(warm);
    let start = Instant::now();
    let from = Counters::read(soaker, start);
    std::thread::sleep(length);
    let to = Counters::read(soaker, start);
    let arrived = running.map(Running::finish).transpose()?.flatten();
    let used = Use::between(soaker.processors(), &from, &to);
    let used = used.ok_or_else(|| "no time has passed".to_owned())?;
    Ok(Ran { used, arrived })
}

/// Mean rate at which data arrived, in bytes per second.
fn rate_of<'a>(runs: impl IntoIterator<Item = &'a Ran>) -> Option<f64> {
    let rates = runs.into_iter().filter_map(|ran| ran.arrived);
    rates.map(|a| a.bytes_per_s()).collect::<Sample>().mean()
}

/// Processor time for 10^9 bytes, in seconds.
fn per_gb(used: Option<f64>, bytes_per_s: Option<f64>) -> Option<f64> {
    let rate = bytes_per_s.filter(|rate| *rate > 0.0)?;
    Some(used? / (rate / 1e9))
}

/// The sample, if there are enough values for the planned repetitions.
fn enough(values: Vec<f64>, planned: usize) -> Option<Sample> {
    are_enough(values.len(), planned).then(|| Sample::new(values))
}

/// Cells of a load: `used` and `per_gb` of its undisturbed runs, the others of all.
fn row(
    mut cells: Vec<String>,
    used: Option<&Sample>,
    runs: &[Ran],
    per_gb: Option<f64>,
) -> Vec<String> {
    let mean = |of: fn(&Use) -> f64| {
        let sample: Sample = runs.iter().map(|ran| of(&ran.used)).collect();
        cell(sample.mean().map(|share| share * 100.0))
    };
    let own = used.and_then(Sample::mean);
    let rate = rate_of(runs);
    let lost = runs.iter().filter_map(|ran| ran.arrived);
    let lost = lost.map(|a| a.lost_share() * 100.0).collect::<Sample>();
    cells.extend([
        cell(own.map(|share| share * 100.0)),
        interval(used),
        mean(|u| u.all),
        mean(|u| u.steal),
        mean(|u| u.others),
        cell(rate.map(|rate| rate * 8.0 / 1e6)),
        cell(lost.mean()),
        cell(per_gb),
    ]);
    cells
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"))
}

/// The 95 % interval of the mean, in percent.
fn interval(sample: Option<&Sample>) -> String {
    match sample.and_then(Sample::mean_interval) {
        Some((low, high)) => format!("{:.2} to {:.2}", low * 100.0, high * 100.0),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests;
