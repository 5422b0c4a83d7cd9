//! All analyses of one trace, from one pass over it.

use std::io::Read;
use std::time::Duration;

use serde::Serialize;

use crate::activity::Concurrency;
use crate::error::TraceError;
use crate::functions::{Clamped, FunctionProfile, FunctionTime, GroupTime};
use crate::groups::FunctionGroups;
use crate::idle::{IdleReport, IdleRules};
use crate::input::read;
use crate::join::{Joined, MethodCalls};
use crate::microarch::{Microarch, MicroarchRow};
use crate::net_path::{NetDelay, net_delays};
use crate::sampled::{SampledFunctions, SampledProfile};
use crate::spans::SpanTime;
use crate::summary::{Summarizer, Summary};
use crate::tasks::ClassRules;
use crate::trace::{Trace, TraceBuilder};
use crate::usage::{CpuUsage, ProcessParallelism, Run};

/// Rules and settings of a [`Report`]. [`Default`] is the setting of the Android Wear
/// characterization.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Rules that assign task classes.
    pub classes: ClassRules,
    /// Rules for causes of idle time.
    pub idle: IdleRules,
    /// Groups of functions: services and packages.
    pub groups: FunctionGroups,
    /// Tracing overhead per call of a method trace.
    pub overhead: Duration,
    /// Window length of TLP over time.
    pub window: Duration,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            classes: ClassRules::shipped(),
            idle: IdleRules::shipped(),
            groups: FunctionGroups::shipped(),
            overhead: crate::functions::DEFAULT_CALL_OVERHEAD,
            // Below what a user perceives; long enough for several frames.
            window: Duration::from_millis(100),
        }
    }
}

/// Results of all analyses of one trace. Parts for which the trace has no data are empty.
#[derive(Debug)]
pub struct Report {
    /// Event counts, busy shares, TLP.
    pub summary: Summary,
    /// CPU time by class, process, task and frequency.
    pub usage: Option<CpuUsage>,
    /// Time by number of busy CPUs.
    pub concurrency: Option<Concurrency>,
    /// TLP over time: start of the window (ns) and TLP.
    pub sliding_tlp: Vec<(u64, f64)>,
    /// TLP by process.
    pub processes: Vec<ProcessParallelism>,
    /// Idle time by cause, and anomalies.
    pub idle: Option<IdleReport>,
    /// Delays of packets inside the kernel.
    pub net: Vec<NetDelay>,
    /// Function times of a method trace.
    pub functions: Option<FunctionReport>,
    /// Function shares of a sampled profile.
    pub sampled: Option<SampledFunctions>,
    /// Statistics of userspace slices.
    pub spans: Vec<SpanTime>,
    /// Hardware event counts by process.
    pub microarch: Vec<MicroarchRow>,
    /// Hardware event counts by thread.
    pub microarch_tasks: Vec<MicroarchRow>,
    /// The trace itself.
    pub trace: Trace,
    /// Runs of all CPUs.
    pub runs: Vec<Run>,
}

/// Function times of a method trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionReport {
    /// Functions, hottest first.
    pub functions: Vec<FunctionTime>,
    /// Cumulative share of the hottest 1, 2, … functions, percent (Android Wear characterization,
    /// Figure 4).
    pub top_share_curve: Vec<f64>,
    /// Inclusive time of services (Android Wear characterization, Figure 3(c)).
    pub services: Vec<GroupTime>,
    /// Exclusive time of packages of data structures (Android Wear characterization, Table 2).
    pub packages: Vec<GroupTime>,
    /// Number of returns without a matching call.
    pub mismatched_returns: u64,
    /// Time added to functions whose calls took less time than their overhead.
    pub clamped: Clamped,
}

impl FunctionReport {
    /// Collects the results of a finished profile.
    pub fn of(profile: &FunctionProfile) -> Self {
        Self {
            functions: profile.functions(),
            top_share_curve: profile.top_share_curve(),
            services: profile.services(),
            packages: profile.packages(),
            mismatched_returns: profile.mismatched_returns(),
            clamped: profile.clamped(),
        }
    }
}

impl Report {
    /// Adds the calls of a method trace of the same time to the causes of idle time.
    ///
    /// # Errors
    /// As [`Trace::join`].
    pub fn join(
        &mut self,
        methods: &MethodCalls,
        options: &ReportOptions,
    ) -> Result<Joined, String> {
        let joined = self.trace.join(&self.runs, methods)?;
        self.idle = IdleReport::of(&self.trace, &self.runs, &options.idle);
        Ok(joined)
    }

    /// Reads a trace in one pass and runs all analyses.
    ///
    /// # Errors
    /// As [`read`].
    pub fn of(input: impl Read, options: &ReportOptions) -> Result<Self, TraceError> {
        let functions = FunctionProfile::new(options.overhead, options.groups.clone());
        let mut sink = (
            (Summarizer::default(), TraceBuilder::default()),
            (functions, (SampledProfile::default(), Microarch::default())),
        );
        let format = read(input, &mut sink)?;
        let ((summary, trace), (mut profile, (sampled, microarch))) = sink;
        let summary = summary.finish(format);
        let trace = trace.finish();
        let runs = trace.runs();
        profile.finish();
        let functions = (profile.calls() > 0).then(|| FunctionReport::of(&profile));
        let (mut by_process, mut by_task) = (Vec::new(), Vec::new());
        if summary.samples.is_some() {
            (by_process, by_task) = (microarch.by_process(), microarch.by_task());
        }
        let window_ns = u64::try_from(options.window.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            usage: CpuUsage::of(&trace, &runs, &options.classes),
            concurrency: trace.concurrency(),
            sliding_tlp: trace.sliding_tlp(window_ns),
            processes: ProcessParallelism::of(&trace, &runs),
            idle: IdleReport::of(&trace, &runs, &options.idle),
            net: net_delays(&trace),
            functions,
            sampled: sampled.functions(None),
            spans: SpanTime::of(&trace),
            microarch: by_process,
            microarch_tasks: by_task,
            summary,
            trace,
            runs,
        })
    }
}
