//! Options of a simulation.

use std::path::PathBuf;

/// Options of a simulation.
#[derive(Debug, Clone, Default)]
pub struct SimulateOptions {
    /// Number of seeds; by default the experiment's repetitions.
    pub seeds: Option<u32>,
    /// First seed; by default the experiment's.
    pub first_seed: Option<u64>,
    /// File for the record, as JSON.
    pub json: Option<PathBuf>,
    /// File for a page of tables and pictures.
    pub html: Option<PathBuf>,
    /// Only schemes whose name contains one of these; all when empty.
    pub schemes: Vec<String>,
    /// Only workloads whose name contains one of these; all when empty.
    pub workloads: Vec<String>,
    /// Number of threads; by default that of processors. Results do not depend on it.
    pub threads: Option<usize>,
    /// Whether to print neither progress nor tables.
    pub quiet: bool,
}
