//! The lab's result record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::{Client, Connection, Direction, Interception, Role};
use crate::quantity::Quantity;

/// What a run of an experiment gave: the whole of the JSON file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunReport {
    /// The experiment's name.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// When the run began, UTC (RFC 3339).
    pub date: String,
    /// The repository's commit, `-dirty` behind it when files were changed;
    /// none outside a repository.
    pub commit: Option<String>,
    /// Kernel release; empty where everything was simulated.
    pub kernel: String,
    /// That it was simulated; none of a run in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
    /// Every transfer, in the order it ran.
    pub downloads: Vec<Download>,
    /// Medians per scheme and workload.
    pub summary: Vec<Summary>,
    /// What had to come out, and whether it did.
    pub asserts: Vec<Judgement>,
    /// What the paper found beside this.
    #[serde(default)]
    pub paper: Vec<Comparison>,
    /// The text of the experiment's file: hosts, links, schemes. Records from
    /// before it was kept have none.
    #[serde(default)]
    pub file: Option<String>,
    /// How transfers would go on by the fluid bound; not of every one where
    /// there are many.
    #[serde(default)]
    pub ideal: Vec<IdealProgress>,
    /// What was left out so that the run was short.
    #[serde(default)]
    pub reduced: Option<String>,
}

/// What there is to know of a run in virtual time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulated {
    /// The seed of the first repetition; each further one has the next.
    pub first_seed: u64,
    /// How many there are.
    pub seeds: u32,
    /// What of the experiment cannot be simulated, and why.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// One transfer. ("Download" is the record's historical name: `direction`
/// says which way it went.)
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Download {
    /// `mpbond`, `single`, `kibbutz` or `combine`.
    pub scheme: String,
    /// The scheme's name in the experiment.
    pub name: String,
    /// The workload's name in the experiment.
    pub workload: String,
    /// Counting from 0.
    pub repetition: u32,
    /// Of a simulated transfer, what its chance was drawn from: the same seed
    /// gives the same transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The scheduler at both ends; none for a single path.
    pub scheduler: Option<String>,
    /// Which way the bytes went.
    pub direction: Direction,
    /// The primary and its helpers.
    pub devices: usize,
    /// How the client's connection got into mpbond.
    pub interception: Interception,
    /// What fetched.
    #[serde(default)]
    pub client: Client,
    /// Whether it connected anew.
    #[serde(default)]
    pub connection: Connection,
    /// TCP congestion control.
    pub congestion: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// The client's own time from start to end, connecting included where it
    /// connected anew.
    pub seconds: f64,
    /// The fluid bound on the links of this scheme.
    pub ideal_seconds: f64,
    /// `seconds` over `ideal_seconds`.
    pub ratio: f64,
    /// Bytes of the file that crossed a subflow more than once; none where
    /// the daemons did not say.
    pub redundant_bytes: Option<u64>,
    /// Whether every byte arrived, in order.
    pub sha256_ok: bool,
    /// The client's first byte after its start, in seconds.
    pub first_byte_s: Option<f64>,
    /// The longest time without a byte at the receiver between the first and
    /// the last.
    pub longest_stall_s: f64,
    /// What each subflow carried; of an application with more than 64
    /// connections over `mpbond`, of the last of them, as are the redundant
    /// bytes.
    pub subflows: Vec<SubflowShare>,
    /// Seconds after the start and bytes that the receiver had by then, one
    /// point for each 10 ms with an arrival; empty where curl fetched.
    #[serde(default)]
    pub progress: Vec<(f64, u64)>,
    /// What the user of an application noticed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noticed: BTreeMap<Quantity, f64>,
    /// Processor seconds of each host's daemon during the transfer.
    pub cpu_s: BTreeMap<String, f64>,
    /// The same over the transfer's time, in percent of one processor, of the
    /// busiest host in each role; zero where no daemon runs.
    #[serde(default)]
    pub cpu_percent: BTreeMap<Role, f64>,
    /// What it cost all devices that took part, by each of the experiment's
    /// models.
    #[serde(default)]
    pub energy: Vec<Energy>,
    /// What came out of each link by when, in the transfer's direction.
    #[serde(default)]
    pub links: Vec<LinkProgress>,
    /// Whether the links kept their own conditions.
    pub fit: bool,
    /// Why not.
    pub unfit_because: Option<String>,
    /// How late packets left the emulated links, in microseconds; none where
    /// they were simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_us: Option<Lateness>,
}

