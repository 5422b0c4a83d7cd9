//! Charts of grouped bars with whiskers: a quantity by group and series.

use crate::axis::Axis;
use crate::legend::{Key, legend};
use crate::panel::Panel;
use crate::svg::{Anchor, Svg};
use crate::text::{TEXT, cut_to, text_width, wrapped};

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
/// Least width of the plot: that of other charts.
const PLOT_WIDTH: f64 = 400.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
/// Width up to which names of groups are on one line.
const NAME_WIDTH: f64 = 120.0;
/// Width below which names of several lines cannot be read, and are slanted instead.
const LEAST_NAME_WIDTH: f64 = 44.0;
/// Maximum length of a slanted name.
const SLANTED_WIDTH: f64 = 170.0;
/// Distance of the lines of a name.
const NAME_LINE: f64 = 15.0;
/// Maximum number of lines of a name.
const MAX_NAME_LINES: usize = 3;
/// Maximum number of dots in a bar; more would overlap.
const MAX_DOTS: usize = 60;

impl BarChart {
    /// The chart as SVG.
    pub fn to_svg(&self) -> String {
        let bars = self.groups.iter().map(|g| g.bars.len()).sum::<usize>();
        // All bars must fit on a page.
        let places = (bars + self.groups.len()).max(1) as f64;
        let widest = (PLOT_WIDTH / places).clamp(40.0, 64.0);
        let bar = (760.0 / places).clamp(5.0, widest);
        let gap = bar.max(12.0);
        // Each group has room for a name of some lines, unless there are too many groups.
        let slot = (760.0 / self.groups.len().max(1) as f64 - gap).min(NAME_WIDTH);
        let slant = slot < LEAST_NAME_WIDTH;
        let group_width = |g: &Group| {
            let bars = g.bars.len() as f64 * bar;
            let name = text_width(&g.name).min(slot);
            if slant { bars } else { bars.max(name) }
        };
        let content: f64 = self.groups.iter().map(|g| group_width(g) + gap).sum();
        let names: Vec<Vec<String>> = self
            .groups
            .iter()
            .map(|g| {
                let width = group_width(g) + gap - 4.0;
                lines_within(&g.name, width.max(slot))
            })
            .collect();
        let name_lines = names.iter().map(Vec::len).max().unwrap_or(0);
        // Slanted names extend to the left.
        let slanted: Vec<String> = self
            .groups
            .iter()
            .map(|g| cut_to(&g.name, SLANTED_WIDTH))
            .collect();
        let widest = slanted.iter().map(|n| text_width(n)).fold(0.0, f64::max);
        let y = Axis::covering(&self.y_label, self.shown(), true, 7.0);
        let labels = y.label_width();
        let left = LEFT.max(labels + 34.0);
        let left = if slant { left.max(widest * 0.87) } else { left };
        let plot_width = content.max(PLOT_WIDTH);
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
        let beside = (left - labels - 18.0, top + PLOT_HEIGHT / 2.0);
        svg.slanted(beside, &self.y_label, -90.0);

        let mut x = left + (plot_width - content) / 2.0 + gap / 2.0;
        for (number, group) in self.groups.iter().enumerate() {
            let width = group_width(group);
            let start = x + (width - group.bars.len() as f64 * bar) / 2.0;
            for (i, b) in group.bars.iter().enumerate() {
                draw(&mut svg, b, start + i as f64 * bar, bar, y_of);
            }
            let middle = x + width / 2.0;
            if slant {
                let at = (middle + 4.0, bottom + 14.0);
                svg.titled(&group.name, |svg| svg.slanted(at, &slanted[number], -30.0));
            } else {
                svg.titled(&group.name, |svg| {
                    for (row, line) in names[number].iter().enumerate() {
                        let y = bottom + 16.0 + row as f64 * NAME_LINE;
                        svg.text((middle, y), Anchor::Middle, line);
                    }
                });
            }
            x += width + gap;
        }
        let base = y_of(0.0);
        svg.line((left, base), (left + plot_width, base), "#333333", 1.0);
        let below = if slant {
            widest * 0.5 + 2.0 * TEXT
        } else {
            10.0 + name_lines as f64 * NAME_LINE
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

/// The lines of a name; one that takes too many ends with an ellipsis.
fn lines_within(name: &str, width: f64) -> Vec<String> {
    let mut lines = wrapped(name, |line| text_width(line) <= width);
    if lines.len() > MAX_NAME_LINES {
        let rest = lines.split_off(MAX_NAME_LINES - 1).join(" ");
        lines.push(cut_to(&rest, width));
    }
    lines
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
