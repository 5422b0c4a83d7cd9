//! Delay that a host adds to round trips (delay measurement paper, Tables 2, 3, 5 and 7, Figures 5
//! to 13): probes of a native program and of a Java runtime, through a bus that may sleep
//! and a network behind it, timed by user, kernel (as tcpdump does) and air.

mod case;
mod causes;
mod cell;
mod figures;
mod picture;
mod program;

use std::collections::BTreeMap;

use crate::error::{Doing, Result};
use crate::report::SheetTable;
use mpbond_probe::Distribution;
use serde::Deserialize;

pub(super) use self::causes::Causes;

use self::case::{Case, Program};
use self::cell::{Cell, QUICK};
use self::figures::{OF, QUANTITIES, REPORTS, TESTS, key, values};
use self::picture::{Picture, Shown};
use self::program::has_java;
use super::busy::{self, Busy, MAX_BUSY};
use super::outcome::Outcome;

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Probes {
    /// Number of probes of each case and round trip.
    probes: u32,
    /// Round-trip times of the network.
    rtts_ms: Vec<u32>,
    #[serde(rename = "case")]
    cases: Vec<Case>,
    /// Differences between cases.
    #[serde(default, rename = "compare")]
    comparisons: Vec<Comparison>,
    /// Charts of the record.
    #[serde(default)]
    pictures: Vec<Picture>,
}

/// The excess of one case over another one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Comparison {
    name: String,
    of: String,
    with: String,
}

impl Probes {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=100_000).contains(&self.probes) {
            return Err("probes: 1 to 100000".to_owned());
        }
        if self.rtts_ms.is_empty() || self.rtts_ms.iter().any(|r| *r == 0 || *r > 1000) {
            return Err("rtts_ms: some of 1 to 1000".to_owned());
        }
        if self.cases.is_empty() {
            return Err("a case at least".to_owned());
        }
        for case in &self.cases {
            case.check()?;
        }
        for c in &self.comparisons {
            let known = |name: &str| self.cases.iter().any(|case| case.name == name);
            if let Some(name) = [&c.of, &c.with].into_iter().find(|name| !known(name)) {
                return Err(format!("compare \"{}\": no case \"{name}\"", c.name));
            }
        }
        Ok(())
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let cases = self.cases.iter().map(|c| &c.name);
        let names = cases.chain(self.comparisons.iter().map(|c| &c.name));
        let mut all = Vec::new();
        for name in names {
            for rtt in &self.rtts_ms {
                for quantity in QUANTITIES {
                    all.extend(OF.map(|of| key(name, *rtt, quantity, of)));
                }
            }
        }
        for case in self.cases.iter().filter(|c| c.trials.is_some()) {
            for rtt in &self.rtts_ms {
                all.extend(TESTS.map(|test| key(&case.name, *rtt, test, "mean")));
                for report in REPORTS {
                    all.extend(OF.map(|of| key(&case.name, *rtt, report, of)));
                }
            }
        }
        all
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir().doing("cannot make a temporary folder")?;
        let java = has_java();
        let mut outcome = Outcome::default();
        let mut tables = Tables::new();
        let mut shown: Vec<Shown> = Vec::new();
        for case in &self.cases {
            if case.program != Program::Native && !java {
                let name = &case.name;
                outcome
                    .notes
                    .push(format!("{name}: not measured, there is no java here"));
                continue;
            }
            // A short run has one round trip.
            let some = |rtt: &&u32| !quick || self.rtts_ms.first() == Some(*rtt);
            for rtt in self.rtts_ms.iter().filter(some) {
                let probes = if quick {
                    // At least one test.
                    QUICK.max(case.trials.unwrap_or_default() as u32)
                } else {
                    self.probes
                };
                let before = Busy::now();
                let cell = match Cell::measure(case, *rtt, probes, folder.path()) {
                    Ok(cell) => cell,
                    Err(why) => {
                        let name = &case.name;
                        outcome
                            .notes
                            .push(format!("{name} at {rtt} ms: not measured: {why}"));
                        continue;
                    }
                };
                // On a busy machine, the time in user space includes waiting for a processor.
                let busy = busy::since(before);
                let waited = busy.is_none_or(|b| b > MAX_BUSY);
                if waited {
                    let busy = busy.unwrap_or(1.0) * 100.0;
                    outcome.notes.push(format!(
                        "{} at {rtt} ms: the machine was {busy:.0} % busy: what user space took is \
                         not judged",
                        case.name
                    ));
                }
                tables.take(case, *rtt, &cell);
                put(&mut outcome.figures, case, *rtt, &cell, waited);
                shown.push(Shown {
                    case: case.name.clone(),
                    rtt_ms: *rtt,
                    cell,
                });
            }
        }
        self.compare(&mut outcome.figures);
        outcome.tables = tables.shown();
        let pictures = self.pictures.iter().filter_map(|p| p.draw(&shown));
        outcome.pictures = pictures.collect();
        Ok(outcome)
    }

    /// Computes the differences between cases.
    fn compare(&self, figures: &mut BTreeMap<String, Option<f64>>) {
        for c in &self.comparisons {
            for rtt in &self.rtts_ms {
                for quantity in QUANTITIES {
                    for of in OF {
                        let value = |case: &str| {
                            let of = key(case, *rtt, quantity, of);
                            figures.get(&of).copied().flatten()
                        };
                        let more = value(&c.of).zip(value(&c.with)).map(|(a, b)| a - b);
                        if more.is_some() {
                            figures.insert(key(&c.name, *rtt, quantity, of), more);
                        }
                    }
                }
            }
        }
    }
}

