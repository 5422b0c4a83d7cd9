//! Box plots: quartiles, whiskers and outliers of samples, one row each.

use crate::axis::Axis;
use crate::legend::{Key, legend};
use crate::panel::Panel;
use crate::svg::{Anchor, Svg, colour};
use crate::text::text_width;

const WIDTH: f64 = 640.0;
/// Room at the right for the number of values beyond the axis.
const RIGHT: f64 = 48.0;
const ROW: f64 = 24.0;
/// Height of a box.
const BOX: f64 = 14.0;
const LINE: &str = "#333333";
/// Multiple of the longest whisker beyond which outliers are counted instead of drawn: they would
/// leave the others no room.
const FAR: f64 = 3.0;

/// A sample as a box.
#[derive(Debug, Clone)]
pub struct BoxRow {
    /// Name at its left.
    pub name: String,
    /// Index of its colour.
    pub style: usize,
    /// First quartile, median and third quartile.
    pub quartiles: [f64; 3],
    /// All values, in ascending order.
    pub values: Vec<f64>,
}

/// Box plots over a common axis.
#[derive(Debug, Clone)]
pub struct BoxChart {
    /// Heading.
    pub title: String,
    /// Quantity of the axis, with its unit.
    pub label: String,
    /// Names of colours, by their index.
    pub legend: Vec<String>,
    /// Rows from top to bottom.
    pub rows: Vec<BoxRow>,
}

/// Ends of the whiskers: the farthest values within 1.5 quartile distances of the box (Tukey,
/// "Exploratory Data Analysis", 1977).
pub fn whiskers([p25, _, p75]: [f64; 3], values: &[f64]) -> (f64, f64) {
    let reach = 1.5 * (p75 - p25);
    let inside = |v: &&f64| (p25 - reach..=p75 + reach).contains(*v);
    let low = values.iter().find(inside).copied().unwrap_or(p25);
    let high = values.iter().rfind(inside).copied().unwrap_or(p75);
    (low.min(p25), high.max(p75))
}

/// Draws a box with whiskers and outliers around the height `middle`; `values` ascend. Outliers
/// beyond the panel are counted at its right.
pub fn draw_box(
    svg: &mut Svg,
    panel: &Panel,
    (middle, height): (f64, f64),
    quartiles: [f64; 3],
    values: &[f64],
    colour: &str,
) {
    let (low, high) = whiskers(quartiles, values);
    let [p25, median, p75] = quartiles.map(|value| panel.x_of(value));
    svg.line((panel.x_of(low), middle), (p25, middle), LINE, 1.0);
    svg.line((p75, middle), (panel.x_of(high), middle), LINE, 1.0);
    let top = middle - height / 2.0;
    svg.rect((p25, top), ((p75 - p25).max(0.5), height), colour);
    svg.line((median, top), (median, top + height), "#000000", 2.0);
    let mut beyond = 0_usize;
    for value in values.iter().filter(|v| **v < low || **v > high) {
        match (panel.x.low..=panel.x.high).contains(value) {
            true => svg.dot((panel.x_of(*value), middle)),
            false => beyond += 1,
        }
    }
    if beyond > 0 {
        let at = (panel.right + 6.0, middle + 4.0);
        svg.text(at, Anchor::Start, &format!("+{beyond}"));
    }
}

impl BoxChart {
    /// The chart as SVG.
    pub fn to_svg(&self) -> String {
        let names = self.rows.iter().map(|row| text_width(&row.name));
        let left = names.fold(0.0, f64::max) + 20.0;
        let mut svg = Svg::new();
        let heading = svg.heading((8.0, 20.0), WIDTH - 8.0, &self.title);
        let entries: Vec<(Key, String)> = self
            .legend
            .iter()
            .enumerate()
            .map(|(style, name)| (Key::Colour(colour(style)), name.clone()))
            .collect();
        let below = legend(&mut svg, &entries, left, WIDTH - RIGHT, 28.0 + heading);
        let top = below + 10.0;
        let height = self.rows.len().max(1) as f64 * ROW;
        let area = ((WIDTH - left - RIGHT).max(200.0), height);
        let rows = Axis::exact("", 0.0, 1.0, 1.0);
        let panel = Panel::new((left, top), area, self.axis(), rows);
        panel.draw_x(&mut svg, panel.bottom, "");
        for (nth, row) in self.rows.iter().enumerate() {
            let middle = top + (nth as f64 + 0.5) * ROW;
            svg.text((left - 6.0, middle + 4.0), Anchor::End, &row.name);
            let at = (middle, BOX);
            draw_box(
                &mut svg,
                &panel,
                at,
                row.quartiles,
                &row.values,
                colour(row.style),
            );
        }
        let at = ((panel.left + panel.right) / 2.0, panel.bottom + 36.0);
        svg.text(at, Anchor::Middle, &self.label);
        svg.finish(&self.title, panel.right + RIGHT, panel.bottom + 48.0)
    }

    fn axis(&self) -> Axis {
        let ends = |row: &BoxRow| whiskers(row.quartiles, &row.values);
        let reach = self.rows.iter().map(|row| {
            let (low, high) = ends(row);
            low.abs().max(high.abs())
        });
        let reach = reach.fold(0.0, f64::max) * FAR;
        let shown = self.rows.iter().flat_map(|row| {
            let (low, high) = ends(row);
            let near = row.values.iter().copied().filter(|v| v.abs() <= reach);
            [low, high].into_iter().chain(near)
        });
        Axis::covering(&self.label, shown, false, 7.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quartiles 2, 3 and 4 reach to -1 and 7: 9 is an outlier, and so is 400, beyond the axis.
    #[test]
    fn outliers_are_dots_and_far_ones_are_counted() {
        let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 400.0];
        assert_eq!(whiskers([2.0, 3.0, 4.0], &values), (1.0, 5.0));
        let chart = BoxChart {
            title: "a < b".to_owned(),
            label: "ms".to_owned(),
            legend: vec!["user".to_owned(), "kernel".to_owned()],
            rows: vec![BoxRow {
                name: "Inet & HTTP".to_owned(),
                style: 1,
                quartiles: [2.0, 3.0, 4.0],
                values,
            }],
        };
        let svg = chart.to_svg();
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
        assert!(
            svg.contains(">+1<") && svg.contains("Inet &amp; HTTP"),
            "{svg}"
        );
        let axis = chart.axis();
        assert!((9.0..=15.0).contains(&axis.high), "{}", axis.high);
    }
}
