//! Options of an ablation.

use std::path::PathBuf;

use mpbond_sim::world::Mechanism;

/// Options of an ablation.
#[derive(Debug, Clone)]
pub struct AblationOptions {
    /// Number of settings of the survey, of each seed.
    pub settings: u32,
    /// Seeds of the settings.
    pub seed: Vec<u64>,
    /// Variants of each row in virtual time.
    pub repeat: u32,
    /// Number of random worlds.
    pub worlds: u64,
    /// Mechanisms; all if there are none.
    pub mechanisms: Vec<Mechanism>,
    /// File for the record, as JSON.
    pub json: Option<PathBuf>,
    /// File for a page of tables.
    pub html: Option<PathBuf>,
    /// File for the tables as Markdown.
    pub markdown: Option<PathBuf>,
    /// Number of threads; by default that of processors. Results but CPU times do not depend on it.
    pub threads: Option<usize>,
    /// Whether to print neither progress nor tables.
    pub quiet: bool,
}
