//! All analyses of one trace, as findings, tables, JSON and HTML.

mod analyses;
mod charts;
mod findings;
mod json;
mod page;
mod pictures;
mod tables;
mod timeline;

pub use analyses::{FunctionReport, Report, ReportOptions};
pub use json::ReportJson;
pub use tables::Table;
