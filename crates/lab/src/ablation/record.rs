//! Results of an ablation.

use serde::Serialize;

use super::effect::Effect;

/// A mechanism's effects.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Name of the mechanism.
    pub mechanism: &'static str,
    /// Whether all other mechanisms were left out.
    pub alone: bool,
    /// Effects by group of worlds.
    pub effects: Vec<Effect>,
    /// Change of the CPU time of all simulations without it.
    pub cpu: f64,
    /// Gains of at least 1 % by group whose 95 % interval excludes 0, in words.
    pub gains: Vec<String>,
    /// Costs of at least 1 %, likewise.
    pub costs: Vec<String>,
}

/// An ablation.
#[derive(Debug, Clone, Serialize)]
pub struct Ablation {
    /// Version of the source, where it is known.
    pub commit: String,
    /// Seeds of the settings.
    pub seed: Vec<u64>,
    /// Number of settings of each seed.
    pub settings: u32,
    /// Variants of each row.
    pub repeat: u32,
    /// Number of random worlds.
    pub worlds: u64,
    /// Worlds of all groups, each simulated with all configurations.
    pub subjects: usize,
    /// Number of configurations.
    pub configurations: usize,
    /// CPU time of all simulations, in s.
    pub cpu_s: f64,
    /// One for each mechanism left out, then one for each alone.
    pub findings: Vec<Finding>,
}
