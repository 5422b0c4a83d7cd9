//! Limit of the octets owed through a helper that has shown no rate (ADR 0031).

use mpbond_units::Timestamp;

use super::Estimator;

/// Octets that a path through a helper may owe while its far hop has shown no rate, beside those
/// that were acknowledged since octets were owed again, and just before that: fewer than the copies
/// of a transfer's end, so that a path that turns out slow costs bytes, no time.
const UNPROVEN_BYTES: u64 = 28 << 10;

impl Estimator {
    /// Whether a helper whose far hop has shown no rate is owed more than may be risked: a little,
    /// twice as much for the last bytes that wait, and as much again as was acknowledged, as in
    /// slow start.
    pub(crate) fn unproven_is_full(
        &self,
        now: Timestamp,
        sent: u64,
        acked: u64,
        are_last: bool,
    ) -> bool {
        let owed = sent.saturating_sub(acked);
        let least = UNPROVEN_BYTES << u32::from(are_last);
        let allowed = least + acked.saturating_sub(self.unproven_from);
        self.through_helper && owed > allowed && !self.far_is_shown(now)
    }
}
