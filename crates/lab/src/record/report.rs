//! The record of a whole run.

use serde::{Deserialize, Serialize};

use super::judgement::{Comparison, Judgement};
use super::summary::Summary;
use super::transfer::Transfer;

/// The result of running an experiment, as kept in its JSON file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunReport {
    /// Name of the experiment.
    pub experiment: String,
    /// Title of the experiment.
    pub title: String,
    /// Start of the run, UTC (RFC 3339).
    pub date: String,
    /// Commit of the repository, followed by `-dirty` when files were changed; `None` outside a
    /// repository.
    pub commit: Option<String>,
    /// Kernel release; empty for a simulation.
    pub kernel: String,
    /// Seeds of a simulation; `None` for a run in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
    /// All transfers, in the order in which they ran.
    pub transfers: Vec<Transfer>,
    /// Statistics for each scheme and workload.
    pub summary: Vec<Summary>,
    /// The experiment's asserts, judged.
    pub asserts: Vec<Judgement>,
    /// Published figures beside ours.
    #[serde(default)]
    pub paper: Vec<Comparison>,
    /// Text of the experiment file.
    #[serde(default)]
    pub file: Option<String>,
    /// Progress by the fluid bound; of the first schemes and workloads only, where there are many.
    #[serde(default)]
    pub ideal: Vec<IdealProgress>,
    /// Parts that were left out to shorten the run.
    #[serde(default)]
    pub reduced: Option<String>,
}

/// Seeds and scope of a run in virtual time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulated {
    /// Seed of the first repetition; each further repetition uses the next one.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: u32,
    /// Parts of the experiment that cannot be simulated, with reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// Progress of a transfer by the fluid bound.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdealProgress {
    /// Name of the scheme.
    pub scheme: String,
    /// Name of the workload.
    pub workload: String,
    /// Seconds since the start, and bytes that could have arrived by then.
    pub points: Vec<(f64, u64)>,
}

/// Verdict on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every file arrived intact, and every assert holds.
    Passed,
    /// A file arrived damaged, or an assert does not hold.
    Failed,
    /// Nothing failed, but something could not be judged: values are missing, or all transfers of a
    /// scheme and workload are unfit.
    Unfit,
}

impl Simulated {
    /// The seeds in words.
    pub(crate) fn seeds_text(&self) -> String {
        let last = self.first_seed + u64::from(self.seeds.max(1)) - 1;
        match self.seeds {
            1 => format!("seed {last}"),
            _ => format!("seeds {} to {last}", self.first_seed),
        }
    }
}

impl RunReport {
    /// Kernel or seeds of the run, in words.
    pub(crate) fn place_text(&self) -> String {
        match &self.simulated {
            Some(simulated) => format!("in virtual time, {}", simulated.seeds_text()),
            None => format!("Linux {}", self.kernel),
        }
    }

    /// Number of published figures that are reached, in words; `None` without published figures.
    pub fn published_words(&self) -> Option<String> {
        let reached = self.paper.iter().filter(|c| c.is_reached()).count();
        let all = self.paper.len();
        (all > 0).then(|| format!("{reached} of {all} reached"))
    }

    /// Verdict on the run: whether files arrived intact, and the experiment's own asserts hold.
    /// Published figures do not enter ([`Self::published_words`]).
    pub fn verdict(&self) -> Verdict {
        let damaged = self.transfers.iter().any(|d| !d.sha256_ok);
        if damaged || self.asserts.iter().any(|j| j.holds == Some(false)) {
            return Verdict::Failed;
        }
        let unjudged = self.asserts.iter().any(|j| j.holds.is_none());
        let none_fit = self.summary.iter().any(|s| s.fit == 0);
        if unjudged || none_fit {
            return Verdict::Unfit;
        }
        Verdict::Passed
    }
}

impl Verdict {
    /// Exit code: 0 for passed, 1 for failed, 4 for unfit.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Unfit => 4,
        }
    }
}
