//! Time stamps in the messages of a stream.

use std::time::Duration;

/// Bytes of a stamp: nanoseconds of the machine's monotonic clock, big-endian.
pub(crate) const STAMP_BYTES: usize = 8;

/// The machine's monotonic clock, the same on all hosts of a lab.
pub(crate) fn stamp() -> u64 {
    let now = nix::time::ClockId::CLOCK_MONOTONIC.now();
    let now = now.map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
