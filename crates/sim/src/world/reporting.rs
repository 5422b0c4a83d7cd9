//! What a helper knows of one relay for its reports, and when these are due.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Time without a relayed byte after which a relay is no longer reported on, as in the daemon
/// (`mpbond::helper::control`).
const QUIET: Duration = Duration::from_millis(500);

/// What a helper knows of one relay for its reports.
#[derive(Debug, Default)]
pub(super) struct Reporting {
    /// Reports sent so far.
    number: u64,
    /// Bytes relayed when the helper last looked, and when it last found more than before.
    relayed_bytes: u64,
    moved: Option<Timestamp>,
    /// Bytes received from the HS-Path, and when that number last grew.
    downlink_bytes: u64,
    downlink_at: Option<Timestamp>,
}

impl Reporting {
    /// So many bytes have been received from the HS-Path.
    pub(super) fn note_downlink(&mut self, now: Timestamp, bytes: u64) {
        if bytes > self.downlink_bytes {
            self.downlink_bytes = bytes;
            self.downlink_at = Some(now);
        }
    }

    /// Whether a report would be sent at an instant, if so many bytes have been relayed by then.
    pub(super) fn is_due(&self, at: Timestamp, relayed_bytes: u64) -> bool {
        let moved_lately = |moved| at.since(moved) < QUIET;
        relayed_bytes != self.relayed_bytes || self.moved.is_some_and(moved_lately)
    }

    /// The number of the report that is sent now.
    pub(super) fn next(&mut self, now: Timestamp, relayed_bytes: u64) -> u64 {
        if relayed_bytes != self.relayed_bytes {
            self.relayed_bytes = relayed_bytes;
            self.moved = Some(now);
        }
        self.number += 1;
        self.number
    }

    /// Time since a byte last came down the HS-Path.
    pub(super) fn since_downlink(&self, now: Timestamp) -> Option<Duration> {
        self.downlink_at.map(|at| now.since(at))
    }
}
