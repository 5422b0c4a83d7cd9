//! The result of a measurement.

use std::collections::BTreeMap;

use crate::report::{Check, SheetTable};

/// Figures by their keys, whose last part is the unit (`loss_share`, `error_us`), with `None` for
/// those that could not be measured; checks beside those of the file; tables, charts and notes.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) figures: BTreeMap<String, Option<f64>>,
    pub(super) checks: Vec<Check>,
    pub(super) tables: Vec<SheetTable>,
    pub(super) pictures: Vec<String>,
    pub(super) notes: Vec<String>,
}
