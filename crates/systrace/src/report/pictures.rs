//! Figures of the report as stand-alone SVG files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mpbond_plot::{Anchor, Key, Svg, legend};

use super::analyses::Report;
use super::charts::{Bar, bars, line};
use super::page;
use crate::tasks::{ClassRules, TaskClass};

/// Columns of the timeline: two units of a picture 860 wide.
const COLUMNS: u64 = 380;

/// Of a lane of the timeline.
const LANE: u64 = 26;

impl Report {
    /// Name, fit for a file name, and SVG of every figure that the trace has the data for.
    pub fn pictures(&self, classes: &ClassRules) -> Vec<(&'static str, String)> {
        let mut list: Vec<(&'static str, String)> = Vec::new();
        let mut add = |name, svg: String| {
            if !svg.is_empty() {
                list.push((name, alone(&svg)));
            }
        };
        if let Some(svg) = timeline(self, classes) {
            add("timeline", svg);
        }
        let mut add_bars = |name, rows: Vec<Bar>| {
            if !rows.is_empty() {
                add(name, bars(name, &rows));
            }
        };
        if let Some(u) = &self.usage {
            add_bars("classes", page::usage_bars(&u.classes, false));
            add_bars("processes", page::usage_bars(&u.processes, true));
            add_bars("tasks", page::usage_bars(&u.tasks, true));
        }
        if let Some(idle) = &self.idle {
            add_bars("idle-causes", page::cause_bars(idle));
        }
        if let Some(c) = &self.concurrency {
            add_bars("concurrency", page::level_bars(c));
        }
        if let Some(f) = &self.functions {
            add_bars("services", page::group_bars(&f.services));
            add_bars("data-structures", page::group_bars(&f.packages));
        }
        if let Some(c) = &self.concurrency {
            let points = page::sliding_points(c.start_ns, &self.sliding_tlp);
            add("sliding-tlp", line(&points, false, "s", "TLP"));
        }
        if let Some(f) = &self.functions {
            let points = page::top_points(&f.top_share_curve);
            add("top-functions", line(&points, true, "N (logarithmic)", "%"));
        }
        if let Some(s) = &self.sampled {
            let points = page::top_points(&s.top_share_curve);
            add(
                "sampled-functions",
                line(&points, true, "N (logarithmic)", "%"),
            );
        }
        list
    }
}

/// A chart of the page as a file of its own.
fn alone(svg: &str) -> String {
    svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
}

/// A lane a CPU: how much of each column it was busy, in the colour of the class that ran most;
/// below, idle of all CPUs.
fn timeline(r: &Report, rules: &ClassRules) -> Option<String> {
    let (start, end) = r.trace.window().filter(|(start, end)| end > start)?;
    let column = |ns: u64| {
        (u128::from(ns - start) * u128::from(COLUMNS)).div_euclid(u128::from(end - start)) as u64
    };
    let edge =
        |c: u64| start + ((u128::from(end - start) * u128::from(c)) / u128::from(COLUMNS)) as u64;
    let mut cpus: BTreeMap<u32, BTreeMap<u64, BTreeMap<TaskClass, u64>>> = BTreeMap::new();
    let mut spread = |cpu: u32, from: u64, to: u64, class: TaskClass| {
        let lane = cpus.entry(cpu).or_default();
        for c in column(from)..=column(to.saturating_sub(1).max(from)).min(COLUMNS - 1) {
            let part = to.min(edge(c + 1)).saturating_sub(from.max(edge(c)));
            *lane.entry(c).or_default().entry(class).or_default() += part;
        }
    };
    for run in &r.runs {
        if run.task != 0 {
            spread(
                run.cpu,
                run.start,
                run.end,
                r.trace.tasks.class(run.task, rules),
            );
        }
    }
    const COLOURS: [(TaskClass, &str, &str); 4] = [
        (TaskClass::App, "apps", "#d9822b"),
        (TaskClass::Daemon, "daemons", "#3b6fb6"),
        (TaskClass::Kernel, "kernel", "#6b7a90"),
        (TaskClass::Unknown, "unknown", "#b9a4d6"),
    ];
    let mut svg = Svg::new();
    for (i, (cpu, lane)) in cpus.iter().enumerate() {
        let floor = (LANE * (i as u64 + 1)) as f64;
        svg.text((8.0, floor - 6.0), Anchor::Start, &format!("CPU {cpu}"));
        svg.line((70.0, floor), (830.0, floor), "#98a2b3", 1.0);
        for (class, name, colour) in COLOURS {
            let mut path = String::new();
            for (c, times) in lane {
                let most = times.iter().max_by_key(|(_, ns)| **ns).map(|(c, _)| *c);
                let busy: u64 = times.values().sum();
                let width = (edge(c + 1) - edge(*c)).max(1);
                let tall = ((LANE - 6) * busy).div_ceil(width).min(LANE - 6);
                if most == Some(class) && tall > 0 {
                    let _ = write!(path, "M{} {floor}v-{tall}h2v{tall}Z", 70 + 2 * c);
                }
            }
            svg.area(&path, colour, 1.0, name);
        }
    }
    let base = (LANE * cpus.len() as u64) as f64;
    let mut stalls = String::new();
    for f in r.idle.iter().flat_map(|idle| &idle.findings) {
        let from = column(f.start_ns.clamp(start, end));
        let to = column(f.end_ns.clamp(start, end)).max(from + 1);
        let width = 2 * (to - from);
        let _ = write!(
            stalls,
            "M{} {}h{width}v10h-{width}Z",
            70 + 2 * from,
            base + 7.0
        );
    }
    if !stalls.is_empty() {
        svg.text((8.0, base + 16.0), Anchor::Start, "stalls");
        svg.area(&stalls, "#c62f2f", 1.0, "stalls");
    }
    let length = format!("{:.3} s", (end - start) as f64 / 1e9);
    svg.text((70.0, base + 34.0), Anchor::Start, "0 s");
    svg.text((830.0, base + 34.0), Anchor::End, &length);
    let entries = COLOURS.map(|(_, name, colour)| (Key::Colour(colour), name.to_owned()));
    let below = legend(&mut svg, &entries, 250.0, 760.0, base + 22.0);
    Some(svg.inline("CPUs over time", 860.0, below))
}
