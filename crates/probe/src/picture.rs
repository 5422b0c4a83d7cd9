//! Chart of delays as distribution functions and of overheads as box plots ("Toward Accurate
//! Network Delay Measurement on Android Phones", Figures 5, 8 and 9).

use mpbond_plot::{Anchor, Axis, Panel, Svg};

use crate::record::Summary;
use crate::statistics::Distribution;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 30.0;
const PANEL: f64 = 220.0;
const TOP: f64 = 66.0;
const GAP: f64 = 80.0;
const ROW: f64 = 34.0;
const COLOURS: [&str; 3] = ["#d55e00", "#0072b2", "#009e73"];

impl Summary {
    /// Delays and overheads as an SVG chart.
    pub fn to_svg(&self, title: &str) -> String {
        let delays = [
            ("d_u (user)", &self.d_u_us),
            ("d_k (kernel)", &self.d_k_us),
            ("d_n (wire)", &self.d_n_us),
        ];
        let overheads: Vec<(&str, &Distribution)> = [
            ("Δd_u", &self.delta_d_u_us),
            ("Δd_u out", &self.delta_d_u_out_us),
            ("Δd_u in", &self.delta_d_u_in_us),
            ("Δd_k", &self.delta_d_k_us),
            ("Δd", &self.delta_d_us),
        ]
        .into_iter()
        .filter_map(|(name, d)| Some((name, d.as_ref()?)))
        .collect();
        let mut svg = Svg::new();
        let heading = svg.heading((LEFT, 20.0), WIDTH - RIGHT, title);
        let present: Vec<(&str, &Distribution, &str)> = delays
            .into_iter()
            .zip(COLOURS)
            .filter_map(|((name, d), colour)| Some((name, d.as_ref()?, colour)))
            .collect();
        let x = microseconds(present.iter().map(|(_, d, _)| *d));
        let shares = Axis::exact("share", 0.0, 100.0, 5.0);
        let top = TOP + heading;
        let panel = Panel::new((LEFT, top), (WIDTH - LEFT - RIGHT, PANEL), x, shares);
        panel.draw(&mut svg, " µs", " %");
        for (i, (name, d, colour)) in present.iter().enumerate() {
            let entry = format!("{name}, n = {}", d.count);
            let at = (LEFT + i as f64 * 180.0, top - 22.0);
            svg.coloured_text(at, Anchor::Start, &entry, colour);
            let mut steps = vec![(panel.left, panel.bottom)];
            let (mut below, mut y) = (0, panel.bottom);
            for value in d.sample.values() {
                let x = panel.x_of(*value);
                steps.push((x, y));
                below += 1;
                y = panel.y_of(100.0 * f64::from(below) / d.count as f64);
                steps.push((x, y));
            }
            steps.push((panel.right, y));
            svg.path(&steps, colour, 1.5, "");
        }
        let top = top + PANEL + GAP;
        let x = microseconds(overheads.iter().map(|(_, d)| *d));
        let height = overheads.len() as f64 * ROW;
        let rows = Axis::exact("", 0.0, 1.0, 1.0);
        let panel = Panel::new((LEFT, top), (WIDTH - LEFT - RIGHT, height), x, rows);
        for (i, (name, d)) in overheads.iter().enumerate() {
            boxed(&mut svg, name, d, &panel, top + i as f64 * ROW);
        }
        if !overheads.is_empty() {
            panel.draw_x(&mut svg, panel.bottom, " µs");
        }
        svg.finish(title, WIDTH, top + height.max(ROW) + 40.0)
    }
}

/// Horizontal axis that covers some distributions.
fn microseconds<'a>(all: impl Iterator<Item = &'a Distribution>) -> Axis {
    Axis::covering("µs", all.flat_map(|d| [d.min, d.max]), false, 7.0)
}

/// Box plot. Whiskers reach the farthest values within 1.5 quartile distances of the box; values
/// beyond are dots (Tukey; "Toward Accurate Network Delay Measurement on Android Phones", section
/// 5.3).
fn boxed(svg: &mut Svg, name: &str, d: &Distribution, panel: &Panel, top: f64) {
    let middle = top + ROW / 2.0;
    let reach = 1.5 * (d.p75 - d.p25);
    let inside = |v: &&f64| (d.p25 - reach..=d.p75 + reach).contains(*v);
    let values = d.sample.values();
    let low = values.iter().find(inside).copied().unwrap_or(d.min);
    let high = values.iter().rfind(inside).copied().unwrap_or(d.max);
    let x = |value| panel.x_of(value);
    svg.text((LEFT - 6.0, middle + 4.0), Anchor::End, name);
    svg.line((x(low), middle), (x(d.p25), middle), "#333333", 1.0);
    svg.line((x(d.p75), middle), (x(high), middle), "#333333", 1.0);
    let (top, height) = (top + 6.0, ROW - 12.0);
    let width = (x(d.p75) - x(d.p25)).max(0.5);
    svg.rect((x(d.p25), top), (width, height), "#56b4e9");
    let median = x(d.median);
    svg.line((median, top), (median, top + height), "#000000", 2.0);
    for value in values.iter().filter(|v| !inside(v)) {
        svg.dot((x(*value), middle));
    }
}
