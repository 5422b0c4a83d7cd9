//! Chart of delays as distribution functions and of overheads as box plots ("Toward Accurate
//! Network Delay Measurement on Android Phones", Figures 5, 8 and 9).

use mpbond_plot::{Anchor, Axis, Key, Panel, Svg, draw_box, legend};

use crate::record::Summary;
use crate::statistics::Distribution;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 180.0;
const RIGHT: f64 = 50.0;
const PANEL: f64 = 220.0;
const GAP: f64 = 90.0;
const ROW: f64 = 34.0;
const COLOURS: [&str; 3] = ["#d55e00", "#0072b2", "#009e73"];

/// Label of the distribution functions.
const SHARES: &str = "Share of probes with at most this round-trip time";
/// Label of the box plots.
const OVERHEADS: &str = "Delay added by this machine (box: quartiles and median; dots: values \
     more than 1.5 box lengths away, +n: beyond the axis)";
/// Multiple of the 95th percentile beyond which a value is not drawn.
const FAR: f64 = 3.0;

impl Summary {
    /// Delays and overheads as an SVG chart.
    pub fn to_svg(&self, title: &str) -> String {
        let delays = [
            ("d_u (user)", &self.d_u_us),
            ("d_k (kernel)", &self.d_k_us),
            ("d_n (wire)", &self.d_n_us),
        ];
        let overheads: Vec<(&str, &Distribution)> = [
            ("Δd_u: program, kernel", &self.delta_d_u_us),
            ("on the way out", &self.delta_d_u_out_us),
            ("on the way in", &self.delta_d_u_in_us),
            ("Δd_k: driver, hardware", &self.delta_d_k_us),
            ("Δd: all of these", &self.delta_d_us),
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
        let entries: Vec<(Key, String)> = present
            .iter()
            .map(|(name, d, colour)| (Key::Colour(colour), format!("{name}, n = {}", d.count)))
            .collect();
        let below = legend(&mut svg, &entries, LEFT, WIDTH - RIGHT, 30.0 + heading);
        svg.text((LEFT, below + 6.0), Anchor::Start, SHARES);
        let top = below + 16.0;
        let panel = Panel::new((LEFT, top), (WIDTH - LEFT - RIGHT, PANEL), x, shares);
        panel.draw(&mut svg, " µs", " %");
        for (_, d, colour) in &present {
            let mut steps = vec![(panel.left, panel.bottom)];
            let (mut below, mut y) = (0, panel.bottom);
            let shown = |v: &&f64| **v <= panel.x.high;
            for value in d.sample.values().iter().filter(shown) {
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
        if !overheads.is_empty() {
            svg.text((LEFT, top - 10.0), Anchor::Start, OVERHEADS);
            panel.draw_x(&mut svg, panel.bottom, " µs");
        }
        for (i, (name, d)) in overheads.iter().enumerate() {
            boxed(&mut svg, name, d, &panel, top + i as f64 * ROW);
        }
        svg.finish(title, WIDTH, top + height.max(ROW) + 40.0)
    }
}

/// Horizontal axis that covers some distributions, except values that are far from all others:
/// these would leave the others no room.
fn microseconds<'a>(all: impl Iterator<Item = &'a Distribution>) -> Axis {
    let shown = |d: &Distribution| [d.min, d.max.min((FAR * d.p95).max(d.p75 + reach(d)))];
    Axis::covering("µs", all.flat_map(shown), false, 7.0)
}

/// Distance from the box up to which a value is no outlier.
fn reach(d: &Distribution) -> f64 {
    1.5 * (d.p75 - d.p25)
}

/// Box plot with its name ("Toward Accurate Network Delay Measurement on Android Phones", section
/// 5.3).
fn boxed(svg: &mut Svg, name: &str, d: &Distribution, panel: &Panel, top: f64) {
    let middle = top + ROW / 2.0;
    svg.text((LEFT - 6.0, middle + 4.0), Anchor::End, name);
    let quartiles = [d.p25, d.median, d.p75];
    let at = (middle, ROW - 12.0);
    draw_box(svg, panel, at, quartiles, d.sample.values(), "#56b4e9");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_far_from_all_others_leaves_them_room() {
        let values = (0..100).map(|i| 50.0 + f64::from(i % 10));
        let d = Distribution::of(values.chain([9_000.0]).collect()).unwrap();
        let axis = microseconds([&d].into_iter());
        assert!((59.0..=200.0).contains(&axis.high), "{}", axis.high);
        let rows = Axis::exact("", 0.0, 1.0, 1.0);
        let panel = Panel::new((LEFT, 0.0), (400.0, ROW), axis, rows);
        let mut svg = Svg::new();
        boxed(&mut svg, "d", &d, &panel, 0.0);
        let svg = svg.finish("t", WIDTH, ROW);
        assert!(svg.contains(">+1<") && !svg.contains("<circle"), "{svg}");
    }
}
