//! Chart of a run over time: throughput, delay and gaps (as Figures 5, 9 and 14 of "Understanding
//! the Networking Performance of Wear OS").

use mpbond_plot::{Anchor, Axis, Panel, Svg};

use super::account::{BIN_S, DirectionSummary};
use super::client::Summary;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 150.0;
const BETWEEN: f64 = 56.0;
const TOP: f64 = 64.0;
/// Colour of gaps.
const GAP: &str = "#f4c7c3";
/// Maximum number of points; more cannot be distinguished.
const MAX_POINTS: usize = 1800;

impl Summary {
    /// Run as an SVG chart.
    pub fn to_svg(&self, title: &str) -> String {
        let directions: Vec<(&str, &DirectionSummary)> = [("down", &self.down), ("up", &self.up)]
            .into_iter()
            .filter_map(|(name, d)| Some((name, d.as_ref()?)))
            .collect();
        let mut svg = Svg::new();
        let heading = svg.heading((LEFT, 20.0), WIDTH - RIGHT, title);
        let key = "red: no data; dashed: the connection was lost";
        svg.coloured_text((LEFT, 40.0 + heading), Anchor::Start, key, "#555555");
        let mut top = TOP + heading;
        for (name, d) in directions {
            let bytes = d.bins_bytes.iter();
            let mbps: Vec<Option<f64>> =
                bytes.map(|b| Some(*b as f64 * 8.0 / BIN_S / 1e6)).collect();
            let rows = [
                (format!("{name}, Mbit/s"), &mbps, "#0072b2"),
                (
                    format!("{name}, delay (worst of 0.2 s), ms"),
                    &d.bins_delay_ms,
                    "#d55e00",
                ),
            ];
            for (name, bins, colour) in rows {
                self.draw(&mut svg, d, &name, bins, colour, top);
                top += PANEL + BETWEEN;
            }
        }
        svg.finish(title, WIDTH, top)
    }

    fn draw(
        &self,
        svg: &mut Svg,
        d: &DirectionSummary,
        name: &str,
        bins: &[Option<f64>],
        colour: &str,
        top: f64,
    ) {
        let size = (WIDTH - LEFT - RIGHT, PANEL);
        let x = Axis::exact("time", 0.0, self.end_s(d), 6.0);
        let y = Axis::covering(name, bins.iter().flatten().copied(), true, 4.0);
        let panel = Panel::new((LEFT, top), size, x, y);
        panel.draw(svg, " s", "");
        for gap in d.gaps.list.iter().take(MAX_POINTS) {
            let from = panel.x_of(gap.start_s);
            let to = panel.x_of(gap.start_s + gap.length_s);
            svg.rect((from, top), ((to - from).max(0.5), PANEL), GAP);
        }
        for loss in self.losses.iter().take(MAX_POINTS) {
            let x = panel.x_of(loss.lost_s);
            svg.path(&[(x, top), (x, panel.bottom)], "#b2182b", 1.0, "4 3");
        }
        svg.text((LEFT, top - 5.0), Anchor::Start, name);
        // Of many bins, the largest of neighbours.
        let group = bins.len().div_ceil(MAX_POINTS).max(1);
        let mut line: Vec<(f64, f64)> = Vec::new();
        for (i, bins) in bins.chunks(group).enumerate() {
            let Some(value) = bins.iter().flatten().copied().reduce(f64::max) else {
                svg.path(&line, colour, 1.3, "");
                line.clear();
                continue;
            };
            let start = (i * group) as f64 * BIN_S;
            let end = start + group as f64 * BIN_S;
            line.extend([start, end].map(|s| panel.at((s.min(panel.x.high), value))));
        }
        svg.path(&line, colour, 1.3, "");
    }

    fn end_s(&self, d: &DirectionSummary) -> f64 {
        let gap = d.gaps.list.last().map_or(0.0, |g| g.start_s + g.length_s);
        self.duration_s.max(d.last_s.unwrap_or(0.0)).max(gap)
    }
}
