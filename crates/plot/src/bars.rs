//! Charts of grouped bars with whiskers: a quantity by group and series.

use crate::axis::Axis;
use crate::legend::{Key, legend};
use crate::panel::Panel;
use crate::svg::{Anchor, Svg};
use crate::text::{TEXT, text_width};

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Index of the chart's series.
    pub series: usize,
    /// Height.
    pub value: f64,
    /// Whiskers: a confidence interval.
    pub interval: Option<(f64, f64)>,
    /// Single values, drawn as small dots.
    pub values: Vec<f64>,
    /// Reference value: a line across the bar.
    pub reference: Option<f64>,
}

/// Bars that stand together, under one name.
#[derive(Debug, Clone)]
pub struct Group {
    /// Name below the bars.
    pub name: String,
    /// Bars from left to right.
    pub bars: Vec<Bar>,
}

/// A chart of grouped bars.
#[derive(Debug, Clone)]
pub struct BarChart {
    /// Heading.
    pub title: String,
    /// Quantity of the bars' height, with its unit.
    pub y_label: String,
    /// Names of the series.
    pub series: Vec<String>,
    /// Name of the reference.
    pub reference: String,
    /// Groups from left to right.
    pub groups: Vec<Group>,
}

const PLOT_HEIGHT: f64 = 230.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
/// Maximum number of dots in a bar; more would overlap.
const MAX_DOTS: usize = 60;

impl BarChart {
    /// The chart as SVG.
    pub fn to_svg(&self) -> String {
        let bars = self.groups.iter().map(|g| g.bars.len()).sum::<usize>();
        // All bars must fit on a page.
        let bar = (760.0 / (bars + self.groups.len()).max(1) as f64).clamp(5.0, 40.0);
        let gap = bar.max(12.0);
        let widest = self
            .groups
            .iter()
            .map(|g| text_width(&g.name))
            .fold(0.0, f64::max);
        let lone = self.groups.len() == 1;
        let group_width = |g: &Group| {
            let bars = g.bars.len() as f64 * bar;
            if lone { bars.max(widest) } else { bars }
        };
        let content: f64 = self.groups.iter().map(|g| group_width(g) + gap).sum();
        // Names that do not fit below their bars are slanted and extend to the left.
        let mut groups = self.groups.iter();
        let slant = !lone && groups.any(|g| text_width(&g.name) > group_width(g) + gap - 4.0);
        let y = Axis::covering(&self.y_label, self.shown(), true, 7.0);
        let left = LEFT.max(y.label_width() + 34.0);
        let left = if slant { left.max(widest * 0.87) } else { left };
        let plot_width = content.max(280.0);
        let width = left + plot_width + RIGHT;

        let mut svg = Svg::new();
        let title = svg.heading((8.0, 20.0), width - 8.0, &self.title);
        let used = |i: usize| {
            self.groups
                .iter()
                .flat_map(|g| &g.bars)
                .any(|b| b.series == i)
        };
        let mut entries: Vec<(Key, String)> = (self.series.iter().enumerate())
            .filter(|(i, _)| used(*i))
            .map(|(i, name)| (Key::Bar(i), name.clone()))
            .collect();
        let mut all_bars = self.groups.iter().flat_map(|g| &g.bars);
        if all_bars.any(|b| b.reference.is_some()) {
            entries.push((Key::Reference, self.reference.clone()));
        }
        let top = legend(&mut svg, &entries, 8.0, width - 8.0, 30.0 + title);

        let bars = Axis::exact("", 0.0, 1.0, 1.0);
        let panel = Panel::new((left, top), (plot_width, PLOT_HEIGHT), bars, y);
        let bottom = panel.bottom;
        let y_of = |value: f64| panel.y_of(value);
        panel.draw_y(&mut svg, "");
        svg.slanted((16.0, top + PLOT_HEIGHT / 2.0), &self.y_label, -90.0);

        let mut x = left + (plot_width - content) / 2.0 + gap / 2.0;
        for group in &self.groups {
            let width = group_width(group);
            let start = x + (width - group.bars.len() as f64 * bar) / 2.0;
            for (i, b) in group.bars.iter().enumerate() {
                draw(&mut svg, b, start + i as f64 * bar, bar, y_of);
            }
            let middle = x + width / 2.0;
            if slant {
                svg.slanted((middle + 4.0, bottom + 14.0), &group.name, -30.0);
            } else {
                svg.text((middle, bottom + 16.0), Anchor::Middle, &group.name);
            }
            x += width + gap;
        }
        let base = y_of(0.0);
        svg.line((left, base), (left + plot_width, base), "#333333", 1.0);
        let below = if slant {
            widest * 0.5 + 2.0 * TEXT
        } else {
            26.0
        };
        svg.finish(&self.title, width, bottom + below)
    }

