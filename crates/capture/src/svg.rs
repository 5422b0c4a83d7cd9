//! Axes of pictures.

use std::fmt::Write as _;

use mpbond_plot::{nice_step, number};

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
                number(value, 3)
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
            number(s, 3)
        );
        s += step;
    }
}
