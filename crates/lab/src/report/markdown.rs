//! The tables as Markdown, for a page of documentation.

use std::fmt::Write as _;

use super::page::{overview, provenance};
use super::sheet::Sheet;
use super::study::Study;
use crate::figures::grid::cell;
use crate::figures::pooled::pooled;
use crate::figures::table;
use crate::figures::waiting::waiting;

/// An overview and each experiment's tables, as Markdown.
pub fn to_markdown(studies: &[Study]) -> String {
    to_markdown_with(studies, &[])
}

/// As [`to_markdown`], with the records of measurements.
pub fn to_markdown_with(studies: &[Study], sheets: &[Sheet]) -> String {
    let mut out = overview(studies, sheets).to_markdown();
    for study in studies {
        let r = &study.report;
        let _ = write!(
            out,
            "\n### {}: {}\n\n{}\n",
            cell(&r.experiment),
            cell(&r.title),
            cell(&provenance(study))
        );
        for grid in [
            table::comparisons(&r.paper),
            table::judgements(&r.asserts),
            table::summaries(&r.summary),
            table::noticed(&r.summary),
            pooled(&r.transfers),
            table::machine(&r.transfers),
            waiting(&r.transfers),
        ] {
            if !grid.is_empty() {
                let _ = write!(out, "\n{}", grid.to_markdown());
            }
        }
    }
    for sheet in sheets {
        out += &sheet.to_markdown();
    }
    out
}
