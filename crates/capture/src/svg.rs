//! What pictures share: frame, axes, escaping.

use std::fmt::Write as _;

/// The beginning of an image, with its title.
pub(crate) fn frame(width: f64, height: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"70\" y=\"20\" font-size=\"15\">{title}</text>\n"
    )
}

/// A vertical axis from zero.
pub(crate) struct Axis {
    limit: f64,
    step: f64,
    top: f64,
    height: f64,
}

impl Axis {
    /// One that reaches `highest`.
    pub(crate) fn new(highest: f64, top: f64, height: f64) -> Self {
        let step = nice_step(highest / 4.0);
        Self {
            limit: (highest / step).ceil().max(1.0) * step,
            step,
            top,
            height,
        }
    }

    /// Where a value stands.
    pub(crate) fn at(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - value / self.limit)
    }

    /// Lines and labels.
    pub(crate) fn draw(&self, svg: &mut String, left: f64, right: f64) {
        let mut value = 0.0;
        while value <= self.limit * 1.001 {
            let y = self.at(value);
            let _ = writeln!(
                svg,
                "<line x1=\"{left}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" \
                 stroke=\"#dddddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                label(value)
            );
            value += self.step;
        }
    }
}

/// Seconds along the bottom.
pub(crate) fn time_axis(
    svg: &mut String,
    (begin, end): (f64, f64),
    x_of: impl Fn(f64) -> f64,
    y: f64,
) {
    let step = nice_step((end - begin) / 8.0);
    let mut s = (begin / step).ceil() * step;
    while s <= end * 1.0001 {
        let x = x_of(s);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y:.1}\" y2=\"{:.1}\" stroke=\"#333333\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            y + 4.0,
            y + 17.0,
            label(s)
        );
        s += step;
    }
}

fn label(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn nice_step(least: f64) -> f64 {
    let least = least.max(1e-6);
    let ten = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|n| n * ten)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(ten * 10.0)
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
