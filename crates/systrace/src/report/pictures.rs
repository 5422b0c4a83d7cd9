//! Figures of the report as stand-alone SVG files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mpbond_plot::{Anchor, Axis, Key, Panel, Svg, legend};

use super::analyses::Report;
use super::charts::{Bar, bars};
use super::page;
use crate::tasks::{ClassRules, TaskClass};

/// Number of columns of the timeline, each two units wide.
const COLUMNS: u64 = 380;
const WIDTH: f64 = 860.0;
/// Left edge of the timeline's lanes.
const LEFT: f64 = 70.0;
/// Height of a lane of the timeline.
const LANE: f64 = 26.0;
/// Height of a column without idle time.
const MOST: u64 = 20;
/// Colour of stalls.
const RED: &str = "#c62f2f";

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
        let mut add_bars = |name, title, rows: Vec<Bar>| {
            if !rows.is_empty() {
                add(name, bars(title, &rows));
            }
        };
        if let Some(u) = &self.usage {
            add_bars(
                "classes",
                "Share of the CPU time by class of task",
                page::usage_bars(&u.classes, false),
            );
            add_bars(
                "processes",
                "Share of the CPU time by process",
                page::usage_bars(&u.processes, true),
            );
            add_bars(
                "tasks",
                "Share of the CPU time by task",
                page::usage_bars(&u.tasks, true),
            );
        }
        if let Some(idle) = &self.idle {
            add_bars(
                "idle-causes",
                "Share of the idle time by cause",
                page::cause_bars(idle),
            );
        }
        if let Some(c) = &self.concurrency {
            add_bars(
                "concurrency",
                "Share of the time by number of busy CPUs",
                page::level_bars(c),
            );
        }
        if let Some(f) = &self.functions {
            add_bars(
                "services",
                "Share of the time in services of the system",
                page::group_bars(&f.services),
            );
            add_bars(
                "data-structures",
                "Share of the time in basic data structures",
                page::group_bars(&f.packages),
            );
        }
        if let Some(c) = &self.concurrency {
            let points = page::sliding_points(c.start_ns, &self.sliding_tlp);
            add("sliding-tlp", page::parallelism_line(&points));
        }
        if let Some(f) = &self.functions {
            let points = page::top_points(&f.top_share_curve);
            add("top-functions", page::top_line(&points));
        }
        if let Some(s) = &self.sampled {
            let points = page::top_points(&s.top_share_curve);
            add("sampled-functions", page::top_line(&points));
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
    let title = "Tasks on each CPU over time, by class";
    let heading = svg.heading((8.0, 20.0), WIDTH - 8.0, title);
    let mut entries: Vec<(Key, String)> = COLOURS
        .iter()
        .map(|(_, name, colour)| (Key::Colour(colour), (*name).to_owned()))
        .collect();
    let stalls = stalls(r, start, end);
    if !stalls.is_empty() {
        entries.push((Key::Colour(RED), "stalls".to_owned()));
    }
    let top = legend(&mut svg, &entries, 8.0, WIDTH - 8.0, 30.0 + heading);
    let lanes = cpus.len() + usize::from(!stalls.is_empty());
    let panel = Panel::new(
        (LEFT, top),
        ((2 * COLUMNS) as f64, lanes as f64 * LANE),
        Axis::exact("time", 0.0, (end - start) as f64 / 1e9, 8.0),
        Axis::exact("", 0.0, 1.0, 1.0),
    );
    panel.draw_x(&mut svg, panel.bottom, " s");
    for (i, (cpu, lane)) in cpus.iter().enumerate() {
        let floor = top + LANE * (i as f64 + 1.0);
        let name = format!("CPU {cpu}");
        svg.text((LEFT - 8.0, floor - 6.0), Anchor::End, &name);
        svg.line((LEFT, floor), (panel.right, floor), "#98a2b3", 1.0);
        for (class, name, colour) in COLOURS {
            let mut path = String::new();
            for (c, times) in lane {
                let most = times.iter().max_by_key(|(_, ns)| **ns).map(|(c, _)| *c);
                let busy: u64 = times.values().sum();
                let width = (edge(c + 1) - edge(*c)).max(1);
                let tall = (MOST * busy).div_ceil(width).min(MOST);
                if most == Some(class) && tall > 0 {
                    let x = LEFT + 2.0 * *c as f64;
                    let _ = write!(path, "M{x} {floor:.1}v-{tall}h2v{tall}Z");
                }
            }
            svg.area(&path, colour, 1.0, name);
        }
    }
    if !stalls.is_empty() {
        let middle = panel.bottom - LANE / 2.0;
        svg.text((LEFT - 8.0, middle + 4.0), Anchor::End, "stalls");
        let mut path = String::new();
        for (from, to) in stalls {
            let (left, right) = (panel.x_of(from), panel.x_of(to));
            let width = (right - left).max(1.0);
            let y = middle - 5.0;
            let _ = write!(path, "M{left:.1} {y:.1}h{width:.1}v10h-{width:.1}Z");
        }
        svg.area(&path, RED, 1.0, "stalls");
    }
    Some(svg.inline(title, WIDTH, panel.bottom + 26.0))
}

/// Begin and end of each stall, in seconds from the start.
fn stalls(r: &Report, start: u64, end: u64) -> Vec<(f64, f64)> {
    let seconds = |ns: u64| (ns.clamp(start, end) - start) as f64 / 1e9;
    let found = r.idle.iter().flat_map(|idle| &idle.findings);
    found
        .map(|f| (seconds(f.start_ns), seconds(f.end_ns)))
        .collect()
}
