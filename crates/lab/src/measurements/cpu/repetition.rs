//! One run of each load.

use std::time::{Duration, Instant};

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

use super::load::{Arrived, Place, Running, Scheme};
use crate::machine_use::{Counters, Soaker, Use, are_undisturbed};

/// Time for which a load runs before and after it is measured; half of a shorter measurement.
const WARM: Duration = Duration::from_secs(1);

/// A scheme at one rate.
pub(super) struct Load<'a> {
    pub(super) name: String,
    pub(super) scheme: &'a Scheme,
    pub(super) rate: Option<BitRate>,
}

/// What was measured in one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Ran {
    pub(super) used: Use,
    pub(super) arrived: Option<Arrived>,
}

/// Result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Run {
    Ran(Ran),
    /// The reason why the load did not run.
    Failed(String),
}

/// One run of each load in a repetition, and the run without a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Repetition {
    /// From 0 on.
    #[serde(rename = "repetition")]
    pub(super) number: u32,
    pub(super) idle: Use,
    /// In the order of the loads.
    pub(super) runs: Vec<Run>,
}

impl Repetition {
    /// The run of a load; `None` where it failed.
    pub(super) fn ran(&self, load: usize) -> Option<Ran> {
        match self.runs.get(load)? {
            Run::Ran(ran) => Some(*ran),
            Run::Failed(_) => None,
        }
    }

    /// The reason why a load failed.
    pub(super) fn failure(&self, load: usize) -> Option<&str> {
        match self.runs.get(load)? {
            Run::Ran(_) => None,
            Run::Failed(why) => Some(why),
        }
    }

    /// Whether these loads can be compared, with each other and with the idle machine.
    pub(super) fn is_undisturbed(&self, loads: &[usize]) -> bool {
        let used = |load: &usize| Some(self.ran(*load)?.used);
        let idle = std::iter::once(Some(self.idle));
        let used: Option<Vec<Use>> = loads.iter().map(used).chain(idle).collect();
        used.is_some_and(|used| are_undisturbed(&used))
    }
}

/// One run of a load, or of none.
pub(super) fn run(
    soaker: &Soaker,
    load: Option<&Load<'_>>,
    length: Duration,
    place: &Place,
) -> Result<Ran, String> {
    let warm = WARM.min(length / 2);
    let running = load.map(|l| l.scheme.start(l.rate, warm + length + warm, place));
    let running = running.transpose()?;
    std::thread::sleep(warm);
    let start = Instant::now();
    let from = Counters::read(soaker, start);
    std::thread::sleep(length);
    let to = Counters::read(soaker, start);
    let arrived = running.map(Running::finish).transpose()?.flatten();
    let used = Use::between(soaker.processors(), &from, &to);
    let used = used.ok_or_else(|| "no time has passed".to_owned())?;
    Ok(Ran { used, arrived })
}
