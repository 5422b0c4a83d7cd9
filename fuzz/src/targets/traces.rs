//! Targets for system traces: ftrace text, systrace pages, trace.dat, Perfetto, method traces, perf
//! samples.

use std::sync::OnceLock;

use mpbond_systrace::{Report, ReportOptions};

/// A trace in any format, and its HTML report. The targets of the formats differ in their corpora
/// only.
pub fn trace(octets: &[u8]) {
    static OPTIONS: OnceLock<ReportOptions> = OnceLock::new();
    let options = OPTIONS.get_or_init(ReportOptions::default);
    match Report::of(octets, options) {
        Ok(report) => assert!(report.html("x").ends_with("</html>\n")),
        Err(e) => super::one_line(&e),
    }
}
