//! Charts as SVG, shared by all crates that draw: one set of axes, colours, legends and forms.
//!
//! [`Chart`], [`BarChart`] and [`BoxChart`] are whole figures: numbers in, SVG out. Crates with
//! charts of other forms draw on an [`Svg`], place values with a [`Panel`] of two [`Axis`] and name
//! colours with a [`legend`].
//!
//! Colours remain distinct for colour-blind readers (after Okabe and Ito); dashes, markers and
//! hatching distinguish series in greyscale.
//!
//! ```
//! use mpbond_plot::{Axis, Panel, Svg};
//!
//! let seconds = Axis::exact("time", 0.0, 9.0, 8.0);
//! let power = Axis::covering("power", [120.0, 480.0], true, 4.0);
//! let panel = Panel::new((70.0, 40.0), (400.0, 150.0), seconds, power);
//! let mut svg = Svg::new();
//! panel.draw(&mut svg, " s", " mW");
//! svg.line(panel.at((0.0, 120.0)), panel.at((9.0, 480.0)), "#0072b2", 2.0);
//! let picture = svg.finish("Power over time", 500.0, 220.0);
//! assert!(picture.contains(">400 mW<") && picture.contains(">8 s<"));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod axis;
mod bars;
mod boxes;
mod chart;
mod legend;
mod page;
mod panel;
mod svg;
mod text;

pub use axis::{Axis, nice_step};
pub use bars::{Bar, BarChart, Group};
pub use boxes::{BoxChart, BoxRow, draw_box, whiskers};
pub use chart::{Chart, Form, Point, Series};
pub use legend::{Key, legend};
pub use page::PAGE_STYLE;
pub use panel::Panel;
pub use svg::{Anchor, Svg};
pub use text::{TEXT, cut_to, escaped, number, text_width};
