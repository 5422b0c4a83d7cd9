//! The suite as an HTML page with pictures.

use std::fmt::Write as _;

use mpbond_plot::{Bar, BarChart, Group, PAGE_STYLE, escaped};

use super::{Suite, Value};
use crate::report::charts::table;
use crate::report::tables::Table;

/// Pictures: name, table, quantities shown as bars of one group, title and unit.
const PICTURES: &[(&str, &str, &[&str], &str, &str)] = &[
    (
        "table-1-latency",
        "Table 1",
        &["D", "P1", "P2"],
        "Duration and latencies",
        "ms",
    ),
    ("table-1-energy", "Table 1", &["energy"], "Energy", "mJ"),
    (
        "figure-3a",
        "Figure 3(a)",
        &["OS"],
        "CPU time of the operating system",
        "%",
    ),
    (
        "figure-3b",
        "Figure 3(b)",
        &["System Server", "Surface Flinger", "Clockwork"],
        "CPU time of its daemons",
        "%",
    ),
    // Those that the text names; the table has all.
    (
        "figure-3c",
        "Figure 3(c)",
        &[
            "activity manager",
            "window manager",
            "power manager",
            "choreographer",
        ],
        "CPU time of services of System Server",
        "%",
    ),
    (
        "figure-4",
        "Figure 4",
        &["top 5 functions", "top 50 functions"],
        "CPU time of the hottest functions of System Server",
        "%",
    ),
    (
        "table-2",
        "Table 2",
        &["Total"],
        "CPU time in basic data structures",
        "%",
    ),
    (
        "table-4",
        "Table 4",
        &["idle share", "explained"],
        "Idle time, and its explained share",
        "%",
    ),
    (
        "figure-5",
        "Figure 5(a)",
        &["TLP"],
        "Thread-level parallelism",
        "busy CPUs",
    ),
    (
        "figure-5-levels",
        "Figure 5(a)",
        &["c1", "c2", "c3", "c4"],
        "Time with exactly so many busy CPUs",
        "%",
    ),
    (
        "figure-5-processes",
        "Figure 5(b), (c)",
        &["TLP of the process"],
        "Thread-level parallelism of processes",
        "busy CPUs",
    ),
    (
        "figure-6-cpi",
        "Figure 6",
        &["CPI"],
        "Cycles per instruction",
        "cycles",
    ),
    (
        "figure-6-icache",
        "Figure 6",
        &["L1 icache MPKI"],
        "Misses of the instruction cache",
        "MPKI",
    ),
    (
        "figure-6-itlb",
        "Figure 6",
        &["iTLB MPKI"],
        "Misses of the instruction TLB",
        "MPKI",
    ),
    (
        "figure-6-dcache",
        "Figure 6",
        &["L1 dcache MPKI"],
        "Misses of the data cache",
        "MPKI",
    ),
    (
        "figure-6-llc",
        "Figure 6",
        &["LLC miss ratio"],
        "Misses of the last cache, of its references",
        "%",
    ),
    (
        "figure-6-branch",
        "Figure 6",
        &["branch misprediction"],
        "Branch misprediction",
        "%",
    ),
];

impl Suite {
    /// Name, fit for a file name, and SVG of every figure with data.
    pub fn pictures(&self) -> Vec<(&'static str, String)> {
        let chart = |(name, table, what, title, unit): &(_, &str, &[&str], &str, &str)| {
            let svg = self.picture(table, what, title, unit)?;
            Some((*name, svg))
        };
        PICTURES.iter().filter_map(chart).collect()
    }

    fn picture(&self, table: &str, what: &[&str], title: &str, unit: &str) -> Option<String> {
        let shown = |v: &&Value| v.table == table && what.contains(&v.what.as_str());
        let all = self.scenarios.iter().flat_map(|s| &s.values).filter(shown);
        let mut series: Vec<String> = Vec::new();
        for v in all.clone().filter(|v| v.mean.is_some_and(|m| m > 0.0)) {
            let name = series_name(v);
            if !series.contains(&name) {
                series.push(name);
            }
        }
        let groups: Vec<Group> = (self.scenarios.iter())
            .map(|s| Group {
                name: s.name.clone(),
                bars: (s.values.iter().filter(shown))
                    .filter_map(|v| bar(v, &series))
                    .collect(),
            })
            .filter(|g| !g.bars.is_empty())
            .collect();
        if groups.is_empty() {
            return None;
        }
        let chart = BarChart {
            title: format!("{title} ({table})"),
            y_label: unit.to_owned(),
            series,
            reference: "published".into(),
            groups,
        };
        Some(chart.to_svg())
    }

    /// The tables and figures as a self-contained HTML page.
    pub fn html(&self, title: &str) -> String {
        let title = escaped(title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta \
             name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>\
             {PAGE_STYLE}</style></head><body><h1>{title}</h1><p>Benchmarks of R. Liu and F. X. \
             Lin, <em>Understanding the Characteristics of Android Wear OS</em>, MobiSys ’16. \
             Published values are those of an LG Watch R; other devices differ. Values marked \
             “model” are computed from CPU time, not measured.</p>"
        );
        if !self.missing.is_empty() {
            let names = escaped(&self.missing.join(", "));
            let _ = write!(out, "<p>Without a recording: {names}.</p>");
        }
        let (claims, others): (Vec<Table>, Vec<Table>) =
            (self.tables().into_iter()).partition(|t| t.name == "claims");
        for t in claims {
            let rows = table(&t.columns, &t.rows);
            let _ = write!(out, "<h2>Statements of the paper</h2>{rows}");
        }
        out.push_str("<h2>Figures</h2>");
        for (_, svg) in self.pictures() {
            let _ = write!(out, "<div class=\"chart\">{svg}</div>");
        }
        for t in others {
            let rows = table(&t.columns, &t.rows);
            let _ = write!(out, "<h2>{}</h2>{rows}", escaped(t.name));
        }
        out + "</body></html>\n"
    }
}

fn series_name(v: &Value) -> String {
    let model = if v.model { " (model)" } else { "" };
    let of = v.of.map_or(String::new(), |of| format!("{of}, "));
    format!("{of}{}{model}", v.what)
}

fn bar(v: &Value, series: &[String]) -> Option<Bar> {
    let value = v.mean?;
    let name = series_name(v);
    Some(Bar {
        series: series.iter().position(|s| *s == name)?,
        value,
        interval: v.sd.map(|sd| ((value - sd).max(0.0), value + sd)),
        values: Vec::new(),
        reference: v.published,
    })
}
