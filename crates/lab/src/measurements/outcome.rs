//! The result of a measurement.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::{Check, SheetTable};

/// Figures by their keys, whose last part is the unit (`loss_share`, `error_us`), with `None` for
/// those that could not be measured; checks beside those of the file; tables, charts and notes.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) figures: BTreeMap<String, Option<f64>>,
    /// The 95 % intervals of those figures that have one.
    pub(super) intervals: BTreeMap<String, (f64, f64)>,
    /// Keys of figures that are too inexact for a verdict.
    pub(super) inexact: BTreeSet<String>,
    pub(super) checks: Vec<Check>,
    pub(super) tables: Vec<SheetTable>,
    pub(super) pictures: Vec<String>,
    pub(super) notes: Vec<String>,
}
