//! `mpbond trace usage`, `tlp`, `idle`, `spans`, `perf`, `net`: one part of the report each.

use std::path::PathBuf;

use clap::Args;
use mpbond_command::Failure;
use mpbond_systrace::{MethodCalls, Report, ReportOptions, read};
use serde::Serialize;

use super::form::FormArgs;
use super::input::{InputArgs, bad, open};
use super::rules::{ClassArgs, IdleRuleArgs, WindowArgs};

const NO_SWITCHES: &str = "no sched_switch events: the tasks that ran are unknown";

/// CPU use by class, process, task, CPU and frequency.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace usage trace.dat
  mpbond trace usage trace.dat --json | jq '.classes[] | {name, percent_of_busy}'
  mpbond trace usage trace.dat --classes mine.toml --rows 50")]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    classes: ClassArgs,
}

impl UsageArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut options = ReportOptions::default();
        self.classes.apply(&mut options)?;
        let report = self.input.report(&options)?;
        let Some(usage) = &report.usage else {
            return Err(self.input.lacks(NO_SWITCHES));
        };
        let tables = ["cpus", "classes", "processes", "tasks", "frequencies"];
        self.form.show(&report, &tables, usage)
    }
}

/// Number of CPUs busy at once: of the whole trace, by process, over time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace tlp trace.dat
  mpbond trace tlp trace.dat --window 20ms --csv tables")]
pub(crate) struct TlpArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    window: WindowArgs,
}

impl TlpArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Parallelism<'a> {
            tlp: Option<f64>,
            concurrency_percent: &'a [f64],
            processes: &'a [mpbond_systrace::ProcessParallelism],
            /// Start of each window, s on the trace's clock, and its TLP.
            sliding: Vec<(f64, f64)>,
        }
        let mut options = ReportOptions::default();
        self.window.apply(&mut options);
        let report = self.input.report(&options)?;
        if report.concurrency.is_none() {
            return Err(self.input.lacks(NO_SWITCHES));
        }
        let json = report.json();
        let value = Parallelism {
            tlp: report.summary.tlp,
            concurrency_percent: &report.summary.concurrency_percent,
            processes: json.processes,
            sliding: json.sliding_tlp,
        };
        let tables = ["concurrency", "process-tlp", "sliding-tlp"];
        self.form.show(&report, &tables, &value)
    }
}

/// Causes of idle time, and requests that a service stalls.
///
/// IdleChecker of the MobiSys '16 paper: for every episode in which no CPU had work, the blocked
/// tasks, the requests and functions that span it, and the known cause that fits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace idle launch.html
  mpbond trace idle launch.html --json | jq '.findings[].text'
  mpbond trace idle launch.html --methods system_server.trace
  mpbond trace idle launch.html --idle-rules mine.toml")]
pub(crate) struct IdleArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    rules: IdleRuleArgs,
    /// Method trace of the same time, whose calls count as functions of their threads.
    #[arg(long, value_name = "FILE")]
    methods: Option<PathBuf>,
}

impl IdleArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut options = ReportOptions::default();
        self.rules.apply(&mut options)?;
        let mut report = self.input.report(&options)?;
        if report.idle.is_none() {
            return Err(self.input.lacks(NO_SWITCHES));
        }
        let joined = self.join(&mut report, &options)?;
        let Some(idle) = &report.idle else {
            return Err(self.input.lacks(NO_SWITCHES));
        };
        let mut heading = joined
            + &format!(
                "No CPU had work for {:.3} s of {:.3} s ({:.1} %), in {} episodes; the cause is known for {:.1} % of that.\n",
                idle.idle_s, idle.span_s, idle.idle_percent, idle.episodes, idle.explained_percent
            );
        for finding in &idle.findings {
            heading += &format!("* {}.\n", finding.text);
        }
        let tables = report.tables();
        let wanted = tables.iter().filter(|t| t.name.starts_with("idle-"));
        self.form
            .show_tables(&wanted.collect::<Vec<_>>(), &heading, idle)
    }
}

impl IdleArgs {
    /// Joins the method trace, and describes the result in one line.
    fn join(&self, report: &mut Report, options: &ReportOptions) -> Result<String, Failure> {
        let Some(file) = &self.methods else {
            return Ok(String::new());
        };
        let mut methods = MethodCalls::default();
        read(open(file, self.input.quiet)?, &mut methods).map_err(|e| bad(file, &e))?;
        let joined = report
            .join(&methods, options)
            .map_err(|e| Failure::input(format_args!("{}: {e}", file.display())))?;
        Ok(format!(
            "{}: {} calls from {:.6} s, aligned by {}; {:.1} % of their times are in runs of their threads.\n",
            file.display(),
            joined.calls,
            joined.start_ns as f64 / 1e9,
            if joined.by_clock {
                "the clocks"
            } else {
                "the runs"
            },
            joined.agreement_percent
        ))
    }
}

/// Sections marked by programs: count, time and longest time.
///
/// Sections that atrace and Perfetto record (`Trace.beginSection`, `ATRACE_BEGIN`), by process and
/// name. Times are wall-clock; own time excludes nested sections.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace spans launch.html
  mpbond trace spans launch.html --json | jq '.[] | select(.longest_ms > 16)'")]
pub(crate) struct SpansArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    form: FormArgs,
}

impl SpansArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let report = self.input.report(&ReportOptions::default())?;
        if report.spans.is_empty() {
            return Err(self.input.lacks("no section in it that a program marked"));
        }
        self.form.show(&report, &["spans"], &report.spans)
    }
}

/// Hardware counters: cycles per instruction, cache and TLB misses, branch misprediction.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  perf record -a -e '{cycles,instructions,branches,branch-misses}:S' -- sleep 10
  mpbond trace perf perf.data
  mpbond trace perf perf.data --json | jq '.processes[] | {name, cpi}'")]
pub(crate) struct PerfArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    form: FormArgs,
}

impl PerfArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Rows<'a> {
            processes: &'a [mpbond_systrace::MicroarchRow],
            tasks: &'a [mpbond_systrace::MicroarchRow],
        }
        let report = self.input.report(&ReportOptions::default())?;
        if report.summary.samples.is_none() {
            return Err(self.input.lacks("no profiler samples in it"));
        }
        let value = Rows {
            processes: &report.microarch,
            tasks: &report.microarch_tasks,
        };
        let tables = ["microarchitecture", "microarchitecture-tasks"];
        self.form.show(&report, &tables, &value)
    }
}

/// Time of packets inside the machine: driver, stack, wake-up, run queue.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace net trace.dat
  mpbond trace net trace.dat --json | jq '.[] | {step, median_us}'")]
pub(crate) struct NetArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    form: FormArgs,
}

impl NetArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let report = self.input.report(&ReportOptions::default())?;
        if report.net.is_empty() {
            let why = "no packet in it that passes two points of the kernel's network path (net_dev_queue, net_dev_xmit, netif_receive_skb, …)";
            return Err(self.input.lacks(why));
        }
        self.form.show(&report, &["network"], &report.net)
    }
}
