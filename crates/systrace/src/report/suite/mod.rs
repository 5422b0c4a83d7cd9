//! Tables and figures of the Android Wear characterization over recordings of its benchmarks,
//! beside the published values.

mod energy;
mod measures;
mod page;
mod published;
mod suspension;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::tables::Table;
use super::{Report, ReportOptions};
use crate::functions::mean_and_deviation;
use crate::scenario::Scenario;
use measures::Measure;
use published::{CLAIMS, Published, published};

pub use energy::{CpuPower, PowerLog, PowerSource};
pub use published::Claim;

/// Number of hot functions of each benchmark, as in Table 3.
const TOP: usize = 5;

/// Greatest distance from a value that is published as "around" a number, as a part of that number.
const AROUND: f64 = 0.25;

/// Collects the recordings of benchmarks; [`Self::finish`] makes the tables.
#[derive(Debug, Default)]
pub struct SuiteBuilder {
    runs: BTreeMap<String, BTreeMap<u32, Repetition>>,
}

/// Reason why a recording, or a part of it, was not added to a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuiteError {
    /// The repetition already has a recording of this kind; nothing was added.
    Second(&'static str),
    /// The recording has nothing for a table, or its power log cannot be used.
    Lacking(String),
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Second(kind) => write!(f, "a second {kind} of the same repetition"),
            Self::Lacking(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SuiteError {}

#[derive(Debug, Default)]
struct Repetition {
    /// Kinds of its recordings.
    kinds: BTreeSet<&'static str>,
    measures: Vec<Measure>,
    /// Calls and exclusive time, ns, of each function.
    functions: Option<BTreeMap<String, (u64, u64)>>,
}

/// Results of all benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suite {
    /// Benchmarks, in the order of Table 1, then others.
    pub scenarios: Vec<ScenarioResult>,
    /// Benchmarks of Table 1 without a recording.
    pub missing: Vec<String>,
    /// Published statements about all benchmarks, with what the recordings show.
    pub claims: Vec<ClaimResult>,
}

/// Results of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScenarioResult {
    /// Name, as in Table 1.
    pub name: String,
    /// Category, as in Table 1.
    pub category: String,
    /// Number of repetitions.
    pub repetitions: usize,
    /// Quantities, by table and figure.
    pub values: Vec<Value>,
    /// Hottest functions, and published ones (Table 3).
    pub functions: Vec<HotFunction>,
}

/// A quantity of one benchmark over its repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Value {
    /// Table or figure.
    pub table: &'static str,
    /// Name of the quantity.
    pub what: String,
    /// Process, if the quantity is that of one.
    pub of: Option<&'static str>,
    /// Unit; empty for a plain number.
    pub unit: &'static str,
    /// Mean; `None` if no repetition has the data.
    pub mean: Option<f64>,
    /// Standard deviation of a sample (n − 1).
    pub sd: Option<f64>,
    /// Number of repetitions with the quantity.
    pub repetitions: usize,
    /// Published mean, on an LG Watch R.
    pub published: Option<f64>,
    /// Whether the value comes from a power model instead of a measurement.
    pub model: bool,
}

/// A hot function, measured or published.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotFunction {
    /// Name of the function.
    pub name: String,
    /// Mean and standard deviation of the number of calls.
    pub calls: (f64, f64),
    /// Mean and standard deviation of the exclusive time, ms.
    pub exclusive_ms: (f64, f64),
    /// Whether the row is a published one.
    pub published: bool,
}

/// A published statement and what the recordings show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimResult {
    /// The statement.
    #[serde(flatten)]
    pub claim: Claim,
    /// Number of values.
    pub values: usize,
    /// Number of values within the published limits.
    pub within: usize,
    /// Smallest and greatest value.
    pub measured: Option<(f64, f64)>,
    /// Whether the statement holds; `None` without values.
    pub holds: Option<bool>,
}

impl SuiteBuilder {
    /// Adds one recording: a system trace, a method trace or a profile with hardware counters, by
    /// what it has.
    ///
    /// # Errors
    /// If the repetition has a recording of that kind; if it has nothing for a table; or if its
    /// power log cannot be aligned, in which case the other quantities are added.
    pub fn add(
        &mut self,
        (scenario, repetition): (&str, u32),
        report: Report,
        options: &ReportOptions,
        power: Option<&PowerSource>,
    ) -> Result<(), SuiteError> {
        let known = Scenario::shipped();
        let known = known.iter().find(|s| s.name == scenario);
        let continuous = known.is_some_and(|s| s.category == "sensing");
        let run = self.runs.entry(scenario.to_owned()).or_default();
        let run = run.entry(repetition).or_default();
        let counters = measures::of_counters(&report.microarch);
        let kinds = [
            ("system trace", report.usage.is_some()),
            ("method trace", report.functions.is_some()),
            ("profile with hardware counters", !counters.is_empty()),
        ];
        let kinds = kinds.into_iter().filter(|(_, has)| *has);
        let kinds: Vec<&'static str> = kinds.map(|(kind, _)| kind).collect();
        if let Some(kind) = kinds.iter().find(|kind| run.kinds.contains(**kind)) {
            return Err(SuiteError::Second(kind));
        }
        run.kinds.extend(kinds);
        let before = run.measures.len();
        if let Some(f) = &report.functions {
            run.measures.extend(measures::of_functions(f));
            let all = run.functions.get_or_insert_default();
            for f in &f.functions {
                let sum = all.entry(f.name.clone()).or_default();
                *sum = (sum.0 + f.calls, sum.1 + f.exclusive_ns);
            }
        }
        run.measures.extend(counters);
        if report.usage.is_some() {
            let rules = (&options.classes, &options.idle);
            let (list, failed) = measures::of_trace(report, continuous, rules, power);
            run.measures.extend(list);
            failed.map_or(Ok(()), |why| Err(SuiteError::Lacking(why)))?;
        }
        if run.measures.len() == before {
            let why = "no task switches, no calls and no counters of a component in it";
            return Err(SuiteError::Lacking(why.to_owned()));
        }
        Ok(())
    }

