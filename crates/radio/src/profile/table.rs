//! Figures that depend on another quantity: powers by signal strength, currents by frequency.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::param::Sure;

/// Maximum number of rows; real tables have a few dozen.
const MAX_ROWS: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    columns: Vec<String>,
    rows: Vec<Vec<f64>>,
    sure: Sure,
    source: String,
}

/// Rows of `1 + N` numbers, in ascending order of the first.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<const N: usize> {
    rows: Vec<(f64, [f64; N])>,
    /// Names and units of the columns, as in the profile.
    pub columns: Vec<String>,
    /// Confidence.
    pub sure: Sure,
    /// Source of the figures.
    pub source: String,
}

impl<const N: usize> Table<N> {
    /// Values at `x`, interpolated linearly between rows and constant beyond the first and last.
    pub fn at(&self, x: f64) -> [f64; N] {
        let above = self.rows.partition_point(|(key, _)| *key <= x);
        let low = self.rows.get(above.wrapping_sub(1));
        match (low, self.rows.get(above)) {
            (Some((x0, y0)), Some((x1, y1))) => {
                let part = (x - x0) / (x1 - x0);
                std::array::from_fn(|i| y0[i] + (y1[i] - y0[i]) * part)
            }
            (Some((_, y)), None) | (None, Some((_, y))) => *y,
            (None, None) => [0.0; N],
        }
    }

    /// Rows as written, the first column apart.
    pub fn rows(&self) -> &[(f64, [f64; N])] {
        &self.rows
    }
}

impl<'de, const N: usize> Deserialize<'de> for Table<N> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(d)?;
        let wrong = |message: String| Err(D::Error::custom(message));
        if raw.columns.len() != N + 1 {
            return wrong(format!("a table of {} columns is required", N + 1));
        }
        if raw.rows.is_empty() || raw.rows.len() > MAX_ROWS {
            return wrong(format!("1 to {MAX_ROWS} rows are required"));
        }
        if raw.source.trim().is_empty() {
            return wrong("a table must name its source".to_owned());
        }
        let mut rows = Vec::with_capacity(raw.rows.len());
        for (i, row) in raw.rows.iter().enumerate() {
            let [key, values @ ..] = row.as_slice() else {
                return wrong(format!("row {} is empty", i + 1));
            };
            let Ok(values) = <[f64; N]>::try_from(values) else {
                return wrong(format!("row {} needs {} numbers", i + 1, N + 1));
            };
            if !key.is_finite() || values.iter().any(|v| !v.is_finite() || *v < 0.0) {
                return wrong(format!("row {}: values must not be negative", i + 1));
            }
            rows.push((*key, values));
        }
        if rows.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return wrong(format!(
                "rows must be in ascending order of {}",
                raw.columns[0]
            ));
        }
        Ok(Self {
            rows,
            columns: raw.columns,
            sure: raw.sure,
            source: raw.source,
        })
    }
}
