//! Analysis of system traces of Android and Linux devices: CPU time, thread-level parallelism,
//! idle time and its causes, hot functions, userspace slices, hardware event counts, and packet
//! delays in the kernel.
//!
//! The definitions are those of R. Liu and F. X. Lin, *Understanding the Characteristics of
//! Android Wear OS*, MobiSys '16; this documentation cites it as *Android Wear characterization*.
//!
//! # Reading a trace
//!
//! [`read`] detects the format of a trace, decompresses it and pushes its content into a [`Sink`],
//! in constant memory. [`Format`] lists the formats: ftrace text, trace-cmd's `trace.dat`,
//! systrace HTML, Perfetto, Android method traces, perf and simpleperf. The analyses are sinks, or
//! functions of a [`Trace`], which [`TraceBuilder`] collects:
//!
//! | question | answer | input |
//! | --- | --- | --- |
//! | What does the file contain, and is it complete? | [`Summary`] | any trace |
//! | Which task used the CPUs? | [`CpuUsage`] | [`Trace`] and [`Trace::runs`] |
//! | How many CPUs are busy at once? | [`Concurrency`], [`ProcessParallelism`] | the same |
//! | Why were all CPUs idle? | [`IdleReport`], by [`IdleRules`] | the same |
//! | Which slices take most time? | [`SpanTime`] | [`Trace`] |
//! | Where are packets delayed? | [`net_delays`] | [`Trace`] |
//! | Which functions take most time? | [`FunctionProfile`] | method traces |
//! | How long does tracing a call take? | [`Calibration`] | method traces of an empty function |
//! | Which functions have most samples? | [`SampledProfile`] | sampled profiles |
//! | How many cycles per instruction? | [`Microarch`] | samples of hardware events |
//!
//! [`Report`] runs all of them in one pass and has the results as findings, tables, JSON, SVG and
//! HTML. With the feature `sqlite`, `Database` makes the trace available to SQL queries.
//!
//! # Example
//!
//! Two tasks on one CPU. Task 7 runs for 30 ms and then sleeps, so that the CPU is idle for 20 ms;
//! task 8 runs for the last 50 ms.
//!
//! ```
//! use mpbond_systrace::{Report, ReportOptions};
//!
//! let switch = |time: &str, from: &str, state: &str, to: &str| {
//!     format!(
//!         " x-0 [000] d..2 {time}: sched_switch: prev_comm={from} prev_prio=120 \
//!          prev_state={state} ==> next_comm={to} next_prio=120\n"
//!     )
//! };
//! let text = [
//!     switch("1.000", "swapper/0 prev_pid=0", "R", "sensor next_pid=7"),
//!     switch("1.030", "sensor prev_pid=7", "S", "swapper/0 next_pid=0"),
//!     switch("1.050", "swapper/0 prev_pid=0", "R", "shell next_pid=8"),
//!     switch("1.100", "shell prev_pid=8", "S", "swapper/0 next_pid=0"),
//! ]
//! .concat();
//!
//! let report = Report::of(text.as_bytes(), &ReportOptions::default())?;
//! assert_eq!(report.summary.format, "ftrace-text");
//! assert_eq!(report.summary.tlp, Some(1.0));
//!
//! let usage = report.usage.as_ref().ok_or("no task switches")?;
//! assert_eq!(usage.busy_percent, 80.0);
//! assert_eq!(usage.tasks[0].name, "shell");
//! assert_eq!(usage.tasks[0].busy_s, 0.05);
//!
//! let idle = report.idle.as_ref().ok_or("no task switches")?;
//! assert_eq!((idle.episodes, idle.idle_s), (1, 0.02));
//!
//! for finding in report.findings() {
//!     println!("{finding}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Own sinks
//!
//! A sink implements the methods that it needs; the others do nothing. Two sinks in a tuple read
//! the same trace in one pass.
//!
//! ```
//! use mpbond_systrace::{Event, Payload, Sink, Summarizer, read};
//!
//! /// Counts wake-ups.
//! #[derive(Default)]
//! struct WakeUps(u64);
//!
//! impl Sink for WakeUps {
//!     fn event(&mut self, event: &Event<'_>) {
//!         self.0 += u64::from(matches!(event.payload, Payload::Wake(_)));
//!     }
//! }
//!
//! let text = " app-9 [000] d..2 1.5: sched_wakeup: comm=ui pid=10 prio=120 target_cpu=001\n";
//! let mut sinks = (WakeUps::default(), Summarizer::default());
//! let format = read(text.as_bytes(), &mut sinks)?;
//! assert_eq!(sinks.0.0, 1);
//! assert_eq!(sinks.1.finish(format).events["sched_wakeup"], 1);
//! # Ok::<(), mpbond_systrace::TraceError>(())
//! ```
//!
//! # Terms
//!
//! - *Task*: a thread, the unit that the kernel schedules. Task 0 is the idle task.
//! - *Run*: an uninterrupted execution of one task on one CPU (Perfetto: sched slice).
//! - *Slice*: a section of code marked by a program (`Trace.beginSection`, `ATRACE_BEGIN`). An
//!   *asynchronous* slice may end on another thread.
//! - *Window*: the time from the first to the last task switch over all CPUs.
//! - *TLP*: thread-level parallelism, the mean number of busy CPUs while any CPU is busy.
//! - *Exclusive* time or samples are a function's own; *inclusive* ones also cover its callees.
//! - *Stray*: a record with a time stamp far outside of the recording.
//! - *Request*: a synchronous call to another process (Android: binder transaction).
//!
//! # Untrusted input
//!
//! Traces come from other machines. Readers never panic and never allocate more than the file can
//! fill; a truncated or damaged file is read as far as possible, and the defects are reported as
//! [`Incomplete`].
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod activity;
mod archive;
mod calibration;
mod clocks;
mod clusters;
mod demangle;
mod error;
mod event;
mod functions;
mod groups;
mod idle;
mod input;
mod join;
mod method;
mod microarch;
mod net_path;
#[cfg(feature = "parquet")]
mod parquet_export;
mod perf;
mod perfetto;
mod protobuf;
#[cfg(feature = "sqlite")]
mod query;
mod report;
mod sampled;
mod scenario;
mod sink;
mod source;
mod spans;
mod strings;
mod summary;
mod tasks;
mod text;
mod trace;
mod tracedat;
mod usage;

