//! `mpbond trace`: where a device's time goes.

mod calibrate;
mod form;
mod functions;
mod input;
mod parts;
#[cfg(feature = "sqlite")]
mod query;
mod record;
mod report;
mod rules;
mod suite;
mod summary;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use mpbond_command::Failure;

/// Analyse system traces: where a device's time goes.
///
/// Reads ftrace text, trace.dat, atrace and systrace, Perfetto, Android method traces, perf.data,
/// perf script and simpleperf, also packed with gzip, zip or zstd; the format is recognized by its
/// content. docs/trace.md explains every figure.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace report watch.html --html report.html     all analyses in one page
  mpbond trace record -o trace.txt --duration 5s        of this machine
  mpbond trace summary trace.dat --json                 for scripts
  mpbond trace idle launch.perfetto-trace               why nothing ran, and who stalled whom
  mpbond trace functions run1.trace run2.trace run3.trace
  mpbond trace query trace.dat 'SELECT task, sum(end - start) FROM run GROUP BY task'
  adb exec-out atrace -z sched binder_driver -t 5 | mpbond trace usage -

Exit codes: 0 all went well, 1 something failed, 2 wrong usage, or a file that is no trace or lacks
the data of an analysis. A truncated trace is read to its end; its summary has the reason.")]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    Summary(summary::SummaryArgs),
    Record(record::RecordArgs),
    Report(report::ReportArgs),
    Usage(parts::UsageArgs),
    Tlp(parts::TlpArgs),
    Idle(parts::IdleArgs),
    Functions(functions::FunctionsArgs),
    Calibrate(calibrate::CalibrateArgs),
    Spans(parts::SpansArgs),
    Perf(parts::PerfArgs),
    Net(parts::NetArgs),
    Suite(suite::SuiteArgs),
    #[cfg(feature = "sqlite")]
    Query(query::QueryArgs),
}

impl TraceArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            TraceCommand::Summary(args) => args.run(),
            TraceCommand::Record(args) => args.run(),
            TraceCommand::Report(args) => args.run(),
            TraceCommand::Usage(args) => args.run(),
            TraceCommand::Tlp(args) => args.run(),
            TraceCommand::Idle(args) => args.run(),
            TraceCommand::Functions(args) => args.run(),
            TraceCommand::Calibrate(args) => args.run(),
            TraceCommand::Spans(args) => args.run(),
            TraceCommand::Perf(args) => args.run(),
            TraceCommand::Net(args) => args.run(),
            TraceCommand::Suite(args) => args.run(),
            #[cfg(feature = "sqlite")]
            TraceCommand::Query(args) => args.run(),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}
