//! Charts of a measurement of probes: box plots, distribution functions and series of overheads, in
//! the forms of the delay measurement paper's Figures 5 to 10 and 13.

use mpbond_plot::{BoxChart, BoxRow, Chart, Form, Point, Series};
use mpbond_probe::Distribution;
use serde::Deserialize;

use super::cell::Cell;
use super::figures::REPORTS;

/// Kind of chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Picture {
    /// Δd (Figures 6 and 7).
    Total,
    /// Δd_u beside Δd_k (Figure 8).
    Parts,
    /// Δd_u going out beside coming in (Figures 9 and 10).
    Ways,
    /// A test's report minus each d_n and d_k (Figure 5(a)).
    ReportEach,
    /// A test's report minus its smallest d_n and d_k (Figure 5(b)).
    ReportMin,
    /// Δd of each probe in order (Figure 13).
    Series,
}

/// A measured cell.
pub(super) struct Shown {
    pub(super) case: String,
    pub(super) rtt_ms: u32,
    pub(super) cell: Cell,
}

impl Shown {
    fn name(&self) -> String {
        format!("{}, {} ms", self.case, self.rtt_ms)
    }
}

impl Picture {
    /// The chart; `None` where nothing was measured for it.
    pub(super) fn draw(self, cells: &[Shown]) -> Option<String> {
        let [each, each_u, min, min_u] = REPORTS;
        match self {
            Self::Total => boxes(cells, "Delay added to a round trip", &[("Δd", "delta_d")]),
            Self::Parts => boxes(
                cells,
                "Delay added in user space and kernel, and below",
                &[
                    ("Δd_u: program, kernel", "delta_d_u"),
                    ("Δd_k: driver, bus", "delta_d_k"),
                ],
            ),
            Self::Ways => boxes(
                cells,
                "Delay added in user space and kernel, going out and coming in",
                &[("out", "delta_d_u_out"), ("in", "delta_d_u_in")],
            ),
            Self::ReportEach => shares(
                cells,
                "A test's report minus each of its round trips",
                &[("Δd", each), ("Δd_u", each_u)],
            ),
            Self::ReportMin => shares(
                cells,
                "A test's report minus its smallest round trip",
                &[("Δd", min), ("Δd_u", min_u)],
            ),
            Self::Series => series(cells),
        }
    }
}

/// Box plots of some quantities, a row for each cell and quantity.
fn boxes(cells: &[Shown], title: &str, quantities: &[(&str, &str)]) -> Option<String> {
    let mut rows = Vec::new();
    for shown in cells {
        let mut first = true;
        for (style, (_, quantity)) in quantities.iter().enumerate() {
            let Some(d) = shown.cell.get(quantity) else {
                continue;
            };
            let name = if first { shown.name() } else { String::new() };
            first = false;
            rows.push(BoxRow {
                name,
                style,
                quartiles: [d.p25, d.median, d.p75].map(|us| us / 1e3),
                values: d.sample.values().iter().map(|us| us / 1e3).collect(),
            });
        }
    }
    let legend = match quantities {
        [_] => Vec::new(),
        several => several.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    let chart = BoxChart {
        title: title.to_owned(),
        label: "overhead (ms)".to_owned(),
        legend,
        rows,
    };
    (!chart.rows.is_empty()).then(|| chart.to_svg())
}

/// Distribution functions of some quantities, a line for each cell and quantity.
fn shares(cells: &[Shown], title: &str, quantities: &[(&str, &str)]) -> Option<String> {
    let mut lines = Vec::new();
    for shown in cells {
        for (name, quantity) in quantities {
            if let Some(d) = shown.cell.get(quantity) {
                lines.push(Series {
                    name: format!("{name}, {} ms", shown.rtt_ms),
                    style: lines.len(),
                    form: Form::Steps,
                    points: distribution(d),
                });
            }
        }
    }
    let chart = Chart {
        title: title.to_owned(),
        x_label: "overhead (ms)".to_owned(),
        y_label: "share of round trips (%)".to_owned(),
        from_zero: (false, true),
        series: lines,
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}

fn distribution(d: &Distribution) -> Vec<Point> {
    let values = d.sample.values();
    let start = values.first().map(|us| (us / 1e3, 0.0));
    let steps = values.iter().enumerate().map(|(below, us)| {
        let share = (below + 1) as f64 / values.len() as f64;
        (us / 1e3, share * 100.0)
    });
    start.into_iter().chain(steps).map(Point::from).collect()
}

/// Δd of each probe over its number.
fn series(cells: &[Shown]) -> Option<String> {
    let lines = cells.iter().enumerate().map(|(style, shown)| Series {
        name: shown.name(),
        style,
        form: Form::MarkedLine,
        points: (1..)
            .zip(&shown.cell.series)
            .map(|(number, us)| Point::from((f64::from(number), us / 1e3)))
            .collect(),
    });
    let chart = Chart {
        title: "Delay added to each round trip".to_owned(),
        x_label: "probe".to_owned(),
        y_label: "Δd (ms)".to_owned(),
        from_zero: (false, true),
        series: lines.collect(),
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}