pub use activity::{Concurrency, CpuActivity};
pub use calibration::{Calibration, CallOverhead};
pub use clocks::ClockMap;
pub use error::{ErrorKind, Incomplete, TraceError};
pub use event::{
    Clock, ClockReading, Event, Mark, MethodAction, MethodRecord, NetPoint, Payload, Sample,
    Switch, TaskState, ThreadInfo, Wake,
};
pub use functions::{
    Clamped, DEFAULT_CALL_OVERHEAD, FunctionProfile, FunctionStatistics, FunctionTime, GroupTime,
};
pub use groups::{FunctionGroup, FunctionGroups};
pub use idle::{
    Condition, IdleCause, IdleEpisode, IdleFinding, IdleReport, IdleRule, IdleRules, IpcWait,
    Suspect,
};
pub use input::{Format, open, read};
pub use join::{Joined, MethodCalls};
pub use microarch::{Microarch, MicroarchRow};
pub use net_path::{NetDelay, NetStep, net_delays};
#[cfg(feature = "sqlite")]
pub use query::{Database, QueryResult, SCHEMA};
pub use report::{
    Claim, ClaimResult, CpuPower, FunctionReport, HotFunction, PowerLog, PowerSource, Report,
    ReportJson, ReportOptions, ScenarioResult, Suite, SuiteBuilder, SuiteError, Table, Value,
};
pub use sampled::{SampledFunction, SampledFunctionStatistics, SampledFunctions, SampledProfile};
pub use scenario::{Scenario, Step};
pub use sink::Sink;
pub use spans::SpanTime;
pub use strings::{StringId, StringPool};
pub use summary::{CpuBusy, MethodCounts, Summarizer, Summary};
pub use tasks::{ClassRules, Task, TaskClass, Tasks};
pub use trace::{
    AsyncSlice, BinderKind, BinderRecord, BlockRecord, BlockedRecord, CounterRecord,
    FrequencyRecord, IrqRecord, NetRecord, PowerRecord, Slice, SwitchRecord, TimerRecord, Trace,
    TraceBuilder, WakeRecord,
};
pub use usage::{CpuUsage, FrequencyUsage, ProcessParallelism, Run, Usage};
