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
mod clusters;
mod error;
mod event;
mod functions;
mod groups;
mod input;
mod method;
mod microarch;
mod perf;
mod perfetto;
mod sink;
mod source;
mod summary;
mod text;
mod tracedat;

pub use activity::{Activity, Concurrency};
pub use error::{ErrorKind, Incomplete, TraceError};
pub use event::{
    Clock, ClockReading, Event, Mark, MethodAction, MethodRecord, NetPoint, Payload, Sample,
    Switch, TaskState, ThreadInfo, Wake,
};
pub use functions::{AcrossTraces, FunctionProfile, FunctionTime, GroupTime, PAPER_OVERHEAD};
pub use groups::{FunctionGroup, FunctionGroups};
pub use input::{Format, open, read};
pub use microarch::{Microarch, MicroarchRow};
pub use sink::Sink;
pub use summary::{CpuBusy, MethodCounts, Summarizer, Summary};
