//! Targets for system traces: ftrace text, systrace pages, trace.dat, Perfetto, method traces, perf
//! samples.

use std::sync::OnceLock;

use mpbond_systrace::{MethodCalls, Report, ReportOptions, TraceBuilder, read};

/// A system trace with runs of two threads, for method traces to be joined with.
const STALL: &[u8] = include_bytes!("../../../crates/systrace/tests/data/stalled_request.txt");

/// A trace in any format, and its HTML report. The targets of the formats differ in their corpora
/// only.
pub fn trace(octets: &[u8]) {
    static OPTIONS: OnceLock<ReportOptions> = OnceLock::new();
    let options = OPTIONS.get_or_init(ReportOptions::default);
    match Report::of(octets, options) {
        Ok(report) => assert!(report.html("x").ends_with("</html>\n")),
        Err(e) => super::one_line(&e),
    }
    let mut methods = MethodCalls::default();
    let mut builder = TraceBuilder::default();
    if read(octets, &mut methods).is_ok() && read(STALL, &mut builder).is_ok() {
        let mut trace = builder.finish();
        let runs = trace.runs();
        if let Err(e) = trace.join(&runs, &methods) {
            super::one_line(&e);
        }
    }
}
