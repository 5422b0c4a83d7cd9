//! Processor time of the whole machine, interrupts and softirqs included, that loads cost
//! ("Trimming the Smartphone Network Stack").
//!
//! In each repetition every load runs once, after a run without a load, which gives the use of the
//! idle machine. Two loads are compared within a repetition. A pair of runs between which the use
//! by other processes or the stolen time differs by more than 2 % of a processor is unfit, and
//! enters no figure.

mod account;
mod load;
mod processes;
mod soaker;

use std::time::{Duration, Instant};

use mpbond_radio::machine::CoreSample;
use mpbond_radio::{ProfileError, Profiles};
use mpbond_statistics::Sample;
use serde::Deserialize;

use super::outcome::Outcome;
use crate::error::Result;
use crate::report::SheetTable;
use account::{Counters, Pair, Use};
use load::Scheme;
use soaker::Soaker;

/// Time for which a load runs before it is measured.
const WARM: Duration = Duration::from_secs(1);
/// A short run: one repetition of this duration.
const QUICK: Duration = Duration::from_secs(1);
/// Minimum share of fit pairs for a figure.
const FIT_SHARE: f64 = 0.5;

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cpu {
    /// Duration of each run.
    seconds: u32,
    repetitions: u32,
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
    fn milliwatts(&self) -> Result<f64, ProfileError> {
        let profiles = Profiles::shipped()?;
        let cpu = profiles.cpu(&self.profile)?;
        let core = |utilisation| CoreSample {
            core: 0,
            mhz: Some(self.mhz),
            utilisation,
        };
        Ok(cpu.power_mw(&[core(1.0)]) - cpu.power_mw(&[core(0.0)]))
    }
}

/// One run of each scheme in a repetition, and the run without a load.
struct Repetition {
    idle: Use,
    runs: Vec<Use>,
}

