//! Comparison of published figures with ours.

use crate::experiment::{Experiment, PaperFigure, Published};
use crate::figures::paired::{differences, fit_of, ratios};
use crate::figures::quantity::Quantity;
use crate::figures::statistics::estimate;
use crate::record::{Comparison, Estimate, Standing, Transfer};

/// A comparison for every published figure and every workload that has run.
pub(crate) fn comparisons(e: &Experiment, transfers: &[Transfer]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for paper in &e.papers {
        for workload in paper.workloads(e) {
            let ran = |d: &Transfer| d.workload == workload && d.name == *paper.scheme.get_ref();
            if transfers.iter().any(ran) {
                all.push(compare(e, paper, workload, transfers));
            }
        }
    }
    all
}

fn compare(e: &Experiment, p: &PaperFigure, workload: &str, transfers: &[Transfer]) -> Comparison {
    let scheme = p.scheme.get_ref();
    let versus = p.versus.as_ref().map(|v| v.get_ref().as_str());
    let named = p.model.as_ref().map(|m| m.get_ref().clone());
    let first = || e.energy.first().map(|m| m.name.get_ref().clone());
    let measure = Measure {
        quantity: p.quantity,
        model: p
            .quantity
            .is_energy()
            .then(|| named.or_else(first))
            .flatten(),
    };
    let ours = match versus {
        Some(other) if p.more.is_some() => measure.more(workload, scheme, other, transfers),
        Some(other) => measure.change_percent(workload, scheme, other, transfers),
        None => measure.estimate(workload, scheme, transfers),
    };
    let published = p.change_percent.or(p.more).or(p.value);
    // The checks of the file exclude none.
    let (low, high) = published.map_or((f64::NAN, f64::NAN), Published::ends);
    Comparison {
        figure: p.figure.get_ref().clone(),
        workload: workload.to_owned(),
        scheme: scheme.clone(),
        versus: versus.map(str::to_owned),
        is_difference: p.more.is_some(),
        quantity: p.quantity,
        model: measure.model,
        published: (low, high),
        note: p.note.clone(),
        standing: ours.map(|ours| standing((low, high), p.quantity, ours)),
        ours,
    }
}

/// A quantity with its energy model.
pub(crate) struct Measure {
    pub quantity: Quantity,
    pub model: Option<String>,
}

impl Measure {
    /// The value of one transfer.
    pub fn of(&self, d: &Transfer) -> Option<f64> {
        self.quantity.of(d, self.model.as_deref())
    }

    /// Statistics over all fit repetitions of a scheme.
    pub fn estimate(&self, workload: &str, scheme: &str, all: &[Transfer]) -> Option<Estimate> {
        estimate(fit_of(all, scheme, workload).filter_map(|d| self.of(d)))
    }

    /// Change from `other` to `scheme` in percent, paired by repetition so that disturbances affect
    /// both.
    pub fn change_percent(
        &self,
        workload: &str,
        scheme: &str,
        other: &str,
        all: &[Transfer],
    ) -> Option<Estimate> {
        let model = self.model.as_deref();
        let kinds = ((scheme, workload), (other, workload));
        let ratios = ratios(all, kinds, self.quantity, model);
        estimate(ratios.map(|ratio| (ratio - 1.0) * 100.0))
    }

    /// How much more `scheme` has than `other`, in the unit of the quantity, paired likewise.
    fn more(
        &self,
        workload: &str,
        scheme: &str,
        other: &str,
        all: &[Transfer],
    ) -> Option<Estimate> {
        let model = self.model.as_deref();
        let kinds = ((scheme, workload), (other, workload));
        estimate(differences(all, kinds, self.quantity, model))
    }
}

/// Relation of our mean to the published range.
fn standing((low, high): (f64, f64), quantity: Quantity, ours: Estimate) -> Standing {
    if (low..=high).contains(&ours.mean) {
        return Standing::Within;
    }
    let reaches = |(from, to): (f64, f64)| from <= high && low <= to;
    let better = (ours.mean < low) == quantity.less_is_better();
    match (better, ours.mean_interval.is_some_and(reaches)) {
        (true, false) => Standing::Better,
        (true, true) => Standing::PerhapsBetter,
        (false, true) => Standing::PerhapsWorse,
        (false, false) => Standing::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_by_repetition() {
        let all = [
            Transfer::for_test("a", 0, 0.9),
            Transfer::for_test("b", 0, 1.0),
            Transfer::for_test("a", 1, 2.4),
            Transfer::for_test("b", 1, 3.0),
            Transfer::for_test("a", 2, 7.0), // nothing to compare it with
        ];
        let change = |quantity| {
            let measure = Measure {
                quantity,
                model: None,
            };
            measure.change_percent("w", "a", "b", &all)
        };
        let slower = change(Quantity::Seconds).unwrap();
        assert!((slower.mean - -15.0).abs() < 1e-9, "{slower:?}");
        let faster = change(Quantity::Mbps).unwrap();
        let expected = (1.0 / 0.9 - 1.0 + 3.0 / 2.4 - 1.0) * 50.0;
        assert!((faster.mean - expected).abs() < 1e-9, "{faster:?}");
        assert!(change(Quantity::Joules).is_none());
    }

    #[test]
    fn values_are_compared_with_published_ones() {
        let of = |values: &[f64], quantity| {
            standing(
                (-11.0, -5.0),
                quantity,
                estimate(values.iter().copied()).unwrap(),
            )
        };
        let q = Quantity::Seconds;
        assert_eq!(of(&[-11.0, -6.0], q), Standing::Within);
        let far = [-20.0, -21.0, -20.0, -21.0];
        assert_eq!(of(&far, q), Standing::Better);
        assert_eq!(of(&far, Quantity::Mbps), Standing::Worse);
        // Two values give a wide interval: here 19 either way.
        assert_eq!(of(&[-20.0, -23.0], q), Standing::PerhapsBetter);
        // With values so far apart, -4 cannot be told from -5.
        assert_eq!(of(&[-8.0, 0.0, -4.0], q), Standing::PerhapsWorse);
        assert_eq!(of(&[-2.0, -2.1, -2.2], q), Standing::Worse);
        assert_eq!(of(&[-2.0], q), Standing::Worse);
    }
}