/// How late packets left the emulated links, in microseconds after the time
/// the model gave.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
    /// Whether the player had real-time priority.
    pub realtime: bool,
}

/// What one subflow carried of one transfer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubflowShare {
    /// The path's or the helper's name.
    pub name: String,
    /// Bytes of the stream that it brought, copies included: the sum over all
    /// subflows exceeds the file by the redundant bytes and the HTTP headers.
    /// Of `combine`, bytes of the file. Of an upload by `kibbutz`, bytes that
    /// it took from the sender.
    pub bytes: u64,
    /// When its last byte arrived, in seconds after the stream was opened, or
    /// after the start on a connection that was kept; none where it carried
    /// nothing, or nobody knows.
    pub finished_s: Option<f64>,
}

/// What one link carried of one transfer, in its direction, as it went on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkProgress {
    /// The link's name.
    pub link: String,
    /// Seconds since the first packet on any link, and bytes that had come out
    /// by then: packets less the headers of TCP with timestamps.
    pub points: Vec<(f64, u64)>,
}

/// How a transfer would go on by the fluid bound.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdealProgress {
    /// The scheme's name.
    pub scheme: String,
    /// The workload's name.
    pub workload: String,
    /// Seconds since the start, and bytes that could have come by then.
    pub points: Vec<(f64, u64)>,
}

/// What a transfer cost, by one model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Energy {
    /// The model's name in the experiment.
    pub model: String,
    /// All devices' radios, every last tail in full; with the access point's
    /// middle figure where it is accounted.
    pub joules: f64,
    /// Without the tails after the last packets.
    pub joules_without_last_tail: f64,
    /// `joules` with the low and the high figure of the access point.
    pub joules_band: (f64, f64),
    /// Each device's part.
    pub devices: Vec<DeviceEnergy>,
}

/// One device's part of the energy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceEnergy {
    /// The host's name.
    pub host: String,
    /// All of its radios.
    pub joules: f64,
    /// Without the tails after the last packets.
    pub joules_without_last_tail: f64,
    /// Its Internet links alone.
    pub wwan_joules: f64,
    /// Its ends of pipes alone.
    pub pipe_joules: f64,
}

/// Median and mean of some values, with their 95 % confidence intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The median's interval, from order statistics, whatever the
    /// distribution; none for fewer than six values.
    pub interval: Option<(f64, f64)>,
    /// The mean.
    pub mean: f64,
    /// Of the values, as the estimate from a sample (n - 1); none for one.
    pub standard_deviation: Option<f64>,
    /// The mean's interval by Student's t; none for one value.
    pub mean_interval: Option<(f64, f64)>,
}

/// One scheme's repetitions of one workload; unfit ones are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// The workload's name.
    pub workload: String,
    /// The scheme's name.
    pub scheme: String,
    /// Fit repetitions.
    pub fit: usize,
    /// Unfit ones.
    pub unfit: usize,
    /// Of `seconds`.
    pub seconds: Option<Estimate>,
    /// Of `ratio`.
    pub ratio: Option<Estimate>,
    /// Redundant bytes over bytes.
    pub redundant_share: Option<Estimate>,
    /// Seconds between the end of the first and of the last subflow.
    pub finish_spread_s: Option<Estimate>,
    /// The same over `seconds`.
    pub finish_spread_share: Option<Estimate>,
    /// Of `longest_stall_s`.
    pub longest_stall_s: Option<Estimate>,
    /// By each of the experiment's models.
    #[serde(default)]
    pub energy: Vec<EnergySummary>,
    /// What users of applications noticed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noticed: BTreeMap<Quantity, Estimate>,
}

