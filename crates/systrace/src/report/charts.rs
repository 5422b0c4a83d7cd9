//! Bar charts, line charts and tables of the report: bars of a page are HTML, which fits narrow
//! screens; those of picture files are SVG.

use std::fmt::Write as _;

use mpbond_plot::{Anchor, Axis, Panel, Svg, escaped, text_width};

/// Width of pictures with bars.
const WIDTH: f64 = 860.0;
/// Width of line charts: on a telephone their text stays readable.
const LINE_WIDTH: f64 = 490.0;
const BLUE: &str = "#3b6fb6";
/// Colour of anomalies.
const RED: &str = "#c02b3c";

/// A bar: label, share in percent, text behind the bar, and whether it is an anomaly.
pub(super) struct Bar {
    pub label: String,
    pub percent: f64,
    pub text: String,
    pub alarm: bool,
}

/// Horizontal bars as HTML, above an axis in percent.
pub(super) fn html_bars(title: &str, rows: &[Bar]) -> String {
    let axis = percent_axis(rows);
    let ticks = axis.ticks();
    let step = ticks.get(1).map_or(1.0, |(value, _)| axis.share(*value));
    let mut out = format!(
        "<div class=\"bars\" aria-label=\"{}\" style=\"--step:{:.3}%\">",
        escaped(title),
        step * 100.0
    );
    for row in rows {
        let width = axis.share(row.percent) * 100.0;
        let alarm = if row.alarm { " alarm" } else { "" };
        let _ = write!(
            out,
            "<div><span class=\"name\">{}</span><span class=\"bar{alarm}\"><i \
             style=\"width:{width:.1}%\"></i></span><span>{}</span></div>",
            escaped(&row.label),
            escaped(&row.text)
        );
    }
    out.push_str("<div class=\"axis\"><span class=\"name\"></span><span class=\"bar\">");
    for (value, text) in ticks {
        let left = axis.share(value) * 100.0;
        let _ = write!(out, "<b style=\"left:{left:.1}%\">{text} %</b>");
    }
    out.push_str("</span><span></span></div></div>");
    out
}

/// An axis from zero that covers all bars.
fn percent_axis(rows: &[Bar]) -> Axis {
    let values = rows.iter().map(|r| r.percent.clamp(0.0, 100.0));
    Axis::covering("share", values, true, 5.0)
}

/// Horizontal bars as SVG, above an axis in percent.
pub(super) fn bars(title: &str, rows: &[Bar]) -> String {
    const ROW: f64 = 22.0;
    const LEFT: f64 = 270.0;
    let widest = rows.iter().map(|r| text_width(&r.text)).fold(0.0, f64::max);
    // Labels and texts have room on both sides.
    let wide = WIDTH - LEFT - widest - 16.0;
    let mut svg = Svg::new();
    let top = 32.0 + svg.heading((8.0, 20.0), WIDTH - 8.0, title);
    let size = (wide, rows.len() as f64 * ROW);
    let panel = Panel::new(
        (LEFT, top),
        size,
        percent_axis(rows),
        Axis::exact("", 0.0, 1.0, 1.0),
    );
    panel.draw_x(&mut svg, panel.bottom, " %");
    for (i, row) in rows.iter().enumerate() {
        let y = top + i as f64 * ROW;
        let right = panel.x_of(row.percent.clamp(0.0, 100.0));
        let label = shorten(&row.label, LEFT - 12.0);
        let at = (LEFT - 8.0, y + 15.0);
        if label == row.label {
            svg.text(at, Anchor::End, &label);
        } else {
            svg.titled(&row.label, |svg| svg.text(at, Anchor::End, &label));
        }
        let colour = if row.alarm { RED } else { BLUE };
        svg.rect((LEFT, y + 4.0), (right - LEFT, 14.0), colour);
        let beside = (panel.right + 8.0, y + 15.0);
        svg.text(beside, Anchor::Start, &row.text);
    }
    svg.inline(title, WIDTH, panel.bottom + 26.0)
}

/// The end of a text that is wider than `most`, behind an ellipsis: the end of a name tells more
/// than its package.
fn shorten(text: &str, most: f64) -> String {
    if text_width(text) <= most {
        return text.to_owned();
    }
    let tail = |from: usize| format!("…{}", text.get(from..).unwrap_or_default());
    let mut starts = text.char_indices().map(|(from, _)| from);
    let fits = starts.find(|from| text_width(&tail(*from)) <= most);
    tail(fits.unwrap_or(text.len()))
}

