//! The report as an HTML page.

use std::fmt::Write as _;

use mpbond_plot::{PAGE_STYLE, escaped};

use super::analyses::Report;
use super::charts::{Across, Bar, Place, html_bars, line, table, table_with_places};
use super::timeline;
use crate::activity::Concurrency;
use crate::functions::GroupTime;
use crate::idle::{IdleCause, IdleReport};
use crate::usage::Usage;

const STYLE: &str = include_str!("../../data/report.css");
const SCRIPT: &str = include_str!("../../data/report.js");

/// Maximum number of rows of a chart or table; CSV tables and SQL queries give all of them.
const ROWS: usize = 15;

/// Elements of the timeline that its script fills.
const TOOLS: &str = "<div id=\"tools\"><input id=\"search\" type=\"search\" placeholder=\"Find a \
     task\" aria-label=\"Find a task\"><button data-action=\"previous\">previous</button><button \
     data-action=\"next\">next</button> <button data-action=\"in\" aria-label=\"zoom \
     in\">+</button><button data-action=\"out\" aria-label=\"zoom out\">−</button><button \
     data-action=\"left\" aria-label=\"move left\">←</button><button data-action=\"right\" \
     aria-label=\"move right\">→</button><button data-action=\"all\">show all</button> <span \
     id=\"found\" role=\"status\"></span></div><canvas id=\"timeline\" tabindex=\"0\" aria-label=\"What ran \
     on each CPU\"></canvas><p id=\"tip\" class=\"note\"></p><div id=\"legend\"></div>";

const TOP_FUNCTIONS: &str = "Share of all time in the N hottest functions together: where the curve \
     rises early, improving few functions helps (Figure 4).";

impl Report {
    /// The report as a self-contained HTML page: findings, the figures of the Android Wear
    /// characterization, and a zoomable timeline.
    pub fn html(&self, title: &str) -> String {
        page(self, title)
    }
}

fn page(r: &Report, title: &str) -> String {
    let title = escaped(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{PAGE_STYLE}{STYLE}</style>\
         </head><body><h1>{title}</h1><ul class=\"first\">"
    );
    for f in r.findings() {
        let _ = write!(out, "<li>{}</li>", escaped(&f));
    }
    out.push_str("</ul>");
    timeline(r, &mut out);
    usage(r, &mut out);
    idle(r, &mut out);
    parallelism(r, &mut out);
    if !r.net.is_empty() {
        let t = r.net_table();
        section(
            &mut out,
            "Packet delays in the kernel",
            "Time that packets spend in each part of this machine's network stack.",
        );
        out.push_str(&table(&t.columns, &t.rows));
    }
    functions(r, &mut out);
    sampled(r, &mut out);
    spans(r, &mut out);
    microarch(r, &mut out);
    counts(r, &mut out);
    if r.trace.window().is_some() {
        let _ = write!(out, "<script>{SCRIPT}</script>");
    }
    out.push_str("</body></html>\n");
    out
}

/// A heading and the meaning of what is below it.
fn section(out: &mut String, title: &str, note: &str) {
    let (title, note) = (escaped(title), escaped(note));
    let _ = write!(out, "<h2>{title}</h2><p class=\"note\">{note}</p>");
}

fn part(out: &mut String, title: &str, note: &str) {
    let (title, note) = (escaped(title), escaped(note));
    let _ = write!(out, "<h3>{title}</h3><p class=\"note\">{note}</p>");
}

fn chart(out: &mut String, svg: &str) {
    let _ = write!(out, "<div class=\"chart\">{svg}</div>");
}

/// Content of the timeline's last lane.
fn idle_lane(r: &Report) -> String {
    match &r.idle {
        Some(idle) if (idle.details.len() as u64) < idle.episodes => format!(
            "the {} longest of {} episodes of idle time",
            idle.details.len(),
            idle.episodes
        ),
        _ => "idle time".to_owned(),
    }
}

/// The timeline, with its buttons and the base of all times of the page.
fn timeline(r: &Report, out: &mut String) {
    let Some(t) = timeline::timeline(r) else {
        return;
    };
    let start_s = r
        .trace
        .window()
        .map_or(0.0, |(start, _)| start as f64 / 1e9);
    section(
        out,
        "Timeline",
        &format!(
            "What ran on each CPU; last lane: {}, red where the cause is an anomaly. \
             Keys: w and s zoom, a and d move, 0 shows all, / searches, Esc ends the search. \
             Dragging moves, and the wheel zooms with Ctrl. Times on this page are seconds from \
             the start of the trace, which is {start_s:.6} s on its clock; tables as CSV and \
             queries in SQL have the times of that clock. {}",
            idle_lane(r),
            t.merged
        ),
    );
    out.push_str(TOOLS);
    // Inside a script element only `<` could end the data early.
    let json = serde_json::to_string(&t).unwrap_or_default();
    let json = json.replace('<', "\\u003c");
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"timeline-data\">{json}</script>"
    );
}

