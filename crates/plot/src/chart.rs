//! Charts with two axes: scatter with error bars, distributions, progress, and a quantity against
//! a parameter.

use crate::axis::Axis;
use crate::legend::{Key, legend};
use crate::panel::Panel;
use crate::svg::{Anchor, Svg, colour, dash};

/// Form of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Line through the points.
    Line,
    /// Line through the points, with markers.
    MarkedLine,
    /// Steps, level until the next point: a distribution, or progress.
    Steps,
    /// Markers.
    Markers,
    /// Faint markers without a legend entry: single values of a mean.
    Cloud,
    /// Black dashed line: a reference.
    Reference,
}

/// A point with confidence intervals.
#[derive(Debug, Clone, Copy, Default)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Interval of `x`.
    pub x_interval: Option<(f64, f64)>,
    /// Interval of `y`.
    pub y_interval: Option<(f64, f64)>,
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self {
            x,
            y,
            ..Self::default()
        }
    }
}

/// Points of one style.
#[derive(Debug, Clone)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Index of colour, dash and marker.
    pub style: usize,
    /// Form.
    pub form: Form,
    /// Points in drawing order.
    pub points: Vec<Point>,
}

/// A chart with two axes.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// Horizontal quantity, with its unit.
    pub x_label: String,
    /// Vertical quantity, with its unit.
    pub y_label: String,
    /// Whether the axes (x, y) begin at zero regardless of the values.
    pub from_zero: (bool, bool),
    /// Series in legend order.
    pub series: Vec<Series>,
}

const PLOT: (f64, f64) = (400.0, 250.0);
const LEFT: f64 = 68.0;
const RIGHT: f64 = 24.0;
/// Maximum number of points of a line; bounds the size of the file.
const MAX_POINTS: usize = 1_200;

impl Chart {
    /// The chart as SVG.
    pub fn to_svg(&self) -> String {
        let (xs, ys) = self.shown();
        let x = Axis::covering(&self.x_label, xs, self.from_zero.0, 8.0);
        let y = Axis::covering(&self.y_label, ys, self.from_zero.1, 7.0);
        // Room for long labels: those of the vertical axis stand to its left, the last one of the
        // horizontal axis is centred on its end.
        let labels = y.label_width();
        let left = LEFT.max(labels + 34.0);
        let right = RIGHT.max(x.label_width() / 2.0 + 4.0);
        let width = left + PLOT.0 + right;
        let mut svg = Svg::new();
        let title = svg.heading((8.0, 20.0), width - 8.0, &self.title);
        let mut entries: Vec<(Key, String)> = Vec::new();
        for s in self.series.iter().filter(|s| s.form != Form::Cloud) {
            let key = match s.form {
                Form::Line | Form::Steps | Form::MarkedLine => Key::Line(s.style),
                Form::Markers | Form::Cloud => Key::Marker(s.style),
                Form::Reference => Key::Reference,
            };
            let entry = (key, s.name.clone());
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        let top = legend(&mut svg, &entries, 8.0, width - 8.0, 30.0 + title);
        let bottom = top + PLOT.1;

        let panel = Panel::new((left, top), PLOT, x, y);
        let place = |value| panel.at(value);
        panel.draw(&mut svg, "", "");
        svg.line((left, top), (left, bottom), "#333333", 1.0);
        let beside = (left - labels - 18.0, top + PLOT.1 / 2.0);
        svg.slanted(beside, &self.y_label, -90.0);
        let middle = left + PLOT.0 / 2.0;
        svg.text((middle, bottom + 36.0), Anchor::Middle, &self.x_label);
        // Means are drawn above their single values.
        let clouds = self.series.iter().filter(|s| s.form == Form::Cloud);
        let others = self.series.iter().filter(|s| s.form != Form::Cloud);
        for series in clouds.chain(others) {
            draw(&mut svg, series, place);
        }
        svg.finish(&self.title, width, bottom + 46.0)
    }

    /// All values that the axes must cover.
    fn shown(&self) -> (Vec<f64>, Vec<f64>) {
        let ends = |i: Option<(f64, f64)>| i.into_iter().flat_map(|(low, high)| [low, high]);
        let points = || self.series.iter().flat_map(|s| &s.points);
        (
            points()
                .flat_map(|p| ends(p.x_interval).chain([p.x]))
                .collect(),
            points()
                .flat_map(|p| ends(p.y_interval).chain([p.y]))
                .collect(),
        )
    }
}

fn draw(svg: &mut Svg, s: &Series, place: impl Fn((f64, f64)) -> (f64, f64)) {
    let at: Vec<(f64, f64)> = s.points.iter().map(|p| place((p.x, p.y))).collect();
    match s.form {
        Form::Line | Form::MarkedLine => {
            svg.path(&thinned(at.clone()), colour(s.style), 2.0, dash(s.style));
        }
        Form::Reference => svg.path(&thinned(at.clone()), "#000000", 1.6, "4 3"),
        Form::Steps => svg.path(
            &steps(&thinned(at.clone())),
            colour(s.style),
            2.0,
            dash(s.style),
        ),
        Form::Markers | Form::Cloud => {}
    }
    for p in &s.points {
        if let Some((low, high)) = p.x_interval {
            svg.line(place((low, p.y)), place((high, p.y)), colour(s.style), 1.4);
        }
        if let Some((low, high)) = p.y_interval {
            svg.line(place((p.x, low)), place((p.x, high)), colour(s.style), 1.4);
        }
    }
    let (size, opacity) = match s.form {
        Form::Markers => (5.0, 1.0),
        Form::MarkedLine => (4.0, 1.0),
        Form::Cloud => (2.4, 0.35),
        Form::Line | Form::Steps | Form::Reference => return,
    };
    for point in at {
        svg.marker(point, s.style, size, opacity);
    }
}

/// Every n-th point, including the first and the last.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(MAX_POINTS).max(1);
    let last = points.last().copied();
    let mut few: Vec<_> = points.into_iter().step_by(step).collect();
    if few.last() != last.as_ref() {
        few.extend(last);
    }
    few
}

fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for &(x, y) in points {
        if let Some(&(_, before)) = all.last() {
            all.push((x, before));
        }
        all.push((x, y));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(form: Form) -> Chart {
        let mut points: Vec<Point> = [(0.0, 0.0), (5.0, 2.0), (10.0, 4.0)]
            .map(Point::from)
            .into();
        points[2].x_interval = Some((9.0, 10.0));
        points[2].y_interval = Some((3.0, 4.0));
        Chart {
            title: "Title".into(),
            x_label: "time (s)".into(),
            y_label: "bytes (MB)".into(),
            from_zero: (true, true),
            series: vec![Series {
                name: "total".into(),
                style: 0,
                form,
                points,
            }],
        }
    }

    /// Where (x, y) lies in the picture, both axes as in `chart` and one row
    /// of legend.
    fn place(x: f64, y: f64) -> (f64, f64) {
        let bottom = 30.0 + 12.0 + 16.0 + PLOT.1;
        (LEFT + PLOT.0 * x / 10.0, bottom - PLOT.1 * y / 4.0)
    }

    #[test]
    fn points_lie_where_they_belong() {
        let svg = chart(Form::Line).to_svg();
        let ((ax, ay), (bx, by), (cx, cy)) = (place(0.0, 0.0), place(5.0, 2.0), place(10.0, 4.0));
        let path = format!("M{ax:.1} {ay:.1}L{bx:.1} {by:.1}L{cx:.1} {cy:.1}");
        assert!(svg.contains(&path), "{path}: {svg}");
        let svg = chart(Form::Steps).to_svg();
        let path = format!("M{ax:.1} {ay:.1}L{bx:.1} {ay:.1}L{bx:.1} {by:.1}");
        assert!(svg.contains(&path), "{path}: {svg}");
        let svg = chart(Form::Markers).to_svg();
        let ((lx, ly), (hx, _)) = (place(9.0, 4.0), place(10.0, 4.0));
        let cross = format!("x1=\"{lx:.1}\" y1=\"{ly:.1}\" x2=\"{hx:.1}\" y2=\"{ly:.1}\"");
        assert!(svg.contains(&cross), "{cross}: {svg}");
        assert_eq!(svg.matches("<circle").count(), 3 + 1, "{svg}");
        for text in [">time (s)<", ">bytes (MB)<", ">total<"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn long_labels_have_room() {
        let mut chart = chart(Form::Line);
        for point in &mut chart.series[0].points {
            point.y *= 1e9;
        }
        let svg = chart.to_svg();
        let labels = svg.lines().filter(|l| l.contains("text-anchor=\"end\""));
        let mut longest = 0;
        for label in labels {
            let x = label
                .split("x=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap();
            let text = label.split('>').nth(1).unwrap().split('<').next().unwrap();
            longest = longest.max(text.len());
            let width = crate::text::text_width(text);
            assert!(x.parse::<f64>().unwrap() >= width, "clipped: {label}");
        }
        assert_eq!(longest, "4000000000".len());
    }

    #[test]
    fn a_long_title_takes_several_lines() {
        let mut chart = chart(Form::Line);
        chart.title = "a title of many words ".repeat(6).trim_end().to_owned();
        let svg = chart.to_svg();
        let lines = svg.matches("font-weight=\"bold\"").count();
        assert!((2..5).contains(&lines), "{lines} lines: {svg}");
    }

    #[test]
    fn a_title_without_spaces_takes_several_lines() {
        let mut chart = chart(Form::Line);
        let path = "/recordings/of-a-watch/".repeat(8);
        chart.title = format!("Power, {path}");
        let svg = chart.to_svg();
        let headings = svg.lines().filter(|l| l.contains("font-weight=\"bold\""));
        let text = |line: &str| line.split(['>', '<']).nth(2).unwrap().to_owned();
        let lines: Vec<String> = headings.map(text).collect();
        assert_eq!((lines[0].as_str(), lines[1..].concat()), ("Power,", path));
        let longest = lines
            .iter()
            .map(|l| crate::text::text_width(l))
            .max_by(f64::total_cmp);
        assert!(
            longest.unwrap() * 1.3 <= LEFT + PLOT.0 + RIGHT - 16.0,
            "{lines:?}"
        );
    }

    #[test]
    fn many_points_are_thinned_and_the_ends_stay() {
        let few = thinned((0..10_000).map(|i| (f64::from(i), 0.0)).collect());
        assert!(few.len() <= MAX_POINTS + 1, "{}", few.len());
        assert_eq!((few[0].0, few[few.len() - 1].0), (0.0, 9_999.0));
    }
}
