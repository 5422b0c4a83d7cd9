//! A run over time: throughput, delay, and where nothing came (as the Wear OS paper's Figures 5, 9
//! and 14).

use std::fmt::Write as _;

use mpbond_plot::frame;

use super::account::{BIN_S, DirectionSummary};
use super::client::Summary;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 150.0;
const BETWEEN: f64 = 56.0;
const TOP: f64 = 64.0;
/// More points than this are no more than can be seen.
const MAX_POINTS: usize = 1800;

impl Summary {
    /// As an SVG image.
    pub fn to_svg(&self, title: &str) -> String {
        let directions: Vec<(&str, &DirectionSummary)> = [("down", &self.down), ("up", &self.up)]
            .into_iter()
            .filter_map(|(name, d)| Some((name, d.as_ref()?)))
            .collect();
        let height = TOP + directions.len() as f64 * 2.0 * (PANEL + BETWEEN);
        let mut svg = frame(WIDTH, height, LEFT, title);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"40\" fill=\"#555555\">red: nothing came; dashed: the connection \
             was lost</text>"
        );
        let mut top = TOP;
        for (name, d) in directions {
            let end_s = self.end_s(d);
            let bytes = d.bins_bytes.iter();
            let mbps: Vec<Option<f64>> =
                bytes.map(|b| Some(*b as f64 * 8.0 / BIN_S / 1e6)).collect();
            let panel = Panel { top, end_s };
            panel.frame(&mut svg, self, d);
            panel.line(&mut svg, &format!("{name}, Mbit/s"), &mbps, "#0072b2");
            top += PANEL + BETWEEN;
            let panel = Panel { top, end_s };
            panel.frame(&mut svg, self, d);
            let words = format!("{name}, delay (worst of 0.2 s), ms");
            panel.line(&mut svg, &words, &d.bins_delay_ms, "#d55e00");
            top += PANEL + BETWEEN;
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn end_s(&self, d: &DirectionSummary) -> f64 {
        let gap = d.gaps.list.last().map_or(0.0, |g| g.start_s + g.length_s);
        self.duration_s.max(d.last_s.unwrap_or(0.0)).max(gap)
    }
}

struct Panel {
    top: f64,
    end_s: f64,
}

impl Panel {
    fn x(&self, s: f64) -> f64 {
        LEFT + (s / self.end_s).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn frame(&self, svg: &mut String, all: &Summary, d: &DirectionSummary) {
        for gap in d.gaps.list.iter().take(MAX_POINTS) {
            let (from, to) = (self.x(gap.start_s), self.x(gap.start_s + gap.length_s));
            let _ = writeln!(
                svg,
                "<rect class=\"gap\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{PANEL}\" \
                 fill=\"#f4c7c3\"/>",
                self.top,
                (to - from).max(0.5)
            );
        }
        for loss in all.losses.iter().take(MAX_POINTS) {
            let _ = writeln!(
                svg,
                "<path class=\"lost\" stroke=\"#b2182b\" stroke-dasharray=\"4 3\" \
                 d=\"M{:.1} {:.1}v{PANEL}\"/>",
                self.x(loss.lost_s),
                self.top
            );
        }
        let bottom = self.top + PANEL;
        let _ = writeln!(
            svg,
            "<path stroke=\"#333333\" fill=\"none\" d=\"M{LEFT} {:.1}V{bottom:.1}H{:.1}\"/>",
            self.top,
            WIDTH - RIGHT
        );
        for i in 0..=5 {
            let s = self.end_s * f64::from(i) / 5.0;
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{s:.1} s</text>",
                self.x(s),
                bottom + 16.0
            );
        }
    }

    fn line(&self, svg: &mut String, name: &str, bins: &[Option<f64>], colour: &str) {
        // Where there are many bins, the largest of neighbours.
        let group = bins.len().div_ceil(MAX_POINTS).max(1);
        let points: Vec<Option<f64>> = bins
            .chunks(group)
            .map(|c| c.iter().flatten().copied().reduce(f64::max))
            .collect();
        let most = points.iter().flatten().copied().fold(0.0, f64::max);
        let scale = if most > 0.0 { most } else { 1.0 };
        let bottom = self.top + PANEL;
        let mut path = String::new();
        let mut down = false;
        for (i, value) in points.iter().enumerate() {
            let Some(value) = value else {
                down = false;
                continue;
            };
            let from = self.x((i * group) as f64 * BIN_S);
            let to = self.x(((i + 1) * group) as f64 * BIN_S);
            let y = bottom - (value / scale).clamp(0.0, 1.0) * (PANEL - 8.0);
            let _ = write!(
                path,
                "{}{from:.1} {y:.1}H{to:.1}",
                if down { "L" } else { "M" }
            );
            down = true;
        }
        let _ = writeln!(
            svg,
            "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\" d=\"{path}\"/>\n\
             <text x=\"{LEFT}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{most:.1}</text>\n\
             <text x=\"{:.1}\" y=\"{bottom:.1}\" text-anchor=\"end\">0</text>",
            self.top - 5.0,
            LEFT - 6.0,
            self.top + 12.0,
            LEFT - 6.0
        );
    }
}