/// Start and length of a part of the trace, on the clock of the page.
fn place(r: &Report, start_ns: u64, length_ns: u64) -> Place {
    let origin = r.trace.window().map_or(0, |(start, _)| start);
    (start_ns.saturating_sub(origin), length_ns)
}

pub(super) fn usage_bars(list: &[Usage], numbered: bool) -> Vec<Bar> {
    let bar = |u: &Usage| Bar {
        label: if numbered {
            format!("{} ({})", u.name, u.id)
        } else {
            u.name.clone()
        },
        percent: u.percent_of_busy,
        text: format!("{:.1} %, {:.3} s", u.percent_of_busy, u.busy_s),
        alarm: false,
    };
    list.iter().take(ROWS).map(bar).collect()
}

pub(super) fn cause_bars(idle: &IdleReport) -> Vec<Bar> {
    let bar = |c: &IdleCause| Bar {
        label: c.cause.clone(),
        percent: c.percent,
        text: format!(
            "{:.1} %, {:.3} s in {} episode{}{}",
            c.percent,
            c.idle_s,
            c.episodes,
            if c.episodes == 1 { "" } else { "s" },
            if c.anomaly { ", anomalous" } else { "" }
        ),
        alarm: c.anomaly,
    };
    idle.causes.iter().map(bar).collect()
}

pub(super) fn level_bars(c: &Concurrency) -> Vec<Bar> {
    let bar = |i| {
        let percent = 100.0 * c.share(i);
        Bar {
            label: match i {
                0 => "none".to_owned(),
                1 => "1 CPU".to_owned(),
                n => format!("{n} CPUs"),
            },
            percent,
            text: format!("{percent:.2} %"),
            alarm: false,
        }
    };
    (0..c.level_ns.len()).map(bar).collect()
}

pub(super) fn group_bars(list: &[GroupTime]) -> Vec<Bar> {
    let bar = |g: &GroupTime| Bar {
        label: g.name.clone(),
        percent: g.percent,
        text: format!("{:.1} %, {:.2} ms", g.percent, g.us as f64 / 1e3),
        alarm: false,
    };
    list.iter().filter(|g| g.us > 0).map(bar).collect()
}

pub(super) fn sliding_points(origin: u64, list: &[(u64, f64)]) -> Vec<(f64, f64)> {
    let point = |(t, tlp): &(u64, f64)| (t.saturating_sub(origin) as f64 / 1e9, *tlp);
    list.iter().map(point).collect()
}

pub(super) fn top_points(curve: &[f64]) -> Vec<(f64, f64)> {
    (1..).zip(curve).map(|(n, s)| (f64::from(n), *s)).collect()
}

pub(super) fn parallelism_line(points: &[(f64, f64)]) -> String {
    let title = "Thread-level parallelism (TLP) over time";
    line(title, points, Across::Linear("time (s)"), "TLP")
}

pub(super) fn top_line(points: &[(f64, f64)]) -> String {
    let title = "Share of all time in the N hottest functions";
    let across = Across::Logarithmic("N (logarithmic)");
    line(title, points, across, "share (%)")
}

fn usage(r: &Report, out: &mut String) {
    let Some(u) = &r.usage else { return };
    section(
        out,
        "CPU time",
        "Who used the CPUs: shares are of the time in which a CPU ran a task.",
    );
    part(
        out,
        "By class",
        "Applications, the system's daemons, and the kernel (Figure 3(a) of the study below).",
    );
    out.push_str(&html_bars(
        "CPU time by class",
        &usage_bars(&u.classes, false),
    ));
    part(
        out,
        "By process",
        "The processes that used most, with all their threads (Figure 3(b)).",
    );
    let processes = usage_bars(&u.processes, true);
    out.push_str(&html_bars("CPU time by process", &processes));
    part(
        out,
        "By task",
        "The threads that used most. The kernel keeps at most 15 characters of a thread's name.",
    );
    out.push_str(&html_bars("CPU time by task", &usage_bars(&u.tasks, true)));
    part(
        out,
        "By CPU",
        "Share of the whole trace in which each CPU was busy.",
    );
    let cpus = r.summary.cpus.iter();
    let cpus: Vec<Bar> = cpus
        .map(|c| Bar {
            label: format!("CPU {}", c.cpu),
            percent: c.busy_percent,
            text: format!("{:.2} %", c.busy_percent),
            alarm: false,
        })
        .collect();
    out.push_str(&html_bars("Busy share by CPU", &cpus));
    if !u.frequencies.is_empty() {
        part(
            out,
            "By frequency",
            "Time that each CPU spent at a frequency, busy and idle.",
        );
        let rows: Vec<Vec<String>> = u
            .frequencies
            .iter()
            .filter(|f| f.busy_s > 0.0)
            .map(|f| {
                let mhz = if f.khz == 0 {
                    "unknown".to_owned()
                } else {
                    format!("{:.0}", f64::from(f.khz) / 1e3)
                };
                vec![
                    f.cpu.to_string(),
                    mhz,
                    format!("{:.4}", f.busy_s),
                    format!("{:.4}", f.idle_s),
                ]
            })
            .collect();
        let _ = write!(
            out,
            "<details><summary>{} frequencies</summary>{}</details>",
            rows.len(),
            table(&["CPU", "MHz", "busy s", "idle s"], &rows)
        );
    }
}

