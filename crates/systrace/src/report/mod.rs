//! One reading, all analyses, one page.

mod charts;
mod json;
mod page;
mod pictures;
mod tables;
mod timeline;
mod words;

use std::io::Read;
use std::time::Duration;

use serde::Serialize;

use crate::activity::Concurrency;
use crate::error::TraceError;
use crate::functions::{FunctionProfile, FunctionTime, GroupTime};
use crate::groups::FunctionGroups;
use crate::idle::{IdleReport, IdleRules};
use crate::input::read;
use crate::microarch::{Microarch, MicroarchRow};
use crate::net_path::{NetDelay, net_delays};
use crate::sampled::{Sampled, SampledFunctions};
use crate::spans::SpanTime;
use crate::summary::{Summarizer, Summary};
use crate::tasks::ClassRules;
use crate::trace::{Trace, TraceBuilder};
use crate::usage::{CpuUsage, ProcessParallelism, Run};
pub use json::ReportJson;
pub use tables::Table;

/// Rules and settings of a [`Report`]; [`Default`] is what the paper used.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Who counts as kernel, daemon, app.
    pub classes: ClassRules,
    /// Known causes of idle.
    pub idle: IdleRules,
    /// Services and packages.
    pub groups: FunctionGroups,
    /// What tracing one call costs.
    pub overhead: Duration,
    /// Windows of the sliding TLP.
    pub window: Duration,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            classes: ClassRules::shipped(),
            idle: IdleRules::shipped(),
            groups: FunctionGroups::paper(),
            overhead: crate::functions::PAPER_OVERHEAD,
            // Below what a person notices; long enough for a few frames.
            window: Duration::from_millis(100),
        }
    }
}

/// All that is derived from one file. Parts that its format can't give are
/// empty.
#[derive(Debug)]
pub struct Report {
    /// Counts, busy shares, TLP.
    pub summary: Summary,
    /// Who used the CPUs.
    pub usage: Option<CpuUsage>,
    /// Time by number of busy CPUs.
    pub concurrency: Option<Concurrency>,
    /// TLP over time: ns, TLP.
    pub sliding_tlp: Vec<(u64, f64)>,
    /// TLP by process.
    pub processes: Vec<ProcessParallelism>,
    /// Why nothing ran.
    pub idle: Option<IdleReport>,
    /// Where packets spend their time inside the machine.
    pub net: Vec<NetDelay>,
    /// Functions of a method trace.
    pub functions: Option<FunctionReport>,
    /// Functions of a sampled profile.
    pub sampled: Option<SampledFunctions>,
    /// Time that user space marked, by name.
    pub spans: Vec<SpanTime>,
    /// Hardware events by process.
    pub microarch: Vec<MicroarchRow>,
    /// Hardware events by task.
    pub microarch_tasks: Vec<MicroarchRow>,
    /// The events behind it.
    pub trace: Trace,
    /// What each CPU ran.
    pub runs: Vec<Run>,
}

/// Functions of a method trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionReport {
    /// Functions, the hottest first.
    pub functions: Vec<FunctionTime>,
    /// Share of the hottest 1, 2, … functions together, percent (Figure 4).
    pub top_share_curve: Vec<f64>,
    /// Services (Figure 3c).
    pub services: Vec<GroupTime>,
    /// Packages of basic data structures (Table 2).
    pub packages: Vec<GroupTime>,
    /// Returns without their call.
    pub mismatched_returns: u64,
}

impl FunctionReport {
    /// What a finished profile holds.
    pub fn of(profile: &FunctionProfile) -> Self {
        Self {
            functions: profile.functions(),
            top_share_curve: profile.top_share_curve(),
            services: profile.services(),
            packages: profile.packages(),
            mismatched_returns: profile.mismatched_returns(),
        }
    }
}

impl Report {
    /// Reads a trace once and derives everything from it.
    ///
    /// # Errors
    /// As [`read`].
    pub fn of(input: impl Read, options: &ReportOptions) -> Result<Self, TraceError> {
        let functions = FunctionProfile::new(options.overhead, options.groups.clone());
        let mut sink = (
            (Summarizer::default(), TraceBuilder::default()),
            (functions, (Sampled::default(), Microarch::default())),
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

    /// The report as a page that needs nothing else: findings in plain words,
    /// the paper's figures, a timeline to zoom.
    pub fn html(&self, title: &str) -> String {
        page::page(self, title)
    }

    /// What stands out, most important first, in sentences.
    pub fn findings(&self) -> Vec<String> {
        words::findings(self)
    }
}
