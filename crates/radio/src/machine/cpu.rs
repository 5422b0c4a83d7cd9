//! Processor power from frequency and utilisation ("Trimming the Smartphone Network Stack", section
//! 2.1: both sampled per core every 500 ms; energy is linear in both).

use mpbond_units::Timestamp;
use serde::Deserialize;

use crate::profile::{Current, Param, Power, Table, Tension};
use crate::timeline::{Phase, State, Tape, Timeline};

/// Parameters of a processor.
///
/// P = V·(I_awake + Σ clusters I_on + Σ cores util·I(f)), with util·p(f) in place of V·util·I(f)
/// where a table gives power.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuParameters {
    /// Battery voltage; needed with any current.
    pub voltage: Option<Param<Tension>>,
    /// Current while the processor is not suspended.
    pub awake: Option<Param<Current>>,
    /// Power of an idle phone's own background work, subtracted to obtain the share of networking.
    pub background: Param<Power>,
    /// Clusters of equal cores, in the order of core numbers.
    pub clusters: Vec<Cluster>,
}

/// Cores of one kind that share a clock.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Number of cores.
    pub cores: u16,
    /// Current of the cluster while any of its cores is busy.
    pub on: Option<Param<Current>>,
    /// Columns: frequency in MHz, and current in mA or power in mW of one core
    /// at full utilisation.
    pub busy: Table<1>,
}

/// One sample of one core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreSample {
    /// Core number.
    pub core: u16,
    /// Frequency in MHz; `None` where the system does not report it, which counts as the highest of
    /// the table.
    pub mhz: Option<f64>,
    /// Utilisation since the previous sample, 0 to 1.
    pub utilisation: f64,
}

impl CpuParameters {
    /// Error in the parameters as a whole, if any.
    pub(crate) fn complaint(&self) -> Option<String> {
        if self.clusters.is_empty() {
            return Some("clusters: at least one is needed".to_owned());
        }
        let without_voltage = self.voltage.is_none();
        if without_voltage && self.awake.is_some() {
            return Some("awake: mA needs a voltage".to_owned());
        }
        for (i, cluster) in self.clusters.iter().enumerate() {
            let unit = cluster.busy.columns.get(1).map(String::as_str);
            let currents = cluster.on.is_some() || unit == Some("mA");
            match unit {
                Some("mA" | "mW") if currents && without_voltage => {
                    return Some(format!("clusters {}: mA needs a voltage", i + 1));
                }
                Some("mA" | "mW") => {}
                _ => {
                    return Some(format!(
                        "clusters {}: second column must be \"mA\" or \"mW\"",
                        i + 1
                    ));
                }
            }
        }
        None
    }

    fn cluster_of(&self, core: u16) -> Option<usize> {
        let mut first = 0;
        for (i, cluster) in self.clusters.iter().enumerate() {
            first += u32::from(cluster.cores);
            if u32::from(core) < first {
                return Some(i);
            }
        }
        // Cores beyond those of the profile count as the last kind.
        self.clusters.len().checked_sub(1)
    }

    /// Power of all cores together, in mW, background included.
    pub fn power_mw(&self, cores: &[CoreSample]) -> f64 {
        let volts = self.voltage.as_ref().map_or(1.0, Param::get);
        let milliamps = |p: &Option<Param<Current>>| p.as_ref().map_or(0.0, Param::get);
        let mut total = volts * milliamps(&self.awake);
        for (i, cluster) in self.clusters.iter().enumerate() {
            let busy_volts = match cluster.busy.columns.get(1).map(String::as_str) {
                Some("mA") => volts,
                _ => 1.0,
            };
            let mut on = false;
            for sample in cores.iter().filter(|s| self.cluster_of(s.core) == Some(i)) {
                let [busy] = cluster.busy.at(sample.mhz.unwrap_or(f64::MAX));
                let utilisation = sample.utilisation.clamp(0.0, 1.0);
                on |= utilisation > 0.0;
                total += busy_volts * utilisation * busy;
            }
            if on {
                total += volts * milliamps(&cluster.on);
            }
        }
        total
    }

    /// The reason why a sample cannot be of this processor, if there is one. Frequencies may
    /// exceed the table by 1 %, as they are rounded in tables and in logs.
    pub fn misfit(&self, sample: &CoreSample) -> Option<String> {
        let cores: u32 = self.clusters.iter().map(|c| u32::from(c.cores)).sum();
        let core = sample.core;
        if u32::from(core) >= cores {
            return Some(format!(
                "core {core}: the profile's processor has {cores} cores"
            ));
        }
        let cluster = self.clusters.get(self.cluster_of(core)?)?;
        let (highest, _) = cluster.busy.rows().last()?;
        let mhz = sample.mhz.filter(|mhz| *mhz > highest * 1.01)?;
        Some(format!(
            "core {core} at {mhz} MHz: the profile's processor has at most {highest} MHz"
        ))
    }
}

/// State of a processor's energy account.
#[derive(Debug, Clone)]
pub struct Cpu {
    p: CpuParameters,
    background_mw: f64,
    /// Subtracted from every sample.
    baseline_mw: f64,
    tape: Tape,
}

impl Cpu {
    /// A processor without samples.
    pub fn new(p: &CpuParameters) -> Self {
        Self {
            p: p.clone(),
            background_mw: p.background.get(),
            // The power of a processor that is awake is part of the idle phone's, and exceeds it
            // where the two figures come from different sources.
            baseline_mw: p.background.get().max(p.power_mw(&[])),
            tape: Tape::default(),
        }
    }

    /// Parameters of the processor.
    pub fn parameters(&self) -> &CpuParameters {
        &self.p
    }

    /// Power of the idle phone, in mW.
    pub fn background_mw(&self) -> f64 {
        self.background_mw
    }

    /// Replaces the power of the idle phone, for a measured one.
    pub fn set_background_mw(&mut self, background_mw: f64) {
        self.background_mw = background_mw;
        self.baseline_mw = background_mw;
    }

    /// Adds a sample at `at`, which covers the time since the previous one; the first only marks
    /// the start of the log. Its power is that of networking: all less the idle phone's. It is
    /// negative in a sample with less than that, since only the mean over a log is right:
    /// without negative samples, the scatter of an idle processor would count as networking.
    pub fn sample<T: Timeline>(&mut self, at: Timestamp, cores: &[CoreSample], out: &mut T) {
        let power_mw = self.p.power_mw(cores) - self.baseline_mw;
        self.tape
            .emit(at, State::Cpu, Phase::Transfer, power_mw, out);
    }
}
