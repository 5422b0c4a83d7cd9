//! Legends.

use crate::svg::{Anchor, Svg, colour, dash};
use crate::text::{TEXT, cut_to, text_width};

/// Swatch of a legend entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Key {
    /// Bar in the style of a series.
    Bar(usize),
    /// Line in the style of a series.
    Line(usize),
    /// Marker in the style of a series.
    Marker(usize),
    /// Square of a colour.
    Colour(&'static str),
    /// Dashed black line: a bound or another reference.
    Reference,
}

/// Draws a legend between `left` and `right` in as many rows as it needs; returns the y coordinate
/// below it. A name that is wider than a row is cut, with the whole name as tooltip.
pub fn legend(svg: &mut Svg, entries: &[(Key, String)], left: f64, right: f64, top: f64) -> f64 {
    const ROW: f64 = 18.0;
    const GAP: f64 = 16.0;
    let (mut x, mut y) = (left, top + TEXT);
    for (key, name) in entries {
        let swatch = match key {
            Key::Colour(_) => 12.0,
            _ => 24.0,
        };
        let shown = cut_to(name, right - left - swatch - 6.0);
        let width = swatch + 6.0 + text_width(&shown) + 16.0;
        if x > left && x + width > right {
            x = left;
            y += ROW;
        }
        let middle = y - TEXT * 0.35;
        match key {
            Key::Bar(style) => svg.bar((x + 6.0, y - 10.0), (14.0, 12.0), *style),
            Key::Colour(colour) => svg.rect((x, y - 10.0), (swatch, 12.0), colour),
            Key::Line(style) => svg.path(
                &[(x, middle), (x + swatch, middle)],
                colour(*style),
                2.0,
                dash(*style),
            ),
            Key::Marker(style) => svg.marker((x + 14.0, middle), *style, 4.5, 1.0),
            Key::Reference => {
                svg.path(&[(x, middle), (x + swatch, middle)], "#000000", 1.6, "4 3");
            }
        }
        let at = (x + swatch + 6.0, y);
        if shown == *name {
            svg.text(at, Anchor::Start, name);
        } else {
            svg.titled(name, |svg| svg.text(at, Anchor::Start, &shown));
        }
        x += width;
    }
    y + GAP
}