    /// Means and standard deviations of all benchmarks, beside the published values.
    pub fn finish(self) -> Suite {
        let order = Scenario::shipped();
        let place = |name: &str| order.iter().position(|s| s.name == name);
        let published = published();
        let mut names: Vec<&String> = self.runs.keys().collect();
        names.sort_by_key(|name| (place(name).unwrap_or(usize::MAX), (*name).clone()));
        let scenarios: Vec<ScenarioResult> = (names.into_iter())
            .filter_map(|name| {
                let category = place(name).and_then(|i| order.get(i));
                let category = category.map_or("", |s| &s.category);
                let runs: Vec<&Repetition> = self.runs.get(name)?.values().collect();
                let of = |p: &&Published| p.scenario == name;
                let published: Vec<&Published> = published.iter().filter(of).collect();
                Some(ScenarioResult {
                    name: name.clone(),
                    category: category.to_owned(),
                    repetitions: runs.len(),
                    values: values(&runs, &published),
                    functions: functions(&runs, &published),
                })
            })
            .collect();
        let present: BTreeSet<&str> = scenarios.iter().map(|s| s.name.as_str()).collect();
        let missing = order.iter().filter(|s| !present.contains(s.name.as_str()));
        Suite {
            missing: missing.map(|s| s.name.clone()).collect(),
            claims: CLAIMS.iter().map(|c| judged(*c, &scenarios)).collect(),
            scenarios,
        }
    }
}

fn values(runs: &[&Repetition], published: &[&Published]) -> Vec<Value> {
    let mut order: Vec<Value> = Vec::new();
    let in_tables = published.iter().filter(|p| p.table != "Table 3");
    for p in in_tables {
        order.push(Value {
            table: p.table,
            what: p.what.to_owned(),
            of: None,
            unit: p.unit,
            mean: None,
            sd: None,
            repetitions: 0,
            published: Some(p.mean),
            model: false,
        });
    }
    let same = |v: &Value, m: &Measure| v.table == m.table && v.what == m.what && v.of == m.of;
    for m in runs.iter().flat_map(|r| &r.measures) {
        if !order.iter().any(|v| same(v, m)) {
            order.push(Value {
                table: m.table,
                what: m.what.clone(),
                of: m.of,
                unit: m.unit,
                mean: None,
                sd: None,
                repetitions: 0,
                published: None,
                model: false,
            });
        }
    }
    for v in &mut order {
        // Services without time and causes without episodes have no row of their own.
        let divided = matches!(v.table, "Figure 3(c)" | "Table 4") && !v.unit.is_empty();
        let of_run = |r: &&Repetition| match r.measures.iter().find(|m| same(v, m)) {
            Some(m) => Some((m.value, m.model)),
            None if divided && r.measures.iter().any(|m| m.table == v.table) => Some((0.0, false)),
            None => None,
        };
        let found: Vec<(f64, bool)> = runs.iter().filter_map(of_run).collect();
        v.repetitions = found.len();
        v.model = found.iter().any(|m| m.1);
        if !found.is_empty() {
            let (mean, sd) = mean_and_deviation(found.iter().map(|m| m.0));
            v.mean = Some(mean);
            v.sd = (found.len() > 1).then_some(sd);
        }
    }
    order.sort_by(|a, b| a.table.cmp(b.table));
    order
}

