//! `mpbond trace functions`: hot functions of method traces.

use std::path::PathBuf;

use clap::Args;
use mpbond_systrace::{
    AcrossTraces, FunctionProfile, FunctionReport, ReportOptions, Summarizer, Table, read,
};
use serde::Serialize;

use super::form::FormArgs;
use super::input::{bad, open, warn};
use super::rules::FunctionArgs;
use crate::cli::failure::Failure;

/// Hot functions of Android method traces; over several traces, mean and deviation.
///
/// Own time is spent in a function's code alone, the other also in all that it calls. What tracing
/// costs is taken off every call. Times are CPU time where the trace has that clock.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace functions cpu.trace
  mpbond trace functions run1.trace run2.trace run3.trace --rows 5
  mpbond trace functions cpu.trace --overhead 2.5us --groups mine.toml --json")]
pub(super) struct FunctionsArgs {
    /// Traces; several of one scenario give mean and deviation. "-" is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// No word on how far reading has got.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    settings: FunctionArgs,
}

#[derive(Serialize)]
struct OneTrace {
    file: String,
    #[serde(flatten)]
    report: FunctionReport,
}

#[derive(Serialize)]
struct Answer {
    traces: Vec<OneTrace>,
    across: Vec<AcrossTraces>,
}

impl FunctionsArgs {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut options = ReportOptions::default();
        self.settings.apply(&mut options)?;
        let mut profiles = Vec::new();
        let mut traces = Vec::new();
        for file in &self.files {
            let profile = FunctionProfile::new(options.overhead, options.groups.clone());
            let mut sink = (profile, Summarizer::default());
            let format = read(open(file, self.quiet)?, &mut sink).map_err(|e| bad(file, &e))?;
            let (mut profile, summary) = sink;
            warn(file, summary.finish(format).incomplete.as_deref());
            profile.finish();
            if profile.calls() == 0 {
                let text = format!("{}: no calls in it: no method trace", file.display());
                return Err(Failure::input(text));
            }
            traces.push(OneTrace {
                file: file.display().to_string(),
                report: FunctionReport::of(&profile),
            });
            profiles.push(profile);
        }
        let tables = match traces.as_slice() {
            [one] => one.report.tables(),
            _ => vec![AcrossTraces::table(&FunctionProfile::across(&profiles))],
        };
        let heading = heading(&traces);
        let across = match traces.len() {
            1 => Vec::new(),
            _ => FunctionProfile::across(&profiles),
        };
        let tables: Vec<&Table> = tables.iter().collect();
        self.form
            .show_tables(&tables, &heading, &Answer { traces, across })
    }
}

fn heading(traces: &[OneTrace]) -> String {
    let mut text = String::new();
    for t in traces {
        let share = |n: usize| {
            t.report
                .top_share_curve
                .get(n - 1)
                .copied()
                .unwrap_or(100.0)
        };
        text += &format!(
            "{}: {} functions; the hottest 5 take {:.1} % of the time, the hottest 50 {:.1} %.\n",
            t.file,
            t.report.functions.len(),
            share(5),
            share(50)
        );
        if t.report.mismatched_returns > 0 {
            text += &format!(
                "{}: {} returns without their call (begun before the trace, or records are lost).\n",
                t.file, t.report.mismatched_returns
            );
        }
    }
    text
}
