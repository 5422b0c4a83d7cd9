//! Tables of the report, as aligned text and as CSV.

use std::fmt::Write as _;

use serde::Serialize;

use super::analyses::{FunctionReport, Report};
use crate::error::one_line;
use crate::functions::FunctionStatistics;
use crate::microarch::MicroarchRow;
use crate::net_path::NetStep;
use crate::sampled::{SampledFunctionStatistics, SampledFunctions};
use crate::usage::Usage;

/// A table of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Short name, usable as a file name.
    pub name: &'static str,
    /// Column headings, with units.
    pub columns: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The table as text with aligned columns: at most `most_rows` rows, and the number of rows
    /// left out. Control characters of names are replaced, for a terminal.
    pub fn text(&self, most_rows: usize) -> String {
        let shown: Vec<Vec<String>> = (self.rows.iter().take(most_rows))
            .map(|row| row.iter().map(|cell| one_line(cell)).collect())
            .collect();
        let width = |i: usize| {
            let cells = shown.iter().filter_map(|r| r.get(i));
            let head = self.columns.get(i).map_or(0, |c| c.chars().count());
            cells.map(|c| c.chars().count()).fold(head, usize::max)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = format!("{}\n", self.name);
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::from(" ");
            for (cell, width) in cells.zip(&widths) {
                let numeric =
                    cell.starts_with(|c: char| c.is_ascii_digit()) && cell.parse::<f64>().is_ok();
                let _ = if numeric {
                    write!(text, " {cell:>width$}")
                } else {
                    write!(text, " {cell:<width$}")
                };
            }
            out.push_str(text.trim_end());
            out.push('\n');
        };
        line(&mut self.columns.iter().map(String::as_str));
        for row in &shown {
            line(&mut row.iter().map(String::as_str));
        }
        let left = self.rows.len() - shown.len();
        if left > 0 {
            let _ = writeln!(out, "  ({left} more rows)");
        }
        out
    }

    /// The table as CSV (RFC 4180), with a header line.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            for (i, cell) in cells.enumerate() {
                if i > 0 {
                    out.push(',');
                }
                if cell.contains([',', '"', '\n', '\r']) {
                    let _ = write!(out, "\"{}\"", cell.replace('"', "\"\""));
                } else {
                    out.push_str(cell);
                }
            }
            out.push_str("\r\n");
        };
        line(&mut self.columns.iter().map(String::as_str));
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str));
        }
        out
    }
}

impl Report {
    /// All tables for which the trace has data.
    pub fn tables(&self) -> Vec<Table> {
        let mut list = vec![self.event_table(), self.cpu_table()];
        if let Some(u) = &self.usage {
            list.push(usage_table("classes", &u.classes));
            list.push(usage_table("processes", &u.processes));
            list.push(usage_table("tasks", &u.tasks));
            list.push(self.frequency_table());
        }
        list.extend(self.parallelism_tables());
        list.extend(self.idle_tables());
        list.push(self.net_table());
        list.extend(self.functions.iter().flat_map(FunctionReport::tables));
        list.extend(self.sampled.iter().map(SampledFunctions::table));
        list.push(self.span_table());
        list.push(microarch_table(
            "microarchitecture",
            "process",
            &self.microarch,
        ));
        list.push(microarch_table(
            "microarchitecture-tasks",
            "task",
            &self.microarch_tasks,
        ));
        list.retain(|t| !t.rows.is_empty());
        list
    }

