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

impl Outcome {
    /// The interval of a figure that is exact enough for a verdict.
    pub(super) fn deciding_interval(&self, of: &str) -> Option<(f64, f64)> {
        let interval = self.intervals.get(of).copied();
        interval.filter(|_| !self.inexact.contains(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inexact_figure_decides_nothing() {
        let mut outcome = Outcome::default();
        let key = "less: saving_share";
        outcome.intervals.insert(key.to_owned(), (0.1, 0.2));
        assert_eq!(outcome.deciding_interval(key), Some((0.1, 0.2)));
        assert_eq!(outcome.deciding_interval("more: saving_share"), None);
        outcome.inexact.insert(key.to_owned());
        assert_eq!(outcome.deciding_interval(key), None);
    }
}