/// Adds the figures of a cell, without times in user space when the machine was busy (`waited`).
fn put(
    figures: &mut BTreeMap<String, Option<f64>>,
    case: &Case,
    rtt_ms: u32,
    cell: &Cell,
    waited: bool,
) {
    for (quantity, d) in &cell.quantities {
        if waited && *quantity != "delta_d_k" {
            continue;
        }
        for (of, us) in OF.into_iter().zip(values(d)) {
            figures.insert(key(&case.name, rtt_ms, quantity, of), Some(us / 1e3));
        }
    }
    if let Some(tests) = cell.tests.as_ref().filter(|_| !waited) {
        for (report, d) in &tests.report {
            for (of, us) in OF.into_iter().zip(values(d)) {
                figures.insert(key(&case.name, rtt_ms, report, of), Some(us / 1e3));
            }
        }
        let means = [tests.min.mean, tests.mean.mean, tests.max.mean];
        let more = means.map(|us| us - cell.d_n.mean);
        for (test, us) in TESTS.into_iter().zip(means.into_iter().chain(more)) {
            figures.insert(key(&case.name, rtt_ms, test, "mean"), Some(us / 1e3));
        }
    }
}

/// Tables for the record.
struct Tables {
    means: SheetTable,
    boxes: SheetTable,
    ways: SheetTable,
    tests: SheetTable,
}

impl Tables {
    fn new() -> Self {
        let table = |title: &str, note: &str, more: &[&str]| SheetTable {
            title: title.to_owned(),
            note: note.to_owned(),
            header: ["case", "RTT, ms", "probes"]
                .into_iter()
                .chain(more.iter().copied())
                .map(str::to_owned)
                .collect(),
            words: vec![0],
            ..SheetTable::default()
        };
        Self {
            means: table(
                "Overheads, mean ± 95 %, ms",
                "Δd = d_u - d_n, Δd_u = d_u - d_k, Δd_k = d_k - d_n (equations 1 to 3); d_k by a \
                 capture at the host's device, d_n by one behind the bus",
                &["lost", "d_n", "Δd", "Δd_u", "Δd_k"],
            ),
            boxes: table(
                "Overheads, quartiles, ms",
                "25 %, median, 75 % (the boxes of Figures 6 to 8), and the 99th percentile of \
                 Δd_u; by stamps: with the kernel's own, which a native program asks for",
                &["Δd", "Δd_u", "Δd_u 99 %", "Δd_k", "Δd_u by stamps", "99 %"],
            ),
            ways: table(
                "Overheads going out and coming in, quartiles, ms",
                "Δd_u^o = t_k^o - t_u^o, Δd_u^i = t_u^i - t_k^i (section 5.6), and the difference \
                 of the two",
                &["out", "in", "out - in"],
            ),
            tests: table(
                "What tests report, mean ± 95 %, ms",
                "the smallest, the mean and the largest d_u of each test's trials; d_k and d_n of \
                 all trials",
                &["min", "mean", "max", "d_k", "d_n"],
            ),
        }
    }

