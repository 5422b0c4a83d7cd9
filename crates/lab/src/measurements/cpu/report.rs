//! Tables and figures of the repetitions.

use mpbond_statistics::{Sample, ratio_of_sums};

use super::repetition::{Ran, Repetition};
use super::{ARRIVED, Cpu, NONE};
use crate::machine_use::{Use, are_enough, are_undisturbed};
use crate::measurements::outcome::Outcome;
use crate::report::{Check, SheetTable};

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

impl Cpu {
    pub(super) fn report(&self, all: &[Repetition], planned: usize, outcome: &mut Outcome) {
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
            let runs = all.iter().filter_map(|r| Some((r.ran(n)?, r.idle)));
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
                put(ARRIVED, rate_of(&runs).map(|rate| rate * 8.0 / 1e6));
            }
        }
        outcome.tables.push(table);
        self.report_failures(all, outcome);
        if !self.compares.is_empty() {
            let table = self.savings(all, planned, outcome);
            outcome.tables.push(table);
        }
    }

    /// Notes about loads that failed. One that never ran fails the row.
    fn report_failures(&self, all: &[Repetition], outcome: &mut Outcome) {
        for (n, load) in self.loads().iter().enumerate() {
            let failures = all.iter().filter_map(|r| r.failure(n));
            let failures: Vec<&str> = failures.collect();
            let Some(last) = failures.last() else {
                continue;
            };
            let (name, failed, all) = (&load.name, failures.len(), all.len());
            outcome.notes.push(format!(
                "{name}: failed in {failed} of {all} repetitions, which count as disturbed; last: \
                 {last}"
            ));
            if failed == all {
                outcome.checks.push(Check {
                    what: format!("{name}: runs"),
                    wanted: "in a repetition at least".to_owned(),
                    got: (*last).to_owned(),
                    holds: Some(false),
                });
            }
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
            note: format!(
                "saving: 1 - use of the first / use of the second, of the sums over the \
                 undisturbed pairs, with the 95 % interval of the jackknife{of_power}"
            ),
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
                let (of, with) = (r.ran(compare.of)?.used, r.ran(compare.with)?.used);
                let compares = are_undisturbed(&[of, with, r.idle]);
                compares.then(|| (of.own() - r.idle.own(), with.own() - r.idle.own()))
            });
            let quiet: Vec<(f64, f64)> = pairs.collect();
            let is_enough = are_enough(quiet.len(), planned);
            let saving = ratio_of_sums(&quiet).filter(|_| is_enough);
            let share = saving.map(|ratio| 1.0 - ratio.value);
            let of_share = saving.and_then(|ratio| ratio.interval);
            let of_share = of_share.map(|(low, high)| (1.0 - high, 1.0 - low));
            let saved = quiet.iter().map(|(of, with)| with - of).collect();
            let saved = enough(saved, planned);
            let of_saved = saved.as_ref().and_then(Sample::mean_interval);
            let saved = saved.as_ref().and_then(Sample::mean);
            let in_mw = saved.zip(milliwatts).map(|(saved, mw)| saved * mw);
            let of_mw = of_saved
                .zip(milliwatts)
                .map(|((a, b), mw)| (a * mw, b * mw));
            table.rows.push(vec![
                compare.name.clone(),
                format!("{} of {}", quiet.len(), all.len()),
                cell(share.map(|s| s * 100.0)),
                interval(of_share),
                cell(in_mw),
            ]);
            for (figure, value, interval) in [
                ("saving_share", share, of_share),
                ("saved_share", saved, of_saved),
                ("saved_mW", in_mw, of_mw),
            ] {
                let key = format!("{}: {figure}", compare.name);
                if let Some(interval) = interval {
                    outcome.intervals.insert(key.clone(), interval);
                }
                outcome.figures.insert(key, value);
            }
        }
        table
    }
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

/// Cells of a load: `used` and `per_gb` of its undisturbed runs, the others of all, but use is only
/// of those whose counters did not go back.
fn row(
    mut cells: Vec<String>,
    used: Option<&Sample>,
    runs: &[Ran],
    per_gb: Option<f64>,
) -> Vec<String> {
    let mean = |of: fn(&Use) -> f64| {
        let known = runs.iter().filter(|ran| !ran.used.went_back());
        let sample: Sample = known.map(|ran| of(&ran.used)).collect();
        cell(sample.mean().map(|share| share * 100.0))
    };
    let own = used.and_then(Sample::mean);
    let rate = rate_of(runs);
    let lost = runs.iter().filter_map(|ran| ran.arrived);
    let lost = lost.map(|a| a.lost_share() * 100.0).collect::<Sample>();
    cells.extend([
        cell(own.map(|share| share * 100.0)),
        interval(used.and_then(Sample::mean_interval)),
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

/// A 95 % interval, in percent.
fn interval(of: Option<(f64, f64)>) -> String {
    match of {
        Some((low, high)) => format!("{:.2} to {:.2}", low * 100.0, high * 100.0),
        None => "-".to_owned(),
    }
}
