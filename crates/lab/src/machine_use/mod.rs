//! Use of all processors of this machine over a run, interrupts and softirqs included; waiting for
//! them; and whether other programs disturbed the run.
//!
//! One thread of class `SCHED_IDLE` on each processor counts idle time (ADR 0028). Steal, and the
//! use by processes that have no part in the run, are told apart. The kernel counts for how long
//! each thread waits (ADR 0055).

mod account;
mod disturbed;
mod line;
mod processes;
mod soaker;
mod waits;

#[cfg(feature = "measurements")]
pub(crate) use account::Counters;
pub use account::Use;
pub(crate) use disturbed::{are_enough, are_undisturbed, further, why_disturbed};
pub(crate) use line::{Reader, Reading, serve};
#[cfg(feature = "measurements")]
pub(crate) use soaker::Soaker;
pub use waits::Waited;
pub(crate) use waits::Waits;
