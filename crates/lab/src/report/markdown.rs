//! The tables as Markdown, for a page of documentation.

use std::fmt::Write as _;

use super::escape::cell;
use super::page::{overview, provenance};
use super::study::Study;
use crate::table;

/// Overview, and each experiment's tables, as Markdown.
pub fn to_markdown(studies: &[Study]) -> String {
    let mut out = overview(studies).to_markdown();
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
        ] {
            if !grid.is_empty() {
                let _ = write!(out, "\n{}", grid.to_markdown());
            }
        }
    }
    out
}
