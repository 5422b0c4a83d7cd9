use serde::Serialize;

use super::{FunctionReport, Report};
use crate::idle::IdleReport;
use crate::microarch::MicroarchRow;
use crate::net_path::NetDelay;
use crate::sampled::SampledFunctions;
use crate::spans::SpanTime;
use crate::summary::Summary;
use crate::usage::{CpuUsage, ProcessParallelism};

/// A [`Report`] as JSON: what a trace does not give is null or empty.
#[derive(Debug, Serialize)]
pub struct ReportJson<'r> {
    /// What stands out, in sentences, most important first.
    pub findings: Vec<String>,
    /// Counts, busy shares, TLP.
    pub summary: &'r Summary,
    /// Who used the CPUs.
    pub usage: Option<&'r CpuUsage>,
    /// TLP over time: begin of the window, s on the trace's clock, and TLP.
    pub sliding_tlp: Vec<(f64, f64)>,
    /// TLP by process.
    pub processes: &'r [ProcessParallelism],
    /// Why nothing ran.
    pub idle: Option<&'r IdleReport>,
    /// Where packets spend their time inside the machine.
    pub net: &'r [NetDelay],
    /// Functions of a method trace.
    pub functions: Option<&'r FunctionReport>,
    /// Functions of a sampled profile.
    pub sampled: Option<&'r SampledFunctions>,
    /// Time that user space marked, by name.
    pub spans: &'r [SpanTime],
    /// Hardware events by process.
    pub microarch: &'r [MicroarchRow],
    /// Hardware events by task.
    pub microarch_tasks: &'r [MicroarchRow],
}

impl Report {
    /// The report for scripts, without the events behind it.
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
