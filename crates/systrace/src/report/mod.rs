//! All analyses of one trace, as findings, tables, JSON and HTML.

mod analyses;
mod charts;
mod findings;
mod json;
mod page;
mod pictures;
mod suite;
mod tables;
mod timeline;

pub use analyses::{FunctionReport, Report, ReportOptions};
pub use json::ReportJson;
pub use suite::{
    Claim, ClaimResult, CpuPower, HotFunction, PowerLog, PowerSource, ScenarioResult, Suite,
    SuiteBuilder, SuiteError, Value,
};
pub use tables::Table;
