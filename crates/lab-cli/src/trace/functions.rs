//! `mpbond trace functions`: hot functions of method traces and sampled profiles.

use std::path::{Path, PathBuf};

use clap::Args;
use mpbond_command::Failure;
use mpbond_systrace::{
    FunctionProfile, FunctionReport, FunctionStatistics, ReportOptions, SampledFunctionStatistics,
    SampledFunctions, SampledProfile, Summarizer, Table, read,
};
use serde::Serialize;

use super::form::FormArgs;
use super::input::{bad, open, warn};
use super::rules::FunctionArgs;

/// Hot functions of method traces or sampled profiles; over several, mean and deviation.
///
/// Own time is spent in a function's own code, total time also in the functions that it calls.
/// Method traces give CPU time where they have that clock; the cost of tracing is subtracted from
/// each call. Profiles (perf script, simpleperf, Perfetto) give shares of samples.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace functions cpu.trace
  mpbond trace functions run1.trace run2.trace run3.trace --rows 5
  mpbond trace functions cpu.trace --overhead 2.5us --groups mine.toml --json
  perf script | mpbond trace functions -
  mpbond trace functions perf.txt --event page-faults")]
pub(crate) struct FunctionsArgs {
    /// Traces; several of one scenario give mean and deviation. "-" is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Event of a sampled profile [default: cycles or CPU time, else the most frequent].
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    settings: FunctionArgs,
}

#[derive(Serialize)]
struct OneTrace<T> {
    file: String,
    #[serde(flatten)]
    report: T,
}

#[derive(Serialize)]
struct Answer<T, A> {
    traces: Vec<OneTrace<T>>,
    across: Vec<A>,
}

/// Content of one file.
enum Profile {
    Called(FunctionProfile),
    Sampled(SampledFunctions),
}

impl FunctionsArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut options = ReportOptions::default();
        self.settings.apply(&mut options)?;
        let (mut called, mut sampled) = (Vec::new(), Vec::new());
        for file in &self.files {
            match self.profile(file, &options)? {
                Profile::Called(profile) => called.push((file.as_path(), profile)),
                Profile::Sampled(functions) => sampled.push((file.as_path(), functions)),
            }
        }
        match (called.first(), sampled.first()) {
            (Some((one, _)), Some((other, _))) => Err(Failure::input(format_args!(
                "{} is a method trace and {} a sampled profile: only traces of one kind have a mean",
                one.display(),
                other.display()
            ))),
            (None, _) => self.show_sampled(sampled),
            (_, None) => self.show_called(called),
        }
    }

    fn profile(&self, file: &Path, options: &ReportOptions) -> Result<Profile, Failure> {
        let called = FunctionProfile::new(options.overhead, options.groups.clone());
        let mut sink = ((called, SampledProfile::default()), Summarizer::default());
        let format = read(open(file, self.quiet)?, &mut sink).map_err(|e| bad(file, &e))?;
        let ((mut called, sampled), summary) = sink;
        warn(file, summary.finish(format).incomplete.as_deref());
        called.finish();
        if called.calls() > 0 {
            return Ok(Profile::Called(called));
        }
        if let Some(functions) = sampled.functions(self.event.as_deref()) {
            return Ok(Profile::Sampled(functions));
        }
        let why = match (&self.event, sampled.events().as_slice()) {
            (_, []) => "no calls and no samples in it: the functions that ran are unknown".into(),
            (Some(event), events) if !events.contains(&event.as_str()) => {
                format!("no samples of {event} in it, only of {}", events.join(", "))
            }
            _ => "its samples have addresses only; perf script on the machine of the recording \
                  adds the functions' names"
                .into(),
        };
        Err(Failure::input(format_args!("{}: {why}", file.display())))
    }

    fn show_called(&self, list: Vec<(&Path, FunctionProfile)>) -> Result<(), Failure> {
        let (mut traces, mut profiles) = (Vec::new(), Vec::new());
        for (file, profile) in list {
            traces.push(OneTrace {
                file: file.display().to_string(),
                report: FunctionReport::of(&profile),
            });
            profiles.push(profile);
        }
        let heading: String = traces.iter().map(called_heading).collect();
        let (across, tables) = match traces.as_slice() {
            [one] => (Vec::new(), one.report.tables()),
            _ => {
                let across = FunctionProfile::statistics(&profiles);
                let table = FunctionStatistics::table(&across);
                (across, vec![table])
            }
        };
        let tables: Vec<&Table> = tables.iter().collect();
        self.form
            .show_tables(&tables, &heading, &Answer { traces, across })
    }

    fn show_sampled(&self, list: Vec<(&Path, SampledFunctions)>) -> Result<(), Failure> {
        let (mut traces, mut profiles) = (Vec::new(), Vec::new());
        for (file, report) in list {
            profiles.push(report.clone());
            let file = file.display().to_string();
            traces.push(OneTrace { file, report });
        }
        let heading: String = traces.iter().map(sampled_heading).collect();
        let (across, table) = match profiles.as_slice() {
            [one] => (Vec::new(), one.table()),
            _ => {
                let across = SampledFunctions::statistics(&profiles);
                let table = SampledFunctionStatistics::table(&across);
                (across, table)
            }
        };
        self.form
            .show_tables(&[&table], &heading, &Answer { traces, across })
    }
}

/// Share of the hottest `n` together, percent.
fn share(curve: &[f64], n: usize) -> f64 {
    let last = curve.last().copied().unwrap_or(100.0);
    curve.get(n - 1).copied().unwrap_or(last)
}

fn called_heading(t: &OneTrace<FunctionReport>) -> String {
    let mut text = format!(
        "{}: {} functions; the hottest 5 take {:.1} % of the time, the hottest 50 {:.1} %.\n",
        t.file,
        t.report.functions.len(),
        share(&t.report.top_share_curve, 5),
        share(&t.report.top_share_curve, 50)
    );
    if t.report.mismatched_returns > 0 {
        text += &format!(
            "{}: {} returns without their call (begun before the trace, or records are lost).\n",
            t.file, t.report.mismatched_returns
        );
    }
    let clamped = t.report.clamped;
    if clamped.functions > 0 {
        text += &format!(
            "{}: the overhead exceeds the exclusive time of {} functions, by {:.3} ms in total; that time counts as 0 (trace calibrate measures the overhead).\n",
            t.file,
            clamped.functions,
            clamped.ns as f64 / 1e6
        );
    }
    text
}

fn sampled_heading(t: &OneTrace<SampledFunctions>) -> String {
    let s = &t.report;
    let mut text = format!(
        "{}: {} samples{}{}, in {} functions; the hottest 5 have {:.1} % of them, the hottest 50 {:.1} %.\n",
        t.file,
        s.samples,
        if s.event.is_empty() { "" } else { " of " },
        s.event,
        s.functions.len(),
        share(&s.top_share_curve, 5),
        share(&s.top_share_curve, 50)
    );
    if s.without_stack > 0 {
        text += &format!(
            "{}: {} samples have no stack: they belong to no function, and count in all shares.\n",
            t.file, s.without_stack
        );
    }
    text
}
