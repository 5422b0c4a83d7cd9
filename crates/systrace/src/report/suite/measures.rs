//! Quantities of one repetition of a benchmark, as the Android Wear characterization defines them.

use super::energy::{Energy, energy_of};
use super::suspension::suspensions;
use crate::idle::{IdleReport, IdleRules};
use crate::microarch::MicroarchRow;
use crate::report::{FunctionReport, Report};
use crate::tasks::{ClassRules, TaskClass};
use crate::trace::Trace;
use crate::usage::{CpuUsage, ProcessParallelism, Run};

use super::PowerSource;

/// Pause of all apps and daemons after which a burst of activity has ended, ns. The steps of one
/// benchmark follow each other faster; a recording begins and ends with longer pauses.
const PAUSE_NS: u64 = 1_000_000_000;

/// Processes of the operating system whose shares the paper gives, by part of their name.
const COMPONENTS: &[(&str, &[&str])] = &[
    ("System Server", &["system_server"]),
    ("Surface Flinger", &["surfaceflinger"]),
    ("Clockwork", &["clockwork", "wearable.app"]),
];

/// Cause of the wait of the shell for the end of the audio input, as in `data/idle_rules.toml`.
const HAND_OVER: &str = "voice UI hand-over";

/// One quantity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measure {
    pub table: &'static str,
    pub what: String,
    /// Process, if the quantity is that of one.
    pub of: Option<&'static str>,
    pub unit: &'static str,
    pub value: f64,
    /// Whether the value comes from a power model instead of a measurement.
    pub model: bool,
}

fn measure(table: &'static str, what: &str, unit: &'static str, value: f64) -> Measure {
    Measure {
        table,
        what: what.to_owned(),
        of: None,
        unit,
        value,
        model: false,
    }
}

fn component(process: &str) -> Option<&'static str> {
    let of = |parts: &[&str]| parts.iter().any(|p| process.contains(p));
    let found = COMPONENTS.iter().find(|(_, parts)| of(parts));
    found.map(|(name, _)| *name)
}

/// Quantities of a system trace: Tables 1 and 4, Figures 3(a), 3(b) and 5, section 5.2.1. Those of
/// a benchmark that is not continuous are of its burst of activity, except for suspending: the
/// kernel suspends after the burst.
pub(super) fn of_trace(
    mut report: Report,
    continuous: bool,
    (classes, rules): (&ClassRules, &IdleRules),
    power: Option<&PowerSource>,
) -> (Vec<Measure>, Option<String>) {
    let trace = &mut report.trace;
    let mut list = of_suspending(trace, &report.runs);
    if !continuous && let Some((from, to)) = burst(trace, &report.runs, classes) {
        trace.switches.retain(|s| from <= s.ns && s.ns <= to);
    }
    let trace = &report.trace;
    let runs = trace.runs();
    let mut failed = None;
    let Some((start, end)) = trace.window() else {
        return (list, failed);
    };
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut waited = None;
    match launch(trace, &runs) {
        Some((touch, begin, shown)) => {
            list.push(measure("Table 1", "P1", "ms", ms(begin - touch)));
            list.push(measure("Table 1", "P2", "ms", ms(shown - begin)));
            waited = Some(ms(shown - touch));
        }
        None if !continuous => list.push(measure("Table 1", "D", "ms", ms(end - start))),
        None => {}
    }
    match power.map(|p| energy_of(trace, &runs, p)) {
        Some(Ok(Energy { mj, mw, model })) => {
            let (what, unit, value) = if continuous {
                ("power", "mW", mw)
            } else {
                ("energy", "mJ", mj)
            };
            let row = measure("Table 1", what, unit, value);
            list.push(Measure { model, ..row });
        }
        Some(Err(e)) => failed = Some(e),
        None => {}
    }
    if let Some(usage) = CpuUsage::of(trace, &runs, classes) {
        list.push(measure("Table 1", "tasks", "", usage.tasks.len() as f64));
        let of_os = |c: TaskClass| matches!(c, TaskClass::Kernel | TaskClass::Daemon);
        let os = usage.classes.iter().filter(|c| of_os(c.class));
        let os = os.fold(0.0, |sum, c| sum + c.percent_of_busy);
        list.push(measure("Figure 3(a)", "OS", "%", os));
        for (name, _) in COMPONENTS {
            let own = (usage.processes.iter()).filter(|p| component(&p.name) == Some(name));
            // The sum of an empty list of floats is -0.
            let share = own.fold(0.0, |sum, p| sum + p.percent_of_busy);
            list.push(measure("Figure 3(b)", name, "%", share));
        }
    }
    if let Some(idle) = IdleReport::of(trace, &runs, rules) {
        list.push(measure("Table 4", "idle", "ms", idle.idle_s * 1e3));
        list.push(measure("Table 4", "idle share", "%", idle.idle_percent));
        list.push(measure("Table 4", "episodes", "", idle.episodes as f64));
        list.push(measure("Table 4", "explained", "%", idle.explained_percent));
        for cause in &idle.causes {
            let row = measure("Table 4", &cause.cause, "ms", cause.idle_s * 1e3);
            if let Some(ms) = waited.filter(|_| cause.cause == HAND_OVER) {
                let share = 100.0 * row.value / ms;
                list.push(measure("Table 4", "voice UI share of P1 + P2", "%", share));
            }
            list.push(row);
        }
        let waits = idle.findings.iter().filter(|f| f.cause == HAND_OVER);
        if let Some(ns) = waits.map(|f| f.end_ns.saturating_sub(f.start_ns)).max() {
            list.push(measure("Section 5.2.1", HAND_OVER, "ms", ms(ns)));
        }
    }
    if let Some(c) = trace.concurrency() {
        if let Some(tlp) = c.tlp() {
            list.push(measure("Figure 5(a)", "TLP", "", tlp));
        }
        for i in 1..c.level_ns.len() {
            list.push(measure(
                "Figure 5(a)",
                &format!("c{i}"),
                "%",
                100.0 * c.share(i),
            ));
        }
    }
    for p in ProcessParallelism::of(trace, &runs) {
        if let Some(of) = component(&p.name) {
            let row = measure("Figure 5(b), (c)", "TLP of the process", "", p.tlp);
            let of = Some(of);
            list.push(Measure { of, ..row });
        }
    }
    (list, failed)
}