impl Cpu {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=600).contains(&self.seconds) || !(1..=1000).contains(&self.repetitions) {
            return Err("seconds: 1 to 600; repetitions: 1 to 1000".to_owned());
        }
        if self.schemes.is_empty() {
            return Err("scheme: at least one".to_owned());
        }
        for (n, scheme) in self.schemes.iter().enumerate() {
            if let Some(why) = scheme.complaint() {
                return Err(format!("scheme \"{}\": {why}", scheme.name));
            }
            if self.position(&scheme.name) != Some(n) {
                return Err(format!("there are two schemes \"{}\"", scheme.name));
            }
        }
        for name in self.compares.iter().flat_map(|c| [&c.of, &c.with]) {
            if self.position(name).is_none() {
                return Err(format!("there is no scheme \"{name}\" to compare"));
            }
        }
        match &self.power {
            Some(power) => power.milliwatts().map(|_| ()).map_err(|e| e.to_string()),
            None => Ok(()),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.schemes.iter().position(|s| s.name == name)
    }

    /// `SCHEME: cpu_share` and, of comparisons, `NAME: saving_share` and `NAME: saved_mW`.
    pub(super) fn keys(&self) -> Vec<String> {
        let of_schemes = self
            .schemes
            .iter()
            .map(|s| format!("{}: cpu_share", s.name));
        let of_compares = self.compares.iter().flat_map(|c| {
            ["saving_share", "saved_mW"].map(|figure| format!("{}: {figure}", c.name))
        });
        of_schemes.chain(of_compares).collect()
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        match self.repeat(quick) {
            Ok(all) => self.report(&all, &mut outcome),
            Err(why) => outcome.notes.push(format!("not measured: {why}")),
        }
        Ok(outcome)
    }

    fn repeat(&self, quick: bool) -> Result<Vec<Repetition>, String> {
        let soaker = Soaker::start()?;
        let (length, count) = match quick {
            true => (QUICK, 1),
            false => (Duration::from_secs(self.seconds.into()), self.repetitions),
        };
        let once = |_| {
            let idle = run(&soaker, None, length)?;
            let runs = self.schemes.iter().map(|s| run(&soaker, Some(s), length));
            let runs = runs.collect::<Result<_, String>>()?;
            Ok(Repetition { idle, runs })
        };
        (0..count).map(once).collect()
    }

    fn report(&self, all: &[Repetition], outcome: &mut Outcome) {
        let mut table = SheetTable {
            title: "Use of the whole machine, % of one processor".to_owned(),
            note:
                "use: without that of the idle machine, steal, and other processes, with the 95 % \
                   interval of the mean; all: everything but idle time"
                    .to_owned(),
            header: ["load", "fit runs", "use", "95 %", "all", "steal", "others"]
                .map(str::to_owned)
                .to_vec(),
            words: vec![0, 1, 3],
            ..SheetTable::default()
        };
        let idle: Vec<Use> = all.iter().map(|r| r.idle).collect();
        table.rows.push(row("none", None, all.len(), &idle));
        for (n, scheme) in self.schemes.iter().enumerate() {
            let pairs = all.iter().filter_map(|r| {
                let (of, with) = (*r.runs.get(n)?, r.idle);
                Some(Pair { of, with })
            });
            let fit: Vec<Pair> = pairs.filter(Pair::is_fit).collect();
            let used = fit.iter().map(|pair| -pair.saved()).collect();
            let used = enough(used, all.len());
            let runs: Vec<Use> = all.iter().filter_map(|r| r.runs.get(n).copied()).collect();
            let mean = used.as_ref().and_then(Sample::mean);
            table
                .rows
                .push(row(&scheme.name, used.as_ref(), all.len(), &runs));
            outcome
                .figures
                .insert(format!("{}: cpu_share", scheme.name), mean);
        }
        outcome.tables.push(table);
        if !self.compares.is_empty() {
            let table = self.compared(all, outcome);
            outcome.tables.push(table);
        }
    }

    fn compared(&self, all: &[Repetition], outcome: &mut Outcome) -> SheetTable {
        let milliwatts = self.power.as_ref().and_then(|p| p.milliwatts().ok());
        let of_power = match &self.power {
            Some(p) => format!("; mW: of a core of {} at {} MHz", p.profile, p.mhz),
            None => String::new(),
        };
        let mut table = SheetTable {
            title: "Savings, by pairs of runs of one repetition".to_owned(),
            note: format!("saving: 1 - use of the first / use of the second{of_power}"),
            header: ["comparison", "fit pairs", "saving, %", "95 %", "saved, mW"]
                .map(str::to_owned)
                .to_vec(),
            words: vec![0, 1, 3],
            ..SheetTable::default()
        };
        for compare in &self.compares {
            let places = self.position(&compare.of).zip(self.position(&compare.with));
            let pairs = all.iter().filter_map(|r| {
                let (of, with) = places?;
                let pair = Pair {
                    of: *r.runs.get(of)?,
                    with: *r.runs.get(with)?,
                };
                Some((pair, r.idle.own()))
            });
            let fit: Vec<(Pair, f64)> = pairs.filter(|(pair, _)| pair.is_fit()).collect();
            let savings = fit.iter().filter_map(|(pair, idle)| pair.saving(*idle));
            let savings = enough(savings.collect(), all.len());
            let saved = enough(fit.iter().map(|(p, _)| p.saved()).collect(), all.len());
            let share = savings.as_ref().and_then(Sample::mean);
            let saved = saved.as_ref().and_then(Sample::mean);
            let milliwatts = saved.zip(milliwatts).map(|(saved, mw)| saved * mw);
            table.rows.push(vec![
                compare.name.clone(),
                format!("{} of {}", fit.len(), all.len()),
                cell(share.map(|s| s * 100.0)),
                interval(savings.as_ref()),
                cell(milliwatts),
            ]);
            let figures = &mut outcome.figures;
            figures.insert(format!("{}: saving_share", compare.name), share);
            figures.insert(format!("{}: saved_mW", compare.name), milliwatts);
        }
        table
    }
}

/// One run of a load, or of none.
fn run(soaker: &Soaker, scheme: Option<&Scheme>, length: Duration) -> Result<Use, String> {
    let running = scheme.map(Scheme::start).transpose()?;
    std::thread::sleep(WARM);
    let start = Instant::now();
    let from = Counters::read(soaker, start);
    std::thread::sleep(length);
    let to = Counters::read(soaker, start);
    drop(running);
    Use::between(soaker.processors(), &from, &to).ok_or_else(|| "no time has passed".to_owned())
}

/// The sample, if at least half of the repetitions are in it.
fn enough(values: Vec<f64>, repetitions: usize) -> Option<Sample> {
    let is_enough = !values.is_empty() && values.len() as f64 >= FIT_SHARE * repetitions as f64;
    is_enough.then(|| Sample::new(values))
}

fn row(name: &str, used: Option<&Sample>, repetitions: usize, runs: &[Use]) -> Vec<String> {
    let mean = |of: fn(&Use) -> f64| {
        let sample: Sample = runs.iter().map(of).collect();
        cell(sample.mean().map(|share| share * 100.0))
    };
    let fit = used.map_or(0, Sample::len);
    let fit = match name {
        "none" => runs.len().to_string(),
        _ => format!("{fit} of {repetitions}"),
    };
    let own = used.and_then(Sample::mean).map(|share| share * 100.0);
    vec![
        name.to_owned(),
        fit,
        cell(own),
        interval(used),
        mean(|u| u.all),
        mean(|u| u.steal),
        mean(|u| u.others),
    ]
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