/// What one scheme's repetitions of one workload cost, by one model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnergySummary {
    /// The model's name in the experiment.
    pub model: String,
    /// Of `joules`.
    pub joules: Option<Estimate>,
    /// Of `joules_without_last_tail`.
    pub joules_without_last_tail: Option<Estimate>,
}

/// An assert and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Judgement {
    /// The workload's name.
    pub workload: String,
    /// The scheme's name.
    pub scheme: String,
    /// Which figure, and how it is bounded.
    pub what: String,
    /// The bound.
    pub target: f64,
    /// The median; none when no repetition was fit.
    pub measured: Option<f64>,
    /// Its 95 % confidence interval; none for fewer than six values.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// Whether it holds; none when no repetition was fit.
    pub holds: Option<bool>,
}

/// A figure of the paper, and ours in the same form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// Where the paper says it.
    pub figure: String,
    /// The workload's name.
    pub workload: String,
    /// The scheme's name.
    pub scheme: String,
    /// The scheme that it is compared with: then both figures are changes in
    /// percent, ours paired by repetition.
    pub versus: Option<String>,
    /// What was measured.
    pub quantity: Quantity,
    /// By which model, of energy.
    pub model: Option<String>,
    /// The least and the greatest number of the paper.
    pub published: (f64, f64),
    /// What the numbers leave out.
    pub note: String,
    /// Ours; none when no repetition was fit or it was not measured.
    pub ours: Option<Estimate>,
    /// How the two stand to each other; none without ours.
    pub standing: Option<Standing>,
}

/// How a figure of ours stands to what was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The mean lies within the published range.
    Within,
    /// The whole interval of the mean is better than the published range.
    Better,
    /// The mean is better than all of it, but its interval reaches it.
    PerhapsBetter,
    /// The mean is worse than all of it, but its interval reaches it.
    PerhapsWorse,
    /// The whole interval is worse.
    Worse,
}

/// How a run ended as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every file arrived whole, and every assert holds.
    Passed,
    /// A file arrived damaged, or an assert does not hold.
    Failed,
    /// Nothing failed, but not everything could be judged: the machine was too
    /// busy, or a transfer got past the daemons.
    Unfit,
}

impl Simulated {
    /// Its seeds, for people.
    pub(crate) fn seeds_text(&self) -> String {
        let last = self.first_seed + u64::from(self.seeds.max(1)) - 1;
        match self.seeds {
            1 => format!("seed {last}"),
            _ => format!("seeds {} to {last}", self.first_seed),
        }
    }
}

impl RunReport {
    /// Where it ran, for people.
    pub(crate) fn place_text(&self) -> String {
        match &self.simulated {
            Some(simulated) => format!("in virtual time, {}", simulated.seeds_text()),
            None => format!("Linux {}", self.kernel),
        }
    }

    /// The run as a whole.
    pub fn verdict(&self) -> Verdict {
        let damaged = self.downloads.iter().any(|d| !d.sha256_ok);
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

impl Comparison {
    /// Whether ours is as published or better, by its mean.
    pub fn is_reached(&self) -> bool {
        use Standing::{Better, PerhapsBetter, Within};
        matches!(self.standing, Some(Within | Better | PerhapsBetter))
    }
}

impl Download {
    /// Seconds between the end of the first and of the last subflow that
    /// carried anything; none for fewer than two.
    pub fn finish_spread_s(&self) -> Option<f64> {
        let ends: Vec<f64> = self.subflows.iter().filter_map(|s| s.finished_s).collect();
        let last = ends.iter().copied().reduce(f64::max)?;
        let first = ends.iter().copied().reduce(f64::min)?;
        (ends.len() > 1).then_some(last - first)
    }
}
