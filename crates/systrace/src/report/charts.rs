//! The paper's figures as inline SVG and tables.

use std::fmt::Write as _;

use mpbond_plot::escaped;

/// Horizontal bars: label, share in percent, text behind the bar.
pub(super) fn bars(rows: &[(String, f64, String)]) -> String {
    const ROW: usize = 22;
    const LEFT: usize = 260;
    const WIDE: f64 = 400.0;
    let top = rows.iter().map(|r| r.1).fold(0.0, f64::max).max(1e-9);
    let height = rows.len() * ROW + 4;
    let mut out = format!("<svg class=\"bars\" viewBox=\"0 0 860 {height}\" role=\"img\">");
    for (i, (label, value, text)) in rows.iter().enumerate() {
        let y = i * ROW;
        let width = (value / top * WIDE).clamp(0.0, WIDE);
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{LEFT}\" y=\"{}\" width=\"{width:.1}\" height=\"14\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
            LEFT - 8,
            y + 15,
            escaped(&shorten(label, 38)),
            y + 4,
            LEFT as f64 + width + 6.0,
            y + 15,
            escaped(text)
        );
    }
    out.push_str("</svg>");
    out
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

/// A line over a plain or logarithmic x axis. Points are (x, y), y from 0.
pub(super) fn line(points: &[(f64, f64)], log_x: bool, x_name: &str, y_name: &str) -> String {
    const WIDE: f64 = 760.0;
    const HIGH: f64 = 180.0;
    const LEFT: f64 = 50.0;
    if points.is_empty() {
        return String::new();
    }
    let scale = |x: f64| if log_x { x.max(1.0).log10() } else { x };
    let first = scale(points.first().map_or(0.0, |p| p.0));
    let last = scale(points.last().map_or(1.0, |p| p.0)).max(first + 1e-9);
    let top = points.iter().map(|p| p.1).fold(0.0, f64::max).max(1e-9);
    let mut path = String::new();
    // More points than pixels only make the page heavy.
    let step = points.len().div_ceil(2_000).max(1);
    for (i, (x, y)) in points.iter().step_by(step).enumerate() {
        let px = LEFT + (scale(*x) - first) / (last - first) * WIDE;
        let py = 10.0 + HIGH - y / top * HIGH;
        let _ = write!(path, "{}{px:.1} {py:.1}", if i == 0 { "M" } else { "L" });
    }
    format!(
        "<svg class=\"line\" viewBox=\"0 0 860 230\" role=\"img\"><path d=\"M{LEFT} 10V{0}H{1}\" class=\"axis\"/><path d=\"{path}\" class=\"curve\"/><text x=\"{LEFT}\" y=\"{2}\">{3}</text><text x=\"{1}\" y=\"{2}\" text-anchor=\"end\">{4}</text><text x=\"44\" y=\"18\" text-anchor=\"end\">{5}</text><text x=\"44\" y=\"{0}\" text-anchor=\"end\">0</text></svg>",
        10.0 + HIGH,
        LEFT + WIDE,
        10.0 + HIGH + 18.0,
        escaped(x_name),
        number(points.last().map_or(0.0, |p| p.0)),
        escaped(&format!("{} {y_name}", number(top))),
    )
}

fn number(v: f64) -> String {
    if v >= 100.0 || v.fract() == 0.0 {
        format!("{v:.0}")
    } else {
        format!("{v:.2}")
    }
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
    fn names_cannot_leave_their_place() {
        let out = bars(&[(
            "</svg><script>alert(1)</script>".into(),
            3.0,
            "\"x\"".into(),
        )]);
        assert!(!out.contains("<script"));
        assert!(table(&["a"], &[vec!["<b>".into()]]).contains("&lt;b&gt;"));
        assert!(line(&[], true, "x", "y").is_empty());
    }
}