    fn event_table(&self) -> Table {
        let mut rows: Vec<_> = self.summary.events.iter().collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.1));
        let rows = rows.iter().map(|(n, c)| vec![(*n).clone(), c.to_string()]);
        table("events", &["event", "count"], rows.collect())
    }

    fn cpu_table(&self) -> Table {
        let row =
            |c: &crate::summary::CpuBusy| vec![c.cpu.to_string(), format!("{:.2}", c.busy_percent)];
        let rows = self.summary.cpus.iter().map(row).collect();
        table("cpus", &["cpu", "busy %"], rows)
    }

    fn frequency_table(&self) -> Table {
        let list = self.usage.iter().flat_map(|u| &u.frequencies);
        let rows = list.map(|f| {
            vec![
                f.cpu.to_string(),
                f.khz.to_string(),
                format!("{:.6}", f.busy_s),
                format!("{:.6}", f.idle_s),
            ]
        });
        table(
            "frequencies",
            &["cpu", "kHz", "busy s", "idle s"],
            rows.collect(),
        )
    }

    fn parallelism_tables(&self) -> Vec<Table> {
        let levels = self.concurrency.iter().flat_map(|c| {
            (0..c.level_ns.len()).map(|i| vec![i.to_string(), format!("{:.3}", 100.0 * c.share(i))])
        });
        let processes = self.processes.iter().map(|p| {
            let shares: Vec<String> = p.share_percent.iter().map(|s| format!("{s:.2}")).collect();
            vec![
                p.process.to_string(),
                p.name.clone(),
                format!("{:.4}", p.tlp),
                format!("{:.6}", p.active_s),
                shares.join(" "),
            ]
        });
        let sliding = self
            .sliding_tlp
            .iter()
            .map(|(ns, tlp)| vec![format!("{:.6}", *ns as f64 / 1e9), format!("{tlp:.4}")]);
        vec![
            table("concurrency", &["busy CPUs", "time %"], levels.collect()),
            table(
                "process-tlp",
                &["process", "name", "TLP", "active s", "c1 c2 … %"],
                processes.collect(),
            ),
            table("sliding-tlp", &["start s", "TLP"], sliding.collect()),
        ]
    }

    fn idle_tables(&self) -> Vec<Table> {
        let Some(idle) = &self.idle else {
            return Vec::new();
        };
        let causes = idle.causes.iter().map(|c| {
            vec![
                c.cause.clone(),
                c.episodes.to_string(),
                format!("{:.6}", c.idle_s),
                format!("{:.2}", c.percent),
                c.anomaly.to_string(),
            ]
        });
        let findings = idle.findings.iter().map(|f| {
            vec![
                f.cause.clone(),
                f.process_name.clone(),
                format!("{} ({})", f.thread_name, f.thread),
                f.server_names.join(" of "),
                f.function.clone().unwrap_or_default(),
                format!("{:.6}", f.start_ns as f64 / 1e9),
                format!("{:.3}", f.idle_ms),
            ]
        });
        vec![
            table(
                "idle-causes",
                &["cause", "episodes", "idle s", "of idle %", "anomaly"],
                causes.collect(),
            ),
            table(
                "idle-findings",
                &[
                    "cause",
                    "process",
                    "thread",
                    "waits for",
                    "function",
                    "start s",
                    "idle ms",
                ],
                findings.collect(),
            ),
        ]
    }

    fn span_table(&self) -> Table {
        let rows = self.spans.iter().map(|s| {
            vec![
                format!("{} ({})", s.process_name, s.process),
                s.name.clone(),
                s.count.to_string(),
                s.self_ms
                    .map_or_else(String::new, |own| format!("{own:.3}")),
                format!("{:.3}", s.total_ms),
                format!("{:.3}", s.longest_ms),
                format!("{:.6}", s.longest_at_ns as f64 / 1e9),
            ]
        });
        table(
            "spans",
            &[
                "process",
                "span",
                "count",
                "self ms",
                "total ms",
                "longest ms",
                "longest at s",
            ],
            rows.collect(),
        )
    }

    pub(super) fn net_table(&self) -> Table {
        let rows = self.net.iter().map(|d| {
            let name = match d.step {
                NetStep::Queue => "out: queue",
                NetStep::DriverOut => "out: driver",
                NetStep::DriverIn => "in: driver",
                NetStep::Stack => "in: stack",
                NetStep::RunQueue => "in: wake-up to run",
                NetStep::Copy => "in: run to copy",
            };
            let mut row = vec![name.to_owned(), d.packets.to_string()];
            let figures = [d.mean_us, d.median_us, d.p99_us, d.max_us, d.percent];
            row.extend(figures.iter().map(|f| format!("{f:.1}")));
            row
        });
        table(
            "network",
            &[
                "section",
                "packets",
                "mean µs",
                "median µs",
                "p99 µs",
                "max µs",
                "of path %",
            ],
            rows.collect(),
        )
    }
}

impl FunctionReport {
    /// Columns of Table 3 for one trace, Figure 3(c) and Table 2 of the Android Wear
    /// characterization.
    pub fn tables(&self) -> Vec<Table> {
        let rows = self.functions.iter().map(|f| {
            vec![
                f.name.clone(),
                f.calls.to_string(),
                f.exclusive_us.to_string(),
                f.inclusive_us.to_string(),
            ]
        });
        let group = |name, list: &[crate::functions::GroupTime]| {
            let rows = list.iter().filter(|g| g.us > 0).map(|g| {
                vec![
                    g.name.clone(),
                    g.us.to_string(),
                    format!("{:.2}", g.percent),
                ]
            });
            table(name, &["group", "µs", "total %"], rows.collect())
        };
        vec![
            table(
                "functions",
                &["function", "calls", "exclusive µs", "inclusive µs"],
                rows.collect(),
            ),
            group("services", &self.services),
            group("data-structures", &self.packages),
        ]
    }
}

