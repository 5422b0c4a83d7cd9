//! Pipe throughput by distance: Figure 2 of the MPBond paper for any measurements.

use std::path::PathBuf;

use mpbond_sim::trace::{self, DistanceBin, DistanceForm};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::figures::grid::Grid;
use crate::recordings::text_of;

/// Distributions of throughput by steps of distance.
#[derive(Debug, Serialize)]
pub struct DistanceReport {
    /// The steps, by condition, then by distance.
    pub bins: Vec<DistanceBin>,
}

/// Reads tables of distances and rates, and groups their rates by steps of `step_m` metres.
///
/// # Errors
/// [`Error::Experiment`] naming the wrong file and line.
pub fn distances(files: &[PathBuf], form: &DistanceForm, step_m: f64) -> Result<DistanceReport> {
    if !(0.01..=1e6).contains(&step_m) {
        let message = "the step must be 0.01 m to 1000 km".into();
        return Err(Error::Experiment(message));
    }
    let mut all = Vec::new();
    for path in files {
        let file = path.display().to_string();
        let read = trace::parse_distances(&file, &text_of(path)?, form);
        all.extend(read.map_err(|e| Error::Experiment(e.to_string()))?);
    }
    Ok(DistanceReport {
        bins: trace::by_distance(&all, step_m),
    })
}

impl DistanceReport {
    /// The report as a table.
    pub fn to_text(&self) -> String {
        let header = [
            "condition",
            "metres",
            "samples",
            "mean",
            "p5",
            "p25",
            "median",
            "p75",
            "p95",
        ];
        let mut table = Grid::new(header, &[0, 1]);
        for bin in &self.bins {
            let t = bin.throughput_mbps;
            let mut row = vec![
                bin.condition.clone(),
                format!("{} to {}", bin.from_m, bin.to_m),
                bin.samples.to_string(),
            ];
            row.extend([t.mean, t.p5, t.p25, t.p50, t.p75, t.p95].map(|v| format!("{v:.2}")));
            table.row(row);
        }
        format!("Mbit/s\n{}\n", table.to_text())
    }
}
