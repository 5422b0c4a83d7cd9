//! Bar charts, line charts and tables of the HTML report.

use std::fmt::Write as _;

use mpbond_plot::{Anchor, Axis, Panel, Svg, escaped};

const WIDTH: f64 = 860.0;
const BLUE: &str = "#3b6fb6";

/// Horizontal bars: label, share in percent, text behind the bar.
pub(super) fn bars(title: &str, rows: &[(String, f64, String)]) -> String {
    const ROW: f64 = 22.0;
    const LEFT: f64 = 260.0;
    const WIDE: f64 = 400.0;
    let top = rows.iter().map(|r| r.1).fold(0.0, f64::max).max(1e-9);
    let mut svg = Svg::new();
    for (i, (label, value, text)) in rows.iter().enumerate() {
        let y = i as f64 * ROW;
        let width = (value / top * WIDE).clamp(0.0, WIDE);
        svg.text((LEFT - 8.0, y + 15.0), Anchor::End, &shorten(label, 38));
        svg.rect((LEFT, y + 4.0), (width, 14.0), BLUE);
        svg.text((LEFT + width + 6.0, y + 15.0), Anchor::Start, text);
    }
    svg.inline(title, WIDTH, rows.len() as f64 * ROW + 4.0)
}

fn shorten(text: &str, most: usize) -> String {
    let n = text.chars().count();
    if n <= most {
        return text.to_owned();
    }
    // The end of a name tells more than its package.
    let tail: String = text.chars().skip(n - most + 1).collect();
    format!("…{tail}")
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
    let panel = Panel::new((56.0, 28.0), (760.0, 180.0), x, y);
    let mut svg = Svg::new();
    svg.text((10.0, 16.0), Anchor::Start, y_name);
    panel.draw(&mut svg, "", "");
    // More points than pixels only enlarge the page.
    let step = points.len().div_ceil(2_000).max(1);
    let curve: Vec<_> = points.iter().step_by(step).map(|p| panel.at(*p)).collect();
    svg.path(&curve, BLUE, 1.5, "");
    svg.text((436.0, 244.0), Anchor::Middle, x_name);
    svg.inline(&format!("{y_name} by {x_name}"), WIDTH, 250.0)
}

/// A table; cells are plain text.
pub(super) fn table(head: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<table><tr>");
    for h in head {
        let _ = write!(out, "<th>{}</th>", escaped(h.as_ref()));
    }
    out.push_str("</tr>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escaped(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let row = (
            "</svg><script>alert(1)</script>".into(),
            3.0,
            "\"x\"".into(),
        );
        let out = bars("</title><script>", &[row]);
        assert!(!out.contains("<script"));
        assert!(table(&["a"], &[vec!["<b>".into()]]).contains("&lt;b&gt;"));
        assert!(line(&[], true, "x", "y").is_empty());
    }
}
