//! Hedged ends of transfers: when nothing is left to be sent, a subflow that has run dry
//! takes copies of the last bytes of the one that is expected to deliver latest.
//!
//! A path of unknown rate is given a window like any other, and may need long for it. Copies that
//! begin at once cost nothing but bytes: the transfer ends hardly later than without that path.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::reinject::{Reinjection, Work};
use super::takers::Takers;
use crate::copies::Cause;
use crate::subflow::{LastFrame, Subflow};

/// Maximum bytes of the copies in each transfer, and as many again for each subflow through a
/// helper that has shown no rate and owes something: more than such a path is given at first.
const MAX_BYTES: u64 = 32 << 10;

/// Least bytes that must be left for hedges: a segment, about.
const LEAST_BYTES: u64 = 1_000;

/// Bytes of a short transfer.
const SHORT_BYTES: u64 = 256 << 10;

/// Least gain of a hedge: less is no reason to send bytes twice. In a longer transfer than a short
/// one, it is at least the time that the copies take: a link is kept busy no longer than it saves.
const LEAST_GAIN: Duration = Duration::from_millis(2);

impl Reinjection {
    /// Hedges the end of a transfer: queues copies of the last bytes of the latest subflow if
    /// the fastest that has room would deliver them before.
    pub(super) fn hedge(&mut self, now: Timestamp, work: &mut Work) {
        if !self.config.hedge {
            return;
        }
        let is_unproven = |s: &&Subflow| s.works() && s.is_unproven(now) && !s.sent.is_empty();
        let unproven = work.subflows.iter().filter(is_unproven).count() as u64;
        let budget = (MAX_BYTES * (1 + unproven)).saturating_sub(self.hedged);
        if budget < LEAST_BYTES {
            return;
        }
        // What the other end's host has needs no copy.
        let owes = |s: &Subflow| s.sent.unhedged_bytes() > 0 && !s.health.delivered;
        let late = |s: &&Subflow| s.works() && s.is_regular() && owes(s);
        let subflows = work.subflows.iter();
        let Some(slow) = subflows
            .clone()
            .filter(late)
            .max_by_key(|s| s.remaining(now))
        else {
            return;
        };
        let takes = |s: &&Subflow| {
            let may = s.id != slow.id && s.may_take_over() && s.cost <= slow.cost;
            may && s.tx.room > 0 && !s.near_is_full(now)
        };
        let Some(fast) = subflows.filter(takes).min_by_key(|s| s.pad(now)) else {
            return;
        };
        // What others of unknown rate owe may turn out to be late as well: it keeps its part.
        let others = work.subflows.iter().filter(|s| s.id != slow.id);
        let owed = others
            .filter(is_unproven)
            .map(|s| s.sent.unhedged_bytes().min(MAX_BYTES));
        let left = budget.saturating_sub(owed.sum());
        if left < LEAST_BYTES {
            return;
        }
        let bytes = left.min(slow.sent.unhedged_bytes());
        let sent = work.stats.bytes_out - self.sent_before;
        let takes = fast.throughput(now).time_for(bytes);
        // What its window holds goes at once, whatever rate the window has shown so far; not where
        // it may wait at a helper.
        let waits_nowhere = !fast.is_unproven(now) || fast.sent.is_empty();
        let at_once = if waits_nowhere { fast.free_window() } else { 0 };
        let beyond = fast.throughput(now).time_for(bytes.saturating_sub(at_once));
        let (waits, least_gain) = match sent {
            0..=SHORT_BYTES => (beyond, LEAST_GAIN),
            _ => (takes, takes.max(LEAST_GAIN)),
        };
        if slow.remaining(now) <= fast.pad(now) + waits + least_gain {
            return;
        }
        let (id, takers) = (slow.id, Takers::of(std::iter::once(fast)));
        if let Some(i) = work.subflows.index(id) {
            let may = |paths| takers.may_carry(paths);
            let copied = work.recall(i, bytes, LastFrame::Cut, Cause::Hedged, may);
            self.hedged += copied;
            // Rebalancing has its own allowance.
            self.copies_before += copied;
        }
    }
}

#[cfg(test)]
mod tests {
    use mpbond_units::BitRate;

    use super::*;
    use crate::config::ReinjectionConfig;
    use crate::session::streams::Streams;
    use crate::session::subflows::Subflows;
    use crate::stream::Stream;
    use crate::{PathInfo, Role, StreamClass};

    const MIB: u64 = 1 << 20;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    /// Copies queued at an instant, where a subflow of 1 MB/s was given `bytes` at 0 ms and another
    /// has run dry; `sent` bytes in all. Rates are measured, or follow from windows.
    fn hedged_of(measured: bool, at: u64, bytes: u64, sent: u64) -> u64 {
        hedged_with(Subflows::new(), measured, at, bytes, sent)
    }

