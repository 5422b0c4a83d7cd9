//! Figures of a run, as text and as JSON.

use serde::Serialize;

/// One figure.
#[derive(Debug, Serialize)]
pub struct Row {
    phase: &'static str,
    what: String,
    value: f64,
    unit: &'static str,
    /// Whether the figure is within its bound, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// All figures of a run; each is printed when it is measured.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    pub rows: Vec<Row>,
}

impl Table {
    fn push(&mut self, row: Row) {
        let value = match row.value {
            v if v.fract() == 0.0 => format!("{v:.0}"),
            v if v.abs() >= 100.0 => format!("{v:.0}"),
            v if v.abs() >= 1.0 => format!("{v:.1}"),
            v => format!("{v:.3}"),
        };
        let verdict = match (row.holds, &row.target) {
            (Some(true), Some(t)) => format!("   target {t}   reached"),
            (Some(false), Some(t)) => format!("   target {t}   MISSED"),
            _ => String::new(),
        };
        println!(
            "{:<9} {:<52} {value:>10} {}{verdict}",
            row.phase, row.what, row.unit
        );
        self.rows.push(row);
    }

    /// Adds a figure without a bound.
    pub fn figure(
        &mut self,
        phase: &'static str,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) {
        self.push(Row {
            phase,
            what: what.into(),
            value,
            unit,
            holds: None,
            target: None,
        });
    }

    /// Adds a figure with a bound.
    pub fn promise(
        &mut self,
        phase: &'static str,
        what: impl Into<String>,
        (value, unit): (f64, &'static str),
        target: impl Into<String>,
        holds: bool,
    ) {
        self.push(Row {
            phase,
            what: what.into(),
            value,
            unit,
            holds: Some(holds),
            target: Some(target.into()),
        });
    }

    /// Number of figures with a bound, and of those beyond theirs.
    pub fn verdict(&self) -> (usize, usize) {
        let promises = || self.rows.iter().filter_map(|r| r.holds);
        (promises().count(), promises().filter(|h| !h).count())
    }
}

/// Quantile of `values`.
pub fn percentile(values: &mut [u64], share: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_unstable();
    let last = values.len() - 1;
    values[((last as f64 * share).round() as usize).min(last)] as f64
}

/// Jain's index: 1 for equal shares, 1/n when one of n has everything.
pub fn jain(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|v| *v as f64).sum();
    let squares: f64 = values.iter().map(|v| (*v as f64).powi(2)).sum();
    if squares == 0.0 {
        return f64::NAN;
    }
    sum * sum / (values.len() as f64 * squares)
}