fn idle(r: &Report, out: &mut String) {
    let Some(idle) = &r.idle else { return };
    section(
        out,
        "Idle time",
        "Time in which no CPU ran anything, by what the system waited for. Red: a device or a \
         server that made others wait, which is worth a look (Table 4 of the study below).",
    );
    out.push_str(&html_bars("Idle time by cause", &cause_bars(idle)));
    if idle.findings.is_empty() {
        return;
    }
    part(
        out,
        "Anomalies",
        "Threads that waited while everything stood still, longest first. The time at the right \
         shows the place in the timeline.",
    );
    let shown = idle.findings.get(..10 * ROWS).unwrap_or(&idle.findings);
    let places: Vec<Place> = shown
        .iter()
        .map(|f| place(r, f.start_ns, f.end_ns.saturating_sub(f.start_ns)))
        .collect();
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|f| {
            vec![
                f.cause.clone(),
                format!("{} ({})", f.thread_name, f.thread),
                f.process_name.clone(),
                f.server_names.join(" of "),
                f.function.clone().unwrap_or_default(),
                format!("{:.1}", f.idle_ms),
            ]
        })
        .collect();
    let head = [
        "cause",
        "thread",
        "process",
        "waits for",
        "function",
        "idle ms",
    ];
    out.push_str(&table_with_places(&head, &rows, &places));
}

fn parallelism(r: &Report, out: &mut String) {
    let Some(c) = &r.concurrency else { return };
    section(
        out,
        "CPUs busy at the same time",
        "Share of time by number of busy CPUs. Thread-level parallelism (TLP) is their mean number \
         while at least one is busy: how many cores the software can use (Figure 5 of the study \
         below).",
    );
    out.push_str(&html_bars("Busy CPUs", &level_bars(c)));
    part(
        out,
        "Over time",
        "TLP of each second, or of each part of the trace.",
    );
    let points = sliding_points(c.start_ns, &r.sliding_tlp);
    chart(out, &parallelism_line(&points));
    part(
        out,
        "By process",
        "TLP of a process: of its own threads, while any of them runs. c1, c2, …: share of that \
         time with so many of them running.",
    );
    let rows: Vec<Vec<String>> = r
        .processes
        .iter()
        .take(ROWS)
        .map(|p| {
            let shares: Vec<String> = p.share_percent.iter().map(|s| format!("{s:.1}")).collect();
            vec![
                format!("{} ({})", p.name, p.process),
                format!("{:.3}", p.tlp),
                format!("{:.3}", p.active_s),
                shares.join(" / "),
            ]
        })
        .collect();
    let head = ["process", "TLP", "active s", "c1 / c2 / … %"];
    out.push_str(&table(&head, &rows));
}

fn functions(r: &Report, out: &mut String) {
    let Some(f) = &r.functions else { return };
    section(
        out,
        "Hottest functions",
        "Exclusive: time in the function itself; inclusive: with the functions that it calls \
         (Table 3 of the study below).",
    );
    let rows: Vec<Vec<String>> = f
        .functions
        .iter()
        .take(2 * ROWS)
        .map(|f| {
            vec![
                f.name.clone(),
                f.calls.to_string(),
                format!("{:.3}", f.exclusive_us as f64 / 1e3),
                format!("{:.3}", f.inclusive_us as f64 / 1e3),
            ]
        })
        .collect();
    let head = ["function", "calls", "exclusive ms", "inclusive ms"];
    out.push_str(&table(&head, &rows));
    part(out, "Few functions or many", TOP_FUNCTIONS);
    let points = top_points(&f.top_share_curve);
    chart(out, &top_line(&points));
    for (title, note, list) in [
        (
            "By service",
            "Time in services of the system, with what they call (Figure 3(c)).",
            &f.services,
        ),
        (
            "Basic data structures",
            "Time in lists, maps, strings and the like (Table 2).",
            &f.packages,
        ),
    ] {
        let rows = group_bars(list);
        if !rows.is_empty() {
            part(out, title, note);
            out.push_str(&html_bars(title, &rows));
        }
    }
}