/// Horizontal axis of a line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Across {
    /// Linear, with this label.
    Linear(&'static str),
    /// Logarithmic from 1, with this label.
    Logarithmic(&'static str),
}

/// A line; y begins at zero. Empty without points.
pub(super) fn line(title: &str, points: &[(f64, f64)], across: Across, y_name: &str) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let (x_name, x) = match across {
        Across::Logarithmic(name) => (name, Axis::logarithmic(name, last.0)),
        Across::Linear(name) => (name, Axis::exact(name, first.0, last.0, 8.0)),
    };
    let mut svg = Svg::new();
    let top = 36.0 + svg.heading((8.0, 20.0), LINE_WIDTH - 8.0, title);
    let y = Axis::covering(y_name, points.iter().map(|p| p.1), true, 4.0);
    let panel = Panel::new((64.0, top), (LINE_WIDTH - 94.0, 180.0), x, y);
    panel.draw(&mut svg, "", "");
    svg.slanted((16.0, top + 90.0), y_name, -90.0);
    // More points than pixels only enlarge the page.
    let step = points.len().div_ceil(2_000).max(1);
    let curve: Vec<_> = points.iter().step_by(step).map(|p| panel.at(*p)).collect();
    svg.path(&curve, BLUE, 1.5, "");
    let middle = f64::midpoint(panel.left, panel.right);
    svg.text((middle, panel.bottom + 36.0), Anchor::Middle, x_name);
    svg.inline(title, LINE_WIDTH, panel.bottom + 46.0)
}

/// Start and length of a part of the trace, in nanoseconds from its start.
pub(super) type Place = (u64, u64);

/// A table; cells are plain text. Numbers are aligned right.
pub(super) fn table(head: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    table_with_places(head, rows, &[])
}

/// A table whose rows have places in the trace: a last column with their start, which shows that
/// place in the timeline. Columns without any value are left out.
pub(super) fn table_with_places(
    head: &[impl AsRef<str>],
    rows: &[Vec<String>],
    places: &[Place],
) -> String {
    let cells = |i: usize| rows.iter().filter_map(move |row| row.get(i));
    let absent = |cell: &String| matches!(cell.as_str(), "" | "–" | "unknown");
    let class = |i: usize| {
        let numeric = cells(i).all(|cell| absent(cell) || cell.parse::<f64>().is_ok());
        if numeric { " class=\"n\"" } else { "" }
    };
    let has_values = |i: &usize| rows.is_empty() || cells(*i).any(|cell| !absent(cell));
    let columns: Vec<(usize, &str)> = (0..head.len())
        .filter(has_values)
        .map(|i| (i, class(i)))
        .collect();
    let mut out = String::from("<div class=\"wide\"><table><tr>");
    for (i, class) in &columns {
        let heading = head.get(*i).map_or("", AsRef::as_ref);
        let _ = write!(out, "<th{class}>{}</th>", escaped(heading));
    }
    if !places.is_empty() {
        out.push_str("<th class=\"n\">at s</th>");
    }
    out.push_str("</tr>");
    for (number, row) in rows.iter().enumerate() {
        out.push_str("<tr>");
        for (i, class) in &columns {
            let cell = row.get(*i).map_or("", String::as_str);
            let _ = write!(out, "<td{class}>{}</td>", escaped(cell));
        }
        if let Some((start, length)) = places.get(number) {
            let _ = write!(
                out,
                "<td class=\"n\"><button class=\"at\" data-us=\"{}\" data-length=\"{}\">{:.6}\
                 </button></td>",
                start / 1_000,
                length / 1_000,
                *start as f64 / 1e9
            );
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let row = Bar {
            label: "</svg><script>alert(1)</script>".into(),
            percent: 3.0,
            text: "\"x\"".into(),
            alarm: false,
        };
        let rows = [row];
        assert!(!bars("</title><script>", &rows).contains("<script"));
        assert!(!html_bars("\"><script>", &rows).contains("<script"));
        assert!(table(&["a"], &[vec!["<b>".into()]]).contains("&lt;b&gt;"));
        assert!(line("t", &[], Across::Linear("x"), "y").is_empty());
    }

    #[test]
    fn labels_of_bars_are_inside_the_picture() {
        let bar = |label: String, percent: f64| Bar {
            label,
            percent,
            text: format!("{percent:.2} %, 12345.678 s in 123456 episodes, anomalous"),
            alarm: false,
        };
        let rows = [
            bar("W".repeat(80), 92.18),
            bar("a.package.of.many.parts".into(), 2.0),
        ];
        let svg = bars("t", &rows);
        let mut seen = 0;
        let labels = svg
            .lines()
            .filter(|l| l.starts_with("<text ") && !l.contains("bold"));
        for line in labels.filter(|l| !l.contains("middle")) {
            let x = line
                .split("x=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap();
            let x: f64 = x.parse().unwrap();
            let text = line.split('>').nth(1).unwrap().split('<').next().unwrap();
            let width = text_width(text);
            let inside = match line.contains("text-anchor=\"end\"") {
                true => x >= width,
                false => x + width <= WIDTH,
            };
            assert!(inside, "clipped: {line}");
            seen += 1;
        }
        assert_eq!(seen, 4);
    }

    #[test]
    fn numbers_are_aligned_and_places_lead_to_the_timeline() {
        let rows = vec![["a 1", "–", "2.5"].map(str::to_owned).to_vec()];
        let head = ["name", "CPI", "ms"];
        let text = table_with_places(&head, &rows, &[(1_500_000_000, 2_000_000)]);
        for part in [
            "<th>name</th><th class=\"n\">ms</th><th class=\"n\">at s</th>",
            "<td>a 1</td><td class=\"n\">2.5</td>",
            "data-us=\"1500000\" data-length=\"2000\">1.500000</button>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