/// Mean duration of the suspending actions, and of the idle time in them.
fn of_suspending(trace: &Trace, runs: &[Run]) -> Vec<Measure> {
    let found = suspensions(trace, runs);
    if found.is_empty() {
        return Vec::new();
    }
    let mean = |ns: u64| ns as f64 / 1e6 / found.len() as f64;
    [
        ("suspending", found.iter().map(|s| s.ns).sum()),
        ("idle in suspending", found.iter().map(|s| s.idle_ns).sum()),
    ]
    .map(|(what, ns)| measure("Section 5.2.1", what, "ms", mean(ns)))
    .to_vec()
}

/// Quantities of a method trace of System Server: Table 2, Figures 3(c) and 4.
pub(super) fn of_functions(f: &FunctionReport) -> Vec<Measure> {
    let mut list = Vec::new();
    for s in f.services.iter().filter(|s| s.us > 0) {
        list.push(measure("Figure 3(c)", &s.name, "%", s.percent));
    }
    let curve = &f.top_share_curve;
    let share = |n: usize| curve.get(n - 1).or(curve.last()).copied();
    list.push(measure(
        "Figure 4",
        "functions",
        "",
        f.functions.len() as f64,
    ));
    for n in [5, 50] {
        let what = format!("top {n} functions");
        list.extend(share(n).map(|s| measure("Figure 4", &what, "%", s)));
    }
    let total = f.packages.iter().fold(0.0, |sum, p| sum + p.percent);
    for p in &f.packages {
        list.push(measure("Table 2", &p.name, "%", p.percent));
    }
    list.push(measure("Table 2", "Total", "%", total));
    let light = (f.functions.iter()).filter(|f| f.name.contains("setLightLocked"));
    let light: u64 = light.map(|f| f.inclusive_ns).max().unwrap_or(0);
    if light > 0 {
        list.push(measure(
            "Section 5.1.4",
            "setLightLocked",
            "ms",
            light as f64 / 1e6,
        ));
    }
    list
}

/// Ratios of hardware events: Figure 6.
pub(super) fn of_counters(rows: &[MicroarchRow]) -> Vec<Measure> {
    let mut list = Vec::new();
    for row in rows {
        let Some(of) = component(&row.name) else {
            continue;
        };
        for (what, unit, value) in [
            ("CPI", "", row.cpi),
            ("L1 icache MPKI", "", row.l1i_mpki),
            ("iTLB MPKI", "", row.itlb_mpki),
            ("L1 dcache MPKI", "", row.l1d_mpki),
            ("LLC miss ratio", "%", row.l2_miss_percent),
            ("branch misprediction", "%", row.branch_miss_percent),
        ] {
            let of = Some(of);
            list.extend(value.map(|v| Measure {
                of,
                ..measure("Figure 6", what, unit, v)
            }));
        }
    }
    list
}

/// The burst of activity with most CPU time of apps and daemons, ns.
fn burst(trace: &Trace, runs: &[Run], classes: &ClassRules) -> Option<(u64, u64)> {
    let works = |r: &&Run| r.task != 0 && trace.tasks.class(r.task, classes) != TaskClass::Kernel;
    let mut best: Option<(u64, (u64, u64))> = None;
    let mut now: Option<(u64, (u64, u64))> = None;
    for r in runs.iter().filter(works) {
        let ns = r.end - r.start;
        now = Some(match now {
            Some((busy, (from, to))) if r.start <= to.saturating_add(PAUSE_NS) => {
                (busy + ns, (from, to.max(r.end)))
            }
            _ => (ns, (r.start, r.end)),
        });
        best = best.max(now);
    }
    best.map(|b| b.1)
}

/// Times of the touch, of the launch that follows it, and of the display of the app, ns.
fn launch(trace: &Trace, runs: &[Run]) -> Option<(u64, u64, u64)> {
    let (start, end) = trace.window()?;
    let slice = (trace.async_slices.iter())
        .filter(|s| s.start >= start && s.end <= end)
        .find(|s| trace.strings.get(s.name).starts_with("launching"))?;
    let input = runs.iter().filter(|r| r.start <= slice.start);
    let touch = (input.rev())
        .find(|r| trace.tasks.name(r.task).starts_with("InputReader"))
        .map(|r| r.start)?;
    // A touch is down and up: the reader runs for each within a tap.
    let earlier = runs.iter().rev().filter(|r| r.start <= touch);
    let first = earlier
        .filter(|r| trace.tasks.name(r.task).starts_with("InputReader"))
        .take_while(|r| touch - r.start < 300_000_000)
        .last()
        .map_or(touch, |r| r.start);
    Some((first, slice.start, slice.end))
}
