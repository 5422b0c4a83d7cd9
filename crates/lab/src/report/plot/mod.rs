//! Pictures in the form of the papers' figures, as SVG: grouped bars, and
//! everything that has two axes. Pure: numbers in, text out.
//!
//! Colours stay apart for colour-blind eyes (after Okabe and Ito); dashes,
//! markers and hatching tell series apart on grey paper.

mod axis;
mod bars;
mod chart;
mod svg;

pub(crate) use bars::{Bar, BarChart, Group};
pub(crate) use chart::{Chart, Form, Point, Series};