impl SampledFunctions {
    /// Columns of Table 3 of the Android Wear characterization, as shares of samples.
    pub fn table(&self) -> Table {
        let rows = self.functions.iter().map(|f| {
            vec![
                f.name.clone(),
                f.exclusive_samples.to_string(),
                format!("{:.2}", f.exclusive_percent),
                f.inclusive_samples.to_string(),
                format!("{:.2}", f.inclusive_percent),
            ]
        });
        table(
            "sampled-functions",
            &[
                "function",
                "exclusive samples",
                "exclusive %",
                "inclusive samples",
                "inclusive %",
            ],
            rows.collect(),
        )
    }
}

impl SampledFunctionStatistics {
    /// Mean and standard deviation of shares over several profiles.
    pub fn table(list: &[Self]) -> Table {
        let rows = list.iter().map(|f| {
            let (own, whole) = (f.exclusive_percent, f.inclusive_percent);
            let mut row = vec![f.name.clone()];
            row.extend([own.0, own.1, whole.0, whole.1].map(|v| format!("{v:.2}")));
            row
        });
        table(
            "sampled-functions-across",
            &[
                "function",
                "exclusive %",
                "exclusive % SD",
                "inclusive %",
                "inclusive % SD",
            ],
            rows.collect(),
        )
    }
}

impl FunctionStatistics {
    /// Mean and standard deviation over several traces (Android Wear characterization, Table 3).
    pub fn table(list: &[Self]) -> Table {
        let rows = list.iter().map(|f| {
            vec![
                f.name.clone(),
                format!("{:.1}", f.calls.0),
                format!("{:.2}", f.calls.1),
                format!("{:.3}", f.exclusive_ms.0),
                format!("{:.3}", f.exclusive_ms.1),
            ]
        });
        table(
            "functions-across",
            &[
                "function",
                "calls mean",
                "calls SD",
                "exclusive ms mean",
                "exclusive ms SD",
            ],
            rows.collect(),
        )
    }
}

fn microarch_table(name: &'static str, of: &'static str, list: &[MicroarchRow]) -> Table {
    let show = |v: Option<f64>| v.map_or_else(String::new, |v| format!("{v:.3}"));
    let rows = list.iter().map(|m| {
        vec![
            m.id.to_string(),
            m.name.clone(),
            show(m.cpi),
            show(m.l1i_mpki),
            show(m.l1d_mpki),
            show(m.l2_mpki),
            show(m.l2_miss_percent),
            show(m.itlb_mpki),
            show(m.dtlb_mpki),
            show(m.branch_miss_percent),
        ]
    });
    table(
        name,
        &[
            of,
            "name",
            "CPI",
            "L1I MPKI",
            "L1D MPKI",
            "L2 MPKI",
            "L2 miss %",
            "iTLB MPKI",
            "dTLB MPKI",
            "mispredicted %",
        ],
        rows.collect(),
    )
}

fn table(name: &'static str, columns: &[&'static str], rows: Vec<Vec<String>>) -> Table {
    Table {
        name,
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        rows,
    }
}

fn usage_table(name: &'static str, list: &[Usage]) -> Table {
    let rows = list.iter().map(|u| {
        vec![
            u.id.to_string(),
            u.name.clone(),
            format!("{:.6}", u.busy_s),
            format!("{:.2}", u.percent_of_busy),
            u.runs.to_string(),
        ]
    });
    table(
        name,
        &["id", "name", "busy s", "of busy %", "runs"],
        rows.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_aligns_and_csv_quotes() {
        let rows = vec![
            vec!["a, \"b\"".to_owned(), "5".to_owned()],
            vec!["long name".to_owned(), "12345".to_owned()],
            vec!["c".to_owned(), "6".to_owned()],
        ];
        let t = table("demo", &["name", "n"], rows);
        assert_eq!(
            t.text(2),
            "demo\n  name      n\n  a, \"b\"        5\n  long name 12345\n  (1 more rows)\n"
        );
        assert!(t.csv().starts_with("name,n\r\n\"a, \"\"b\"\"\",5\r\n"));
    }

    #[test]
    fn control_characters_of_names_do_not_reach_a_terminal() {
        let t = table("demo", &["name"], vec![vec!["a\u{1b}[2J\nb".to_owned()]]);
        assert_eq!(t.text(1), "demo\n  name\n  a?[2J?b\n");
    }
}
