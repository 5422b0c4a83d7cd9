//! Bar charts, line charts and tables of the report: bars of a page are HTML, which fits narrow
//! screens; those of picture files are SVG.

use std::fmt::Write as _;

use mpbond_plot::{Anchor, Axis, Panel, Svg, escaped, text_width};

/// Width of pictures with bars.
const WIDTH: f64 = 860.0;
/// Width of line charts: on a telephone their text stays readable.
const LINE_WIDTH: f64 = 560.0;
const BLUE: &str = "#3b6fb6";

/// A bar: label, share in percent, text behind the bar, and whether it is an anomaly.
pub(super) struct Bar {
    pub label: String,
    pub percent: f64,
    pub text: String,
    pub alarm: bool,
}

/// Horizontal bars as HTML.
pub(super) fn html_bars(title: &str, rows: &[Bar]) -> String {
    let top = rows.iter().map(|r| r.percent).fold(0.0, f64::max).max(1e-9);
    let mut out = format!("<div class=\"bars\" aria-label=\"{}\">", escaped(title));
    for row in rows {
        let width = (row.percent / top * 100.0).clamp(0.0, 100.0);
        let alarm = if row.alarm { " alarm" } else { "" };
        let _ = write!(
            out,
            "<div><span class=\"name\">{}</span><span class=\"bar{alarm}\"><i \
             style=\"width:{width:.1}%\"></i></span><span>{}</span></div>",
            escaped(&row.label),
            escaped(&row.text)
        );
    }
    out.push_str("</div>");
    out
}

/// Horizontal bars as SVG.
pub(super) fn bars(title: &str, rows: &[Bar]) -> String {
    const ROW: f64 = 22.0;
    const LEFT: f64 = 270.0;
    let top = rows.iter().map(|r| r.percent).fold(0.0, f64::max).max(1e-9);
    let widest = rows.iter().map(|r| text_width(&r.text)).fold(0.0, f64::max);
    // Labels and texts have room on both sides.
    let wide = WIDTH - LEFT - widest - 12.0;
    let mut svg = Svg::new();
    for (i, row) in rows.iter().enumerate() {
        let y = i as f64 * ROW;
        let width = (row.percent / top * wide).clamp(0.0, wide);
        let label = shorten(&row.label, LEFT - 12.0);
        svg.text((LEFT - 8.0, y + 15.0), Anchor::End, &label);
        svg.rect((LEFT, y + 4.0), (width, 14.0), BLUE);
        svg.text((LEFT + width + 6.0, y + 15.0), Anchor::Start, &row.text);
    }
    svg.inline(title, WIDTH, rows.len() as f64 * ROW + 4.0)
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

/// A line over a linear or logarithmic x axis; y begins at zero. Empty without points.
pub(super) fn line(points: &[(f64, f64)], log_x: bool, x_name: &str, y_name: &str) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let x = match log_x {
        true => Axis::logarithmic(x_name, last.0),
        false => Axis::exact(x_name, first.0, last.0, 8.0),
    };
    let y = Axis::covering(y_name, points.iter().map(|p| p.1), true, 4.0);
    let panel = Panel::new((64.0, 28.0), (LINE_WIDTH - 94.0, 180.0), x, y);
    let mut svg = Svg::new();
    svg.text((10.0, 16.0), Anchor::Start, y_name);
    panel.draw(&mut svg, "", "");
    // More points than pixels only enlarge the page.
    let step = points.len().div_ceil(2_000).max(1);
    let curve: Vec<_> = points.iter().step_by(step).map(|p| panel.at(*p)).collect();
    svg.path(&curve, BLUE, 1.5, "");
    let middle = f64::midpoint(panel.left, panel.right);
    svg.text((middle, 244.0), Anchor::Middle, x_name);
    svg.inline(&format!("{y_name} by {x_name}"), LINE_WIDTH, 252.0)
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
        assert!(line(&[], true, "x", "y").is_empty());
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
        for line in svg.lines().filter(|l| l.starts_with("<text ")) {
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
