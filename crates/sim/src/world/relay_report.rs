//! A helper's report to the primary, on its way.

use std::time::Duration;

use mpbond_manager::{LinkId, RequestId};
use mpbond_session::FarReport;

/// IP bytes of a helper's report.
pub(super) const REPORT_BYTES: u32 = 160;

/// A helper's report to the primary on one subflow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    /// The pipe.
    pub(super) link: LinkId,
    /// The relay, by the request that opened it.
    pub(super) request: RequestId,
    /// Number of the report, rising for each relay.
    pub(super) number: u64,
    pub(super) pipe: FarReport,
    pub(super) hs: FarReport,
    /// Time since a byte last came down the HS-Path.
    pub(super) downlink: Option<Duration>,
}
