//! Delays as distribution functions, overheads as box plots (delay measurement paper, Figures 5, 8
//! and 9).

use std::fmt::Write as _;

use mpbond_plot::{frame, nice_step, number};

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
    /// As an SVG image.
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
        let second = TOP + PANEL + GAP;
        let height = second + overheads.len().max(1) as f64 * ROW + 40.0;
        let mut svg = frame(WIDTH, height, LEFT, title);
        let present: Vec<(&str, &Distribution, &str)> = delays
            .into_iter()
            .zip(COLOURS)
            .filter_map(|((name, d), colour)| Some((name, d.as_ref()?, colour)))
            .collect();
        let x = Scale::around(present.iter().map(|(_, d, _)| *d));
        for (i, (name, d, colour)) in present.iter().enumerate() {
            let _ = writeln!(
                svg,
                "<text x=\"{:.0}\" y=\"44\" fill=\"{colour}\">{name}, n = {}</text>",
                LEFT + i as f64 * 180.0,
                d.count
            );
            let mut path = format!("M{LEFT} {:.1}", TOP + PANEL);
            for (n, value) in d.sorted.iter().enumerate() {
                let y = TOP + PANEL * (1.0 - (n + 1) as f64 / d.count as f64);
                let _ = write!(path, "H{:.1}V{y:.1}", x.at(*value));
            }
            let _ = writeln!(
                svg,
                "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" d=\"{path}H{:.1}\"/>",
                WIDTH - RIGHT
            );
        }
        for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let y = TOP + PANEL * (1.0 - share);
            let _ = writeln!(
                svg,
                "<path stroke=\"#dddddd\" d=\"M{LEFT} {y:.1}H{:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                share * 100.0
            );
        }
        x.draw(&mut svg, TOP + PANEL);
        let x = Scale::around(overheads.iter().map(|(_, d)| *d));
        for (i, (name, d)) in overheads.iter().enumerate() {
            boxed(&mut svg, name, d, &x, second + i as f64 * ROW);
        }
        if !overheads.is_empty() {
            x.draw(&mut svg, second + overheads.len() as f64 * ROW);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Whiskers reach the farthest values within 1.5 quartile distances of the box; what lies beyond
/// is a dot (Tukey, as the paper's section 5.3).
fn boxed(svg: &mut String, name: &str, d: &Distribution, x: &Scale, top: f64) {
    let middle = top + ROW / 2.0;
    let reach = 1.5 * (d.p75 - d.p25);
    let inside = |v: &&f64| (d.p25 - reach..=d.p75 + reach).contains(*v);
    let low = d.sorted.iter().find(inside).copied().unwrap_or(d.min);
    let high = d.sorted.iter().rfind(inside).copied().unwrap_or(d.max);
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
         <path stroke=\"#333333\" fill=\"none\" d=\"M{:.1} {middle:.1}H{:.1}M{:.1} {middle:.1}H{:.1}\"/>\
         <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#56b4e9\" \
         stroke=\"#333333\"/>\
         <path stroke=\"#000000\" stroke-width=\"2\" d=\"M{:.1} {:.1}v{:.1}\"/>",
        LEFT - 6.0,
        middle + 4.0,
        x.at(low),
        x.at(d.p25),
        x.at(d.p75),
        x.at(high),
        x.at(d.p25),
        top + 6.0,
        (x.at(d.p75) - x.at(d.p25)).max(0.5),
        ROW - 12.0,
        x.at(d.median),
        top + 6.0,
        ROW - 12.0
    );
    for value in d.sorted.iter().filter(|v| !inside(v)) {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"1.5\" fill=\"#b2182b\"/>",
            x.at(*value)
        );
    }
}

/// Microseconds from left to right.
struct Scale {
    from: f64,
    to: f64,
    step: f64,
}

impl Scale {
    fn around<'a>(all: impl Iterator<Item = &'a Distribution>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for d in all {
            low = low.min(d.min);
            high = high.max(d.max);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let least = ((high - low) / 7.0).max(0.1);
        let step = nice_step(least);
        let from = (low / step).floor() * step;
        Self {
            from,
            to: ((high / step).ceil() * step).max(from + step),
            step,
        }
    }

    fn at(&self, value: f64) -> f64 {
        LEFT + (value - self.from) / (self.to - self.from) * (WIDTH - LEFT - RIGHT)
    }

    fn draw(&self, svg: &mut String, y: f64) {
        let _ = writeln!(
            svg,
            "<path stroke=\"#333333\" d=\"M{LEFT} {y:.1}H{:.1}\"/>",
            WIDTH - RIGHT
        );
        let marks = ((self.to - self.from) / self.step).round() as u32;
        for i in 0..=marks {
            let value = self.from + f64::from(i) * self.step;
            let text = number(value, 1);
            let x = self.at(value);
            let _ = writeln!(
                svg,
                "<path stroke=\"#333333\" d=\"M{x:.1} {y:.1}v4\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text} µs</text>",
                y + 17.0
            );
        }
    }
}