    fn take(&mut self, case: &Case, rtt_ms: u32, cell: &Cell) {
        let named = |more: Vec<String>| {
            let n = cell.d_n.count.to_string();
            let own = [case.name.clone(), rtt_ms.to_string(), n];
            own.into_iter().chain(more).collect::<Vec<_>>()
        };
        let shown =
            |of: &str, how: fn(&Distribution) -> String| cell.get(of).map_or("-".to_owned(), how);
        let p99 = |d: &Distribution| format!("{:.3}", d.p99 / 1e3);
        self.means.rows.push(named(vec![
            cell.lost.to_string(),
            mean(&cell.d_n),
            shown("delta_d", mean),
            shown("delta_d_u", mean),
            shown("delta_d_k", mean),
        ]));
        self.boxes.rows.push(named(vec![
            shown("delta_d", quartiles),
            shown("delta_d_u", quartiles),
            shown("delta_d_u", p99),
            shown("delta_d_k", quartiles),
            shown("delta_d_u_stamps", quartiles),
            shown("delta_d_u_stamps", p99),
        ]));
        if cell.get("asymmetry").is_some() {
            let all = ["delta_d_u_out", "delta_d_u_in", "asymmetry"];
            let all = all.map(|of| shown(of, quartiles));
            self.ways.rows.push(named(all.to_vec()));
        }
        if let Some(tests) = &cell.tests {
            let all = [&tests.min, &tests.mean, &tests.max, &cell.d_k, &cell.d_n];
            self.tests.rows.push(named(all.map(mean).to_vec()));
        }
    }

    fn shown(self) -> Vec<SheetTable> {
        let all = [self.means, self.boxes, self.ways, self.tests];
        let has_rows = |t: &SheetTable| !t.rows.is_empty();
        all.into_iter().filter(has_rows).collect()
    }
}

fn mean(d: &Distribution) -> String {
    let half = d
        .mean_ci95
        .map_or(String::new(), |h| format!(" ± {:.3}", h / 1e3));
    format!("{:.3}{half}", d.mean / 1e3)
}

fn quartiles(d: &Distribution) -> String {
    let [a, b, c] = [d.p25, d.median, d.p75].map(|us| us / 1e3);
    format!("{a:.3} {b:.3} {c:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &str = "probes = 5\nrtts_ms = [20]\n[[case]]\nname = \"a\"\nprogram = \"java\"\n\
                         method = \"syn\"\ninterval = \"1s\"\ntrials = 2\n[[case]]\nname = \"b\"\n\
                         program = \"native\"\nmethod = \"icmp\"\ninterval = \"1s\"\n[[compare]]\n\
                         name = \"c\"\nof = \"a\"\nwith = \"b\"\n";

    fn probes(text: &str) -> Probes {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn cases_are_compared() {
        let p = probes(CASES);
        assert_eq!(p.check(), Ok(()));
        let keys = p.keys();
        for of in [
            "a at 20: test_min mean_ms",
            "c at 20: delta_d iqr_ms",
            "b at 20: asymmetry median_ms",
        ] {
            assert!(keys.contains(&of.to_owned()), "{of}");
        }
        let mut figures = BTreeMap::from([
            ("a at 20: delta_d mean_ms".to_owned(), Some(3.0)),
            ("b at 20: delta_d mean_ms".to_owned(), Some(2.5)),
            ("a at 20: delta_d_u mean_ms".to_owned(), Some(1.0)),
        ]);
        p.compare(&mut figures);
        assert_eq!(figures.get("c at 20: delta_d mean_ms"), Some(&Some(0.5)));
        assert_eq!(figures.get("c at 20: delta_d_u mean_ms"), None);
    }

    #[test]
    fn cases_that_cannot_be_are_refused() {
        for (from, to, words) in [
            (
                "method = \"syn\"",
                "method = \"icmp\"",
                "case \"a\": a Java",
            ),
            ("trials = 2", "trials = 1", "trials"),
            ("with = \"b\"", "with = \"x\"", "no case \"x\""),
            ("trials = 2", "hold = \"0ms\"", "hold is a time"),
            ("trials = 2", "hold_bytes = 3839", "beside `hold`"),
            (
                "trials = 2",
                "connection = \"new\"",
                "connection is of http",
            ),
            (
                "method = \"icmp\"",
                "clock = \"millis\"\nmethod = \"icmp\"",
                "a clock of its own",
            ),
        ] {
            let why = probes(&CASES.replacen(from, to, 1)).check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
