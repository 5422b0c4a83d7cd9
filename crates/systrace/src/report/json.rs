//! The report as JSON.

use serde::Serialize;

use super::analyses::{FunctionReport, Report};
use crate::idle::IdleReport;
use crate::microarch::MicroarchRow;
use crate::net_path::NetDelay;
use crate::sampled::SampledFunctions;
use crate::spans::SpanTime;
use crate::summary::Summary;
use crate::usage::{CpuUsage, ProcessParallelism};

/// A [`Report`] as JSON. Parts for which the trace has no data are null or empty.
#[derive(Debug, Serialize)]
pub struct ReportJson<'r> {
    /// Findings as sentences, most important first.
    pub findings: Vec<String>,
    /// Event counts, busy shares, TLP.
    pub summary: &'r Summary,
    /// CPU time by class, process, task and frequency.
    pub usage: Option<&'r CpuUsage>,
    /// TLP over time: start of the window (s on the trace clock) and TLP.
    pub sliding_tlp: Vec<(f64, f64)>,
    /// TLP by process.
    pub processes: &'r [ProcessParallelism],
    /// Idle time by cause, and anomalies.
    pub idle: Option<&'r IdleReport>,
    /// Delays of packets inside the kernel.
    pub net: &'r [NetDelay],
    /// Function times of a method trace.
    pub functions: Option<&'r FunctionReport>,
    /// Function shares of a sampled profile.
    pub sampled: Option<&'r SampledFunctions>,
    /// Statistics of userspace slices.
    pub spans: &'r [SpanTime],
    /// Hardware event counts by process.
    pub microarch: &'r [MicroarchRow],
    /// Hardware event counts by thread.
    pub microarch_tasks: &'r [MicroarchRow],
}

impl Report {
    /// The report as a serializable value, without the trace itself.
    pub fn json(&self) -> ReportJson<'_> {
        let seconds = |(ns, tlp): &(u64, f64)| (*ns as f64 / 1e9, *tlp);
        ReportJson {
            findings: self.findings(),
            summary: &self.summary,
            usage: self.usage.as_ref(),
            sliding_tlp: self.sliding_tlp.iter().map(seconds).collect(),
            processes: &self.processes,
            idle: self.idle.as_ref(),
            net: &self.net,
            functions: self.functions.as_ref(),
            sampled: self.sampled.as_ref(),
            spans: &self.spans,
            microarch: &self.microarch,
            microarch_tasks: &self.microarch_tasks,
        }
    }
}
