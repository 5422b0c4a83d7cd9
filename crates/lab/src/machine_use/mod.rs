//! Use of all processors of this machine over a run, interrupts and softirqs included.
//!
//! One thread of class `SCHED_IDLE` on each processor counts idle time (ADR 0028). Steal, and the
//! use by processes that have no part in the run, are told apart.

mod account;
mod line;
mod processes;
mod soaker;

pub use account::Use;
pub(crate) use account::are_fit;
#[cfg(feature = "measurements")]
pub(crate) use account::{Counters, Pair};
pub(crate) use line::{Reader, Reading, serve};
#[cfg(feature = "measurements")]
pub(crate) use soaker::Soaker;