fn functions(runs: &[&Repetition], published: &[&Published]) -> Vec<HotFunction> {
    let runs: Vec<_> = runs.iter().filter_map(|r| r.functions.as_ref()).collect();
    let names: BTreeSet<&String> = runs.iter().flat_map(|r| r.keys()).collect();
    let mut list: Vec<HotFunction> = (names.into_iter())
        .map(|name| {
            let of = |r: &&BTreeMap<String, (u64, u64)>| r.get(name).copied().unwrap_or((0, 0));
            let runs: Vec<(u64, u64)> = runs.iter().map(of).collect();
            HotFunction {
                name: name.clone(),
                calls: mean_and_deviation(runs.iter().map(|r| r.0 as f64)),
                exclusive_ms: mean_and_deviation(runs.iter().map(|r| r.1 as f64 / 1e6)),
                published: false,
            }
        })
        .collect();
    list.sort_by(|a, b| b.exclusive_ms.0.total_cmp(&a.exclusive_ms.0));
    list.truncate(TOP);
    for p in published.iter().filter(|p| p.table == "Table 3") {
        list.push(HotFunction {
            name: p.what.to_owned(),
            calls: p.calls.unwrap_or_default(),
            exclusive_ms: (p.mean, p.sd.unwrap_or(0.0)),
            published: true,
        });
    }
    list
}

fn judged(claim: Claim, scenarios: &[ScenarioResult]) -> ClaimResult {
    let values = scenarios.iter().flat_map(|s| &s.values);
    let values = values.filter(|v| v.table == claim.table && v.what == claim.what);
    let values: Vec<f64> = values.filter_map(|v| v.mean).collect();
    let within = |v: &&f64| {
        claim.at_least.is_none_or(|least| **v >= least)
            && claim.at_most.is_none_or(|most| **v <= most)
            && (claim.around).is_none_or(|value| (**v - value).abs() <= AROUND * value)
    };
    let count = values.iter().filter(within).count();
    let least = values.iter().copied().reduce(f64::min);
    let needed = if claim.most {
        values.len() / 2 + 1
    } else {
        values.len()
    };
    ClaimResult {
        claim,
        values: values.len(),
        within: count,
        measured: least.zip(values.iter().copied().reduce(f64::max)),
        holds: least.map(|_| count >= needed),
    }
}

/// A number with as many digits as its size has a use for.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

impl Claim {
    /// The published limits as text.
    pub fn limits(&self) -> String {
        let unit = if self.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", self.unit)
        };
        let most = if self.most { ", in most" } else { "" };
        if let Some(value) = self.around {
            return format!("around {value}{unit}");
        }
        match (self.at_least, self.at_most) {
            (Some(a), Some(b)) => format!("{a} to {b}{unit}{most}"),
            (Some(a), None) => format!("at least {a}{unit}{most}"),
            (None, Some(b)) => format!("at most {b}{unit}{most}"),
            (None, None) => String::new(),
        }
    }
}

impl Suite {
    /// The published statements, then one table for each of the paper's, then its hot functions.
    pub fn tables(&self) -> Vec<Table> {
        let mut list = vec![self.claim_table()];
        let values = self.scenarios.iter().flat_map(|s| &s.values);
        let names: BTreeSet<&'static str> = values.map(|v| v.table).collect();
        list.extend(names.into_iter().map(|t| self.table(t)));
        list.push(self.function_table());
        list
    }

    fn claim_table(&self) -> Table {
        let row = |c: &ClaimResult| {
            let measured = c.measured.map_or("no data".to_owned(), |(least, most)| {
                format!("{} to {}", digits(least), digits(most))
            });
            let holds = match c.holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => "",
            };
            let within = format!("{} of {}", c.within, c.values);
            let what = format!("{}: {}", c.claim.table, c.claim.what);
            vec![what, c.claim.limits(), measured, within, holds.to_owned()]
        };
        Table {
            name: "claims",
            columns: ["quantity", "published", "measured", "within", "holds"]
                .map(str::to_owned)
                .to_vec(),
            rows: self.claims.iter().map(row).collect(),
        }
    }

    /// One table or figure: a row for each benchmark and quantity.
    fn table(&self, table: &'static str) -> Table {
        let mut rows = Vec::new();
        for s in &self.scenarios {
            for v in s.values.iter().filter(|v| v.table == table) {
                let of = v.of.map_or(String::new(), |of| format!("{of}: "));
                let number = |n: Option<f64>| n.map_or("–".to_owned(), digits);
                let model = if v.model { " (model)" } else { "" };
                rows.push(vec![
                    s.name.clone(),
                    format!("{of}{}{model}", v.what),
                    number(v.mean),
                    number(v.sd),
                    number(v.published),
                    v.unit.to_owned(),
                ]);
            }
        }
        Table {
            name: table,
            columns: ["scenario", "quantity", "mean", "SD", "published", "unit"]
                .map(str::to_owned)
                .to_vec(),
            rows,
        }
    }

    fn function_table(&self) -> Table {
        let rows = self.scenarios.iter().flat_map(|s| {
            s.functions.iter().map(|f| {
                vec![
                    s.name.clone(),
                    if f.published { "published" } else { "measured" }.to_owned(),
                    f.name.clone(),
                    digits(f.calls.0),
                    digits(f.calls.1),
                    digits(f.exclusive_ms.0),
                    digits(f.exclusive_ms.1),
                ]
            })
        });
        Table {
            name: "Table 3",
            columns: [
                "scenario", "source", "function", "calls", "calls SD", "ms", "ms SD",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: rows.collect(),
        }
    }
}