    /// All values that the axis must cover.
    fn shown(&self) -> impl Iterator<Item = f64> + '_ {
        self.groups.iter().flat_map(|g| &g.bars).flat_map(|b| {
            let whiskers = b.interval.into_iter().flat_map(|(low, high)| [low, high]);
            whiskers
                .chain(b.values.iter().copied())
                .chain(b.reference)
                .chain([b.value])
        })
    }
}

fn draw(svg: &mut Svg, b: &Bar, x: f64, width: f64, y_of: impl Fn(f64) -> f64) {
    let inner = width * 0.84;
    let x = x + width * 0.08;
    let (top, base) = (y_of(b.value.max(0.0)), y_of(b.value.min(0.0)));
    svg.bar((x, top), (inner, base - top), b.series);
    let middle = x + inner / 2.0;
    let step = b.values.len().div_ceil(MAX_DOTS).max(1);
    for (i, value) in b.values.iter().step_by(step).enumerate() {
        // Side by side in a fixed order, so that equal values do not hide.
        let aside = ((i * 7) % 11) as f64 / 10.0 - 0.5;
        svg.dot((middle + aside * inner * 0.6, y_of(*value)));
    }
    if let Some((low, high)) = b.interval {
        let (low, high) = (y_of(low), y_of(high));
        let wing = (inner * 0.3).min(5.0);
        svg.line((middle, low), (middle, high), "#000000", 1.3);
        for y in [low, high] {
            svg.line((middle - wing, y), (middle + wing, y), "#000000", 1.3);
        }
    }
    if let Some(reference) = b.reference {
        let y = y_of(reference);
        svg.path(
            &[(x - width * 0.04, y), (x + inner + width * 0.04, y)],
            "#000000",
            1.6,
            "4 3",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> BarChart {
        let bar = |series, value| Bar {
            series,
            value,
            interval: Some((value - 0.5, value + 0.5)),
            values: vec![value - 0.4, value + 0.4],
            reference: Some(0.8),
        };
        BarChart {
            title: "Time <&> size".into(),
            y_label: "time (s)".into(),
            series: vec!["one".into(), "two".into(), "not drawn".into()],
            reference: "ideal".into(),
            groups: vec![
                Group {
                    name: "small".into(),
                    bars: vec![bar(0, 1.0), bar(1, 2.0)],
                },
                Group {
                    name: "large".into(),
                    bars: vec![bar(1, 4.0)],
                },
            ],
        }
    }

    /// The numbers of an attribute, in order.
    fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
        svg.lines()
            .filter(|l| l.starts_with(element))
            .filter_map(|l| l.split(&format!(" {attribute}=\"")).nth(1))
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect()
    }

    #[test]
    fn heights_are_the_values() {
        let svg = chart().to_svg();
        let bars: Vec<f64> = numbers(&svg, "<rect x", "height");
        // Legend: a bar and a hatched bar are three; then 1, 2 twice (hatched), 4 twice.
        assert_eq!(bars.len(), 3 + 5, "{svg}");
        let unit = PLOT_HEIGHT / 5.0; // the axis goes to 5
        let want = [1.0, 2.0, 2.0, 4.0, 4.0].map(|v| v * unit);
        for (bar, want) in bars[3..].iter().zip(want) {
            assert!((bar - want).abs() < 0.11, "{bar} instead of {want}");
        }
        // Two dots a bar; whiskers of half a unit either way.
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains("stroke-dasharray=\"4 3\""));
    }

    #[test]
    fn says_what_it_shows() {
        let svg = chart().to_svg();
        for text in [
            ">time (s)<",
            ">one<",
            ">two<",
            ">ideal<",
            ">small<",
            ">large<",
            "Time &lt;&amp;&gt; size",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("not drawn"));
    }
}
