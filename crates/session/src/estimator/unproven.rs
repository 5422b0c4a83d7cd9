//! Limit of the octets owed through a helper that has shown no rate (ADR 0031).

use mpbond_units::Timestamp;

use super::Estimator;
use super::opening::INITIAL_WINDOW;

/// Octets that a path through a helper may owe while its far hop has shown no rate, beside those
/// that were acknowledged since octets were owed again, and just before that: TCP's initial window,
/// and the one of twice as much that its acknowledgement lets go on the far hop, before our peer's
/// has come (ADR 0089). They are fewer than the copies of a transfer's end, so that a path that
/// turns out slow costs bytes, no time.
const UNPROVEN_BYTES: u64 = 3 * INITIAL_WINDOW;

impl Estimator {
    /// Whether the octets owed through a helper whose far hop has shown no rate exceed their limit:
    /// [`UNPROVEN_BYTES`], and as much again as was acknowledged, as in slow start.
    pub(crate) fn unproven_is_full(&self, now: Timestamp, sent: u64, acked: u64) -> bool {
        let owed = sent.saturating_sub(acked);
        let allowed = UNPROVEN_BYTES + acked.saturating_sub(self.unproven_from);
        self.through_helper && owed > allowed && !self.far_is_shown(now)
    }
}
