//! Sizes of records.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::session::Session;
use crate::subflow::Subflow;
use crate::wire::MAX_RECORD_BYTES;

/// A record's time on its path: short enough that small frames never wait long behind one, long
/// enough that framing stays under half a percent at the rates of interest.
const RECORD_TIME: Duration = Duration::from_millis(12);

/// Least record while the backlog is long.
const LEAST_RECORD: u64 = 4_096;

/// A record's time while queues are short: half of the delay that is aimed at.
const SHORT_RECORD_TIME: Duration = Duration::from_millis(5);

/// Least record while queues are short: two full packets of IPv6, with the overhead of the record.
const LEAST_SHORT_RECORD: u64 = 2_820;

/// Waiting bytes up to which a record may be as short as a packet, where a window holds no more:
/// most of them may go in the first windows (ADR 0086). With more the next window brings the rest
/// of the record anyway.
const FEW_BYTES: u64 = 64 << 10;

impl Session {
    /// Maximum octets of the next record on a subflow.
    pub(super) fn record_limit(&self, now: Timestamp, s: &Subflow) -> u64 {
        let (time, least) = match self.short_exchanges.is_recent(now) {
            true => (SHORT_RECORD_TIME, LEAST_SHORT_RECORD),
            false => (RECORD_TIME, LEAST_RECORD),
        };
        let octets = s.throughput(now).bytes_in(time);
        let octets = octets.clamp(least, MAX_RECORD_BYTES as u64);
        // The other end decrypts a record when all of it has come: one that does not fit into the
        // window waits for the next round trip as a whole.
        let pays = |fits: &u64| *fits >= least || self.streams.unscheduled_in_all() <= FEW_BYTES;
        let fits = s.at_once(now).filter(pays);
        fits.map_or(octets, |fits| octets.min(fits))
    }
}