fn sampled(r: &Report, out: &mut String) {
    let Some(s) = &r.sampled else { return };
    section(
        out,
        "Hottest functions of the samples",
        &format!(
            "{} samples{}{}. Exclusive: the function itself ran; inclusive: or one that it calls.",
            s.samples,
            if s.event.is_empty() { "" } else { " of " },
            s.event
        ),
    );
    let t = s.table();
    let shown = t.rows.get(..2 * ROWS).unwrap_or(&t.rows);
    out.push_str(&table(&t.columns, shown));
    part(out, "Few functions or many", TOP_FUNCTIONS);
    let points = top_points(&s.top_share_curve);
    chart(out, &top_line(&points));
}

fn spans(r: &Report, out: &mut String) {
    let shown = r.spans.get(..2 * ROWS).unwrap_or(&r.spans);
    if shown.is_empty() {
        return;
    }
    section(
        out,
        "Sections marked by programs",
        "Self: without the sections inside; total: with them. The time at the right shows the \
         longest one in the timeline.",
    );
    let rows = shown.iter().map(|s| {
        vec![
            format!("{} ({})", s.process_name, s.process),
            s.name.clone(),
            s.count.to_string(),
            s.self_ms
                .map_or_else(String::new, |own| format!("{own:.3}")),
            format!("{:.3}", s.total_ms),
            format!("{:.3}", s.longest_ms),
        ]
    });
    let places = shown
        .iter()
        .map(|s| place(r, s.longest_at_ns, (s.longest_ms * 1e6) as u64));
    let head = [
        "process",
        "section",
        "count",
        "self ms",
        "total ms",
        "longest ms",
    ];
    let rows: Vec<Vec<String>> = rows.collect();
    out.push_str(&table_with_places(
        &head,
        &rows,
        &places.collect::<Vec<_>>(),
    ));
}

fn microarch(r: &Report, out: &mut String) {
    let any = |m: &crate::microarch::MicroarchRow| m.cpi.is_some() || !m.counts.is_empty();
    if !r.microarch.iter().any(any) {
        return;
    }
    section(
        out,
        "Work of the processor",
        "CPI: cycles per instruction; MPKI: misses of a cache or TLB per 1000 instructions; \
         mispredicted: share of branches (Figure 6 of the study below).",
    );
    let show = |v: Option<f64>| v.map_or_else(|| "–".to_owned(), |v| format!("{v:.2}"));
    let rows: Vec<Vec<String>> = r
        .microarch
        .iter()
        .take(ROWS)
        .map(|m| {
            let counts: Vec<String> = m.counts.iter().map(|(k, v)| format!("{k} {v}")).collect();
            vec![
                format!("{} ({})", m.name, m.id),
                show(m.cpi),
                show(m.l1i_mpki),
                show(m.l1d_mpki),
                show(m.l2_mpki),
                show(m.itlb_mpki),
                show(m.dtlb_mpki),
                show(m.branch_miss_percent),
                counts.join(", "),
            ]
        })
        .collect();
    let head = [
        "process",
        "CPI",
        "L1I MPKI",
        "L1D MPKI",
        "L2 MPKI",
        "iTLB MPKI",
        "dTLB MPKI",
        "mispredicted %",
        "counted",
    ];
    out.push_str(&table(&head, &rows));
}

fn counts(r: &Report, out: &mut String) {
    let s = &r.summary;
    let note = format!(
        "Format {}, {:.6} s, {} threads.",
        s.format, s.span_s, s.threads
    );
    section(out, "File content", &note);
    let mut rows: Vec<(&String, &u64)> = s.events.iter().chain(&s.other_records).collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.1));
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .take(4 * ROWS)
        .map(|(name, n)| vec![name.clone(), n.to_string()])
        .collect();
    out.push_str(&table(&["event", "count"], &rows));
    out.push_str(
        "<p class=\"note\">Figures and tables in brackets are those of the study that did the same on \
         watches: R. Liu and F. X. Lin, <i>Understanding the Characteristics of Android Wear \
         OS</i>, MobiSys '16.</p>",
    );
}
