//! Profiler samples: `perf script` text, `perf.data`, and simpleperf's protobuf report.

mod data;
mod script;
mod simpleperf;
mod symbols;

pub(crate) use data::read as read_data;
pub(crate) use script::{is_head as is_script_head, read as read_script};
pub(crate) use simpleperf::read as read_simpleperf;
pub(crate) use symbols::{Symbols, object_symbol};