    /// The same beside helpers that have shown no rate, of which so many owe as many bytes.
    fn hedged_beside(unproven: u32, owing: u32, bytes: u64) -> u64 {
        let mut subflows = Subflows::new();
        for id in 0..unproven {
            let mut s = Subflow::for_test(10 + id, Some(id), Role::Regular);
            s.tx.room = 0;
            if id < owing {
                s.give(ms(0), 0, 900_000..900_000 + bytes);
            }
            subflows.add(s);
        }
        hedged_with(subflows, true, 0, 200_000, 250_000)
    }

    fn hedged_with(mut subflows: Subflows, measured: bool, at: u64, bytes: u64, sent: u64) -> u64 {
        for id in [1, 2] {
            let mut s = Subflow::for_test(id, None, Role::Regular);
            if measured {
                let path = PathInfo {
                    bytes_arrived: 1,
                    ..*s.estimator.path()
                };
                s.estimator.on_path(ms(0), path);
            }
            subflows.add(s);
        }
        let mut streams = Streams::new();
        let mut stream = Stream::new(StreamClass::Bulk, None, ms(0), MIB);
        stream.send.max_offset = MIB;
        let id = streams.open(stream);
        streams.write(id, vec![0; MIB as usize].into());
        let buffer = &mut streams.get_mut(id).unwrap().send.buffer;
        buffer.take_new(MIB, MIB);
        for start in (0..bytes).step_by(1_000) {
            let slow = subflows.index(crate::SubflowId(1)).unwrap();
            subflows[slow].give(ms(0), 0, start..bytes.min(start + 1_000));
        }
        let mut reinjection = Reinjection::new(&ReinjectionConfig::default());
        let mut stats = crate::SessionStats {
            bytes_out: sent,
            ..crate::SessionStats::default()
        };
        let mut work = Work {
            subflows: &mut subflows,
            streams: &mut streams,
            stats: &mut stats,
        };
        // What is due once is not copied twice.
        reinjection.hedge(ms(at), &mut work);
        reinjection.hedge(ms(at), &mut work);
        streams.retransmit_bytes()
    }

    /// The same of a short transfer.
    fn hedged(measured: bool, at: u64, bytes: u64) -> u64 {
        hedged_of(measured, at, bytes, 250_000)
    }

    #[test]
    fn the_last_bytes_of_the_latest_are_copied() {
        // 200 kB take 200 ms, copies of 32 KiB on the other 60 ms.
        assert_eq!(hedged(true, 0, 200_000), MAX_BYTES);
        // What arrives sooner than a copy could is not copied.
        assert_eq!(hedged(true, 0, 10_000), 0);
        assert_eq!(hedged(true, 200, 200_000), 0);
    }

    #[test]
    fn there_are_more_copies_where_helpers_of_unknown_rate_owe_something() {
        for (unproven, owing, most) in [(0, 0, 1), (2, 0, 1), (2, 1, 2), (2, 2, 3)] {
            let copied = hedged_beside(unproven, owing, 1_000);
            let kept = u64::from(owing) * 1_000;
            assert_eq!(copied, most * MAX_BYTES - kept, "{owing} of {unproven}");
        }
        // Each keeps its own part at most.
        assert_eq!(hedged_beside(1, 1, 100_000), MAX_BYTES);
    }

    #[test]
    fn a_path_that_has_become_slower_is_late_before_an_acknowledgement_is_overdue() {
        let mut s = Subflow::for_test(1, None, Role::Regular);
        let path = PathInfo {
            bytes_arrived: 1,
            ..*s.estimator.path()
        };
        s.estimator.on_path(ms(0), path);
        s.give(ms(0), 0, 0..200_000);
        assert_eq!(s.remaining(ms(150)).as_millis(), 50);
        let path = PathInfo {
            bytes_arrived: 20_000,
            delivery_rate: BitRate::from_bytes_per_sec(1e5),
            ..path
        };
        s.estimator.on_path(ms(150), path);
        assert!(s.remaining(ms(150)) > Duration::from_millis(300));
    }

    #[test]
    fn copies_of_a_longer_transfer_save_the_time_that_they_take() {
        // They take 33 ms on the other subflow, and at 130 ms would save less.
        assert_eq!(hedged_of(true, 100, 200_000, 300_000), MAX_BYTES);
        assert_eq!(hedged_of(true, 130, 200_000, 250_000), MAX_BYTES);
        assert_eq!(hedged_of(true, 130, 200_000, 300_000), 0);
    }

    #[test]
    fn what_is_overdue_or_was_never_measured_is_copied() {
        assert_eq!(hedged(true, 80, 10_000), 0);
        assert_eq!(hedged(true, 200, 10_000), 10_000);
        assert_eq!(hedged(true, 200, 300), 300);
        // It has taken 80 ms already.
        assert_eq!(hedged(false, 80, 10_000), 10_000);
    }
}
