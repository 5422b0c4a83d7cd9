//! The report as an HTML page.

use std::fmt::Write as _;

use mpbond_plot::escaped;

use super::analyses::Report;
use super::charts::{bars, line, table};
use super::timeline;
use crate::activity::Concurrency;
use crate::functions::GroupTime;
use crate::idle::{IdleCause, IdleReport};
use crate::usage::Usage;

const STYLE: &str = include_str!("../../data/report.css");
const SCRIPT: &str = include_str!("../../data/report.js");

/// Maximum number of rows of a chart or table; CSV tables and SQL queries give all of them.
const ROWS: usize = 15;

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
         content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head><body>\
         <h1>{title}</h1><ul class=\"first\">"
    );
    for f in r.findings() {
        let _ = write!(out, "<li>{}</li>", escaped(&f));
    }
    out.push_str("</ul>");
    if let Some(t) = timeline::timeline(r) {
        out.push_str(
            "<h2>Timeline</h2><p class=\"note\">Wheel: zoom. Drag: move. Double click: \
             show all. Red in the last lane: anomalous idle time.",
        );
        if !t.merged.is_empty() {
            let _ = write!(out, " {}.", escaped(&t.merged));
        }
        out.push_str("</p><canvas id=\"timeline\"></canvas><p id=\"tip\" class=\"note\"></p>");
        // Inside a script element only `<` could end the data early.
        let json = serde_json::to_string(&t).unwrap_or_default();
        let json = json.replace('<', "\\u003c");
        let _ = write!(
            out,
            "<script type=\"application/json\" id=\"timeline-data\">{json}</script>"
        );
    }
    usage(r, &mut out);
    idle(r, &mut out);
    parallelism(r, &mut out);
    if !r.net.is_empty() {
        let t = r.net_table();
        let _ = write!(
            out,
            "<h2>Packet delays in the kernel</h2>{}",
            table(&t.columns, &t.rows)
        );
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

/// Bars of a chart: label, share in percent, text.
type Bars = Vec<(String, f64, String)>;

pub(super) fn usage_bars(list: &[Usage], numbered: bool) -> Bars {
    let bar = |u: &Usage| {
        let label = if numbered {
            format!("{} ({})", u.name, u.id)
        } else {
            u.name.clone()
        };
        let text = format!("{:.1} %, {:.3} s", u.percent_of_busy, u.busy_s);
        (label, u.percent_of_busy, text)
    };
    list.iter().take(ROWS).map(bar).collect()
}

pub(super) fn cause_bars(idle: &IdleReport) -> Bars {
    let bar = |c: &IdleCause| {
        let text = format!(
            "{:.1} %, {:.3} s in {} episodes{}",
            c.percent,
            c.idle_s,
            c.episodes,
            if c.anomaly { ", anomalous" } else { "" }
        );
        (c.cause.clone(), c.percent, text)
    };
    idle.causes.iter().map(bar).collect()
}

pub(super) fn level_bars(c: &Concurrency) -> Bars {
    let bar = |i| {
        let share = 100.0 * c.share(i);
        (
            format!("c{i}: {i} CPUs busy"),
            share,
            format!("{share:.2} %"),
        )
    };
    (0..c.level_ns.len()).map(bar).collect()
}

pub(super) fn group_bars(list: &[GroupTime]) -> Bars {
    let bar = |g: &GroupTime| {
        let text = format!("{:.1} %, {:.2} ms", g.percent, g.us as f64 / 1e3);
        (g.name.clone(), g.percent, text)
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

fn usage(r: &Report, out: &mut String) {
    let Some(u) = &r.usage else { return };
    out.push_str("<h2>CPU time</h2><h3>By class (Figure 3(a))</h3>");
    out.push_str(&bars("Busy share by class", &usage_bars(&u.classes, false)));
    out.push_str("<h3>By process (Figure 3(b))</h3>");
    out.push_str(&bars(
        "Busy share by process",
        &usage_bars(&u.processes, true),
    ));
    out.push_str("<h3>By task</h3>");
    out.push_str(&bars("Busy share by task", &usage_bars(&u.tasks, true)));
    out.push_str("<h3>By CPU</h3>");
    let cpus: Vec<_> = r
        .summary
        .cpus
        .iter()
        .map(|c| {
            let text = format!("{:.2} %", c.busy_percent);
            (format!("CPU {}", c.cpu), c.busy_percent, text)
        })
        .collect();
    out.push_str(&bars("Busy share by CPU", &cpus));
    if !u.frequencies.is_empty() {
        out.push_str("<h3>By frequency</h3>");
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
        out.push_str(&table(&["CPU", "MHz", "busy s", "idle s"], &rows));
    }
}

fn idle(r: &Report, out: &mut String) {
    let Some(idle) = &r.idle else { return };
    out.push_str("<h2>Idle (Table 4)</h2>");
    out.push_str(&bars("Idle time by cause", &cause_bars(idle)));
    if idle.findings.is_empty() {
        return;
    }
    out.push_str("<h3>Anomalies</h3>");
    let rows: Vec<Vec<String>> = idle
        .findings
        .iter()
        .take(10 * ROWS)
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
    out.push_str(&table(&head, &rows));
}

fn parallelism(r: &Report, out: &mut String) {
    let Some(c) = &r.concurrency else { return };
    out.push_str("<h2>Thread-level parallelism (Figure 5)</h2>");
    out.push_str(&bars(
        "Share of time by number of busy CPUs",
        &level_bars(c),
    ));
    let points = sliding_points(c.start_ns, &r.sliding_tlp);
    out.push_str(&line(&points, false, "s", "TLP"));
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
    out.push_str("<h2>Functions</h2><h3>Hottest (Table 3)</h3>");
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
    out.push_str("<h3>Share of the hottest N functions, % (Figure 4)</h3>");
    let points = top_points(&f.top_share_curve);
    out.push_str(&line(&points, true, "N (logarithmic)", "%"));
    for (title, list) in [
        ("Services (Figure 3(c))", &f.services),
        ("Basic data structures (Table 2)", &f.packages),
    ] {
        let rows = group_bars(list);
        if !rows.is_empty() {
            let _ = write!(out, "<h3>{}</h3>{}", escaped(title), bars(title, &rows));
        }
    }
}

fn sampled(r: &Report, out: &mut String) {
    let Some(s) = &r.sampled else { return };
    let _ = write!(
        out,
        "<h2>Functions of the sampled profile</h2><p class=\"note\">{} samples{}{}.</p>",
        s.samples,
        if s.event.is_empty() { "" } else { " of " },
        escaped(&s.event)
    );
    let t = s.table();
    let shown = t.rows.get(..2 * ROWS).unwrap_or(&t.rows);
    out.push_str(&table(&t.columns, shown));
    out.push_str("<h3>Share of the hottest N functions, % (as Figure 4)</h3>");
    let points = top_points(&s.top_share_curve);
    out.push_str(&line(&points, true, "N (logarithmic)", "%"));
}

fn spans(r: &Report, out: &mut String) {
    let t = r.span_table();
    if t.rows.is_empty() {
        return;
    }
    out.push_str("<h2>Userspace slices</h2>");
    let shown = t.rows.get(..2 * ROWS).unwrap_or(&t.rows);
    out.push_str(&table(&t.columns, shown));
}

fn microarch(r: &Report, out: &mut String) {
    let any = |m: &crate::microarch::MicroarchRow| m.cpi.is_some() || !m.counts.is_empty();
    if !r.microarch.iter().any(any) {
        return;
    }
    out.push_str("<h2>Microarchitecture (Figure 6)</h2>");
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
    let _ = write!(
        out,
        "<h2>File content</h2><p>Format {}, {:.6} s, {} threads.</p>",
        escaped(&s.format),
        s.span_s,
        s.threads
    );
    let mut rows: Vec<(&String, &u64)> = s.events.iter().chain(&s.other_records).collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.1));
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .take(4 * ROWS)
        .map(|(name, n)| vec![name.clone(), n.to_string()])
        .collect();
    out.push_str(&table(&["event", "count"], &rows));
    out.push_str(
        "<p class=\"note\">Figure and table numbers are those of R. Liu and F. X. Lin, \
         <i>Understanding the Characteristics of Android Wear OS</i>, MobiSys '16.</p>",
    );
}
