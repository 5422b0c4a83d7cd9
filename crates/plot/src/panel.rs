//! Plot areas: two axes at a place in the image.

use crate::axis::Axis;
use crate::svg::{Anchor, Svg};

const GRID: &str = "#dddddd";
const FRAME: &str = "#333333";

/// A rectangular plot area with its two axes.
#[derive(Debug, Clone)]
pub struct Panel {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Left edge.
    pub left: f64,
    /// Right edge.
    pub right: f64,
    /// Top edge.
    pub top: f64,
    /// Bottom edge.
    pub bottom: f64,
}

impl Panel {
    /// A panel with its top left corner at a point.
    pub fn new((left, top): (f64, f64), (width, height): (f64, f64), x: Axis, y: Axis) -> Self {
        Self {
            x,
            y,
            left,
            right: left + width,
            top,
            bottom: top + height,
        }
    }

    /// Horizontal position of a value.
    pub fn x_of(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.share(value)
    }

    /// Vertical position of a value.
    pub fn y_of(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.share(value)
    }

    /// Position of a pair of values.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x_of(x), self.y_of(y))
    }

    /// Draws grid, ticks and labels of both axes; the suffixes are appended to tick labels.
    pub fn draw(&self, svg: &mut Svg, x_suffix: &str, y_suffix: &str) {
        self.draw_y(svg, y_suffix);
        self.draw_x(svg, self.bottom, x_suffix);
    }

    /// Draws the grid lines and labels of the vertical axis.
    pub fn draw_y(&self, svg: &mut Svg, suffix: &str) {
        for (value, text) in self.y.ticks() {
            let y = self.y_of(value);
            svg.line((self.left, y), (self.right, y), GRID, 1.0);
            let text = format!("{text}{suffix}");
            svg.text((self.left - 6.0, y + 4.0), Anchor::End, &text);
        }
    }

    /// Draws the horizontal axis at height `y`, which is the bottom edge or below, and its grid
    /// lines.
    pub fn draw_x(&self, svg: &mut Svg, y: f64, suffix: &str) {
        for (value, text) in self.x.ticks() {
            let x = self.x_of(value);
            svg.line((x, self.top), (x, y), GRID, 1.0);
            svg.line((x, y), (x, y + 4.0), FRAME, 1.0);
            svg.text((x, y + 17.0), Anchor::Middle, &format!("{text}{suffix}"));
        }
        svg.line((self.left, y), (self.right, y), FRAME, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_edges() {
        let x = Axis::exact("s", 0.0, 10.0, 5.0);
        let y = Axis::covering("mW", [3.0, 80.0], true, 4.0);
        let panel = Panel::new((50.0, 20.0), (100.0, 200.0), x, y);
        assert_eq!(panel.at((0.0, 0.0)), (50.0, 220.0));
        assert_eq!(panel.at((10.0, 80.0)), (150.0, 20.0));
        let mut svg = Svg::new();
        panel.draw(&mut svg, " s", " mW");
        let svg = svg.finish("t", 200.0, 250.0);
        assert!(svg.contains(">80 mW<") && svg.contains(">10 s<"), "{svg}");
    }
}
