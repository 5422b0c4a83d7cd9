//! Where a device's time goes: reads the traces that Android and Linux make
//! and derives what *Understanding the Characteristics of Android Wear OS*
//! (MobiSys '16, section 4) derives from them.
//!
//! [`read`] tells a file's format, unwraps its compression and pushes what it
//! finds into a [`Sink`], in constant memory. Sinks are the analyses:
//! [`Summary`] for counts, busy shares and thread-level parallelism;
//! [`Trace`] keeps the events that the deeper analyses ask for.
#![forbid(unsafe_code)]

mod activity;
mod archive;
mod clocks;
mod clusters;
#[cfg(feature = "parquet")]
mod columns;
mod error;
mod event;
mod functions;
mod groups;
mod idle;
mod input;
mod method;
mod microarch;
mod names;
mod net_path;
mod perf;
mod perfetto;
#[cfg(feature = "sqlite")]
mod query;
mod report;
mod sampled;
mod scenario;
mod sink;
mod source;
mod spans;
mod summary;
mod tasks;
mod text;
mod trace;
mod tracedat;
mod usage;

pub use activity::{Activity, Concurrency};
pub use clocks::ClockMap;
pub use error::{ErrorKind, Incomplete, TraceError};
pub use event::{
    Clock, ClockReading, Event, Mark, MethodAction, MethodRecord, NetPoint, Payload, Sample,
    Switch, TaskState, ThreadInfo, Wake,
};
pub use functions::{AcrossTraces, FunctionProfile, FunctionTime, GroupTime, PAPER_OVERHEAD};
pub use groups::{FunctionGroup, FunctionGroups};
pub use idle::{
    Condition, IdleCause, IdleEpisode, IdleFinding, IdleReport, IdleRule, IdleRules, IpcWait,
    Suspect,
};
pub use input::{Format, open, read};
pub use microarch::{Microarch, MicroarchRow};
pub use names::{Name, Names};
pub use net_path::{NetDelay, NetStep, net_delays};
#[cfg(feature = "sqlite")]
pub use query::{Answer, Database, SCHEMA};
pub use report::{FunctionReport, Report, ReportJson, ReportOptions, Table};
pub use sampled::{Sampled, SampledAcross, SampledFunction, SampledFunctions};
pub use scenario::{Scenario, Step};
pub use sink::Sink;
pub use spans::SpanTime;
pub use summary::{CpuBusy, MethodCounts, Summarizer, Summary};
pub use tasks::{ClassRules, Task, TaskClass, Tasks};
pub use trace::{
    AsyncSlice, BinderKind, BinderRecord, BlockRecord, BlockedRecord, CounterRecord,
    FrequencyRecord, IrqRecord, NetRecord, PowerRecord, Slice, SwitchRecord, TimerRecord, Trace,
    TraceBuilder, WakeRecord,
};
pub use usage::{CpuUsage, FrequencyUsage, ProcessParallelism, Run, Usage};
