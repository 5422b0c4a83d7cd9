//! Writing a record as JSON and as a page.

use std::path::Path;

use crate::error::{Doing, Error, Result};
use crate::figures::json;
use crate::record::RunReport;
use crate::report::{self, Saved};

/// Writes a record as JSON and as a page, where a path is given.
pub(crate) fn hand_out(report: &RunReport, json: Option<&Path>, html: Option<&Path>) -> Result<()> {
    if let Some(path) = json {
        let text =
            json::lines(report).map_err(|e| Error::run(format!("cannot write the record: {e}")))?;
        std::fs::write(path, text).at("write", path)?;
    }
    if let Some(path) = html {
        let studies = report::join(vec![Saved::of_run("this run", report)], &[])?;
        let title = format!("{}: {}", report.experiment, report.title);
        let page = report::to_html(&title, &report.date, &studies);
        std::fs::write(path, page).at("write", path)?;
    }
    Ok(())
}
