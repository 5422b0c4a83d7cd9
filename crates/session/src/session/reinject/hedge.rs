//! Hedged ends of transfers: when nothing has been left to be sent for a moment, a subflow that has
//! run dry takes copies of the last bytes of the one that is expected to deliver latest.
//!
//! A path of unknown rate is given a window like any other, and may need long for it. Copies that
//! begin at once cost nothing but bytes: the transfer ends hardly later than without that path.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::takers::Takers;
use super::{Reinjection, Work};
use crate::SubflowId;
use crate::copies::Cause;
use crate::subflow::{LastFrame, Subflow};

/// Maximum bytes of the copies in each transfer that is not late, and as many again for each
/// subflow through a helper that has shown no rate and owes something: more than such a path is
/// given at first. Of a short transfer, also the maximum of bytes that are copied at a time.
const MAX_BYTES: u64 = 32 << 10;

/// Part of the bytes of a long transfer that may be copied in place of [`MAX_BYTES`] where it would
/// otherwise take longer by over [`LATE_PART`] (ADR 0083); of a short one all may be (ADR 0086).
const COPIED_PART: u64 = 8;

/// Part of the time of a transfer over the fastest subflow alone.
const LATE_PART: u32 = 16;

/// Least bytes that must be left for hedges: a segment, about.
const LEAST_BYTES: u64 = 1_000;

/// Maximum bytes of a short transfer.
const SHORT_BYTES: u64 = 256 << 10;

/// Least gain of a hedge: less is no reason to send bytes twice. In a longer transfer than a short
/// one, it is at least the time that the copies take: a link is kept busy no longer than it saves.
const LEAST_GAIN: Duration = Duration::from_millis(2);

/// Time for which nothing has been left to be sent, and no application has written, at the end of a
/// transfer. Between two parts that an application writes, or that are read from it, nothing is
/// left either (ADR 0093).
const END_AFTER: Duration = Duration::from_millis(2);

/// Result of a look at a subflow that owes bytes.
enum Look {
    /// Its last bytes are to be copied.
    Hedge(Hedge),
    /// Copies of them wait for a window, which may be open then.
    Waits(Timestamp),
}

/// Bytes of one subflow that others are to be given as well.
struct Hedge {
    of: SubflowId,
    bytes: u64,
    /// The paths that may carry the copies.
    takers: Takers,
}

/// What a transfer has sent and copied, and how much of it may be copied.
struct Allowance {
    sent: u64,
    hedged: u64,
    /// Copies of a transfer that is not late.
    base: u64,
}

impl Allowance {
    /// Bytes that may be copied still, none of them twice.
    fn left(&self, transfer_is_late: bool) -> u64 {
        let most = match transfer_is_late {
            true if self.is_short_transfer() => u64::MAX,
            true => self.base.max(self.sent / COPIED_PART),
            false => self.base,
        };
        most.saturating_sub(self.hedged)
    }

    fn is_short_transfer(&self) -> bool {
        self.sent <= SHORT_BYTES
    }
}

impl Reinjection {
    /// Hedges the end of a transfer: queues copies of the last bytes of the latest subflow for
    /// which another one that has run dry delivers them before, or might. Returns when to look
    /// again, if copies wait for something that no event tells of.
    pub(in crate::session) fn hedge(
        &mut self,
        now: Timestamp,
        work: &mut Work,
    ) -> Option<Timestamp> {
        if !self.config.hedge {
            return None;
        }
        let ends_at = *self.dry_since.get_or_insert(now) + END_AFTER;
        let unproven = work.subflows.iter().filter(|s| owes_unproven(now, s));
        let allowance = Allowance {
            sent: self.sent(work.stats),
            hedged: self.hedged,
            base: MAX_BYTES * (1 + unproven.count() as u64),
        };
        if allowance.left(true) < LEAST_BYTES {
            return None;
        }
        // What the other end's host has needs no copy.
        let owes = |s: &Subflow| copiable_bytes(s) > 0 && !s.health.delivered;
        let late = |s: &&Subflow| s.works() && s.is_regular() && owes(s);
        let mut again: Option<Timestamp> = None;
        let hedges = work.subflows.iter().filter(late).filter_map(|slow| {
            match look_at(now, slow, &allowance, work)? {
                Look::Hedge(hedge) => Some((slow.remaining(now, LEAST_GAIN), hedge)),
                Look::Waits(at) => {
                    again = Some(again.map_or(at, |first| first.min(at)));
                    None
                }
            }
        });
        let Some((_, hedge)) = hedges.max_by_key(|(remaining, _)| *remaining) else {
            return again;
        };
        if now < ends_at {
            return Some(again.map_or(ends_at, |first| first.min(ends_at)));
        }
        if let Some(i) = work.subflows.index(hedge.of) {
            let may = |paths| hedge.takers.may_carry(paths);
            let copied = work.recall(i, hedge.bytes, LastFrame::Cut, Cause::Hedged, may);
            self.hedged += copied;
            // Rebalancing has its own allowance.
            self.copies_before += copied;
        }
        None
    }
}

/// Copies of what one subflow owes for the fastest that has room and nothing to carry.
fn look_at(now: Timestamp, slow: &Subflow, allowance: &Allowance, work: &Work) -> Option<Look> {
    let fast = fastest_for(now, slow, work)?;
    let gain = slow
        .remaining(now, LEAST_GAIN)
        .saturating_sub(fast.pad(now));
    let alone = fast.throughput(now).time_for(allowance.sent);
    // Another pipe to the same helper ends in the same link.
    let is_other = fast.helper.is_none() || fast.helper != slow.helper;
    let transfer_is_late = is_other && gain > alone / LATE_PART;
    let left = allowance.left(transfer_is_late);
    let left = left.saturating_sub(kept_for_others(now, slow, work));
    if left < LEAST_BYTES {
        return None;
    }
    let is_short = allowance.is_short_transfer();
    let at_a_time = match is_short {
        true => MAX_BYTES,
        // More than that would save less than the time that it takes.
        false => MAX_BYTES.max(fast.throughput(now).bytes_in(gain / 2)),
    };
    let mut bytes = left.min(copiable_bytes(slow)).min(at_a_time);
    if gain <= least_gain(now, bytes, is_short, fast) {
        if !is_short || !may_be_late(now, slow) {
            return None;
        }
        // What another window holds takes no time.
        let window = fast.free_window();
        bytes = bytes.min(window).min(fast.tx.room);
        if bytes < LEAST_BYTES {
            let at = fast.estimator.opens_at(now);
            return at.filter(|_| window < LEAST_BYTES).map(Look::Waits);
        }
    }
    Some(Look::Hedge(Hedge {
        of: slow.id,
        bytes,
        takers: Takers::of(std::iter::once(fast)),
    }))
}

/// Bytes that a subflow owes, which are no hedges and have no copy. Where it answers within the
/// least gain, only those that the other end's host has not acknowledged: the last ones.
fn copiable_bytes(s: &Subflow) -> u64 {
    let bytes = s.sent.unhedged_bytes();
    if !s.is_shown_to_answer_in(LEAST_GAIN) {
        return bytes;
    }
    let unacknowledged = s.tx.octets.saturating_sub(s.estimator.path().bytes_acked);
    let others = s.sent.data_bytes - bytes;
    bytes.min(unacknowledged.saturating_sub(others))
}

/// The fastest subflow that may take over from another one, has room and has run dry.
fn fastest_for<'a>(now: Timestamp, slow: &Subflow, work: &'a Work) -> Option<&'a Subflow> {
    let has_run_dry = |s: &Subflow| s.tx.room > 0 && !work.streams.may_have_copies_for(s.id);
    let takes = |s: &&Subflow| {
        let may = s.may_take_over_from(slow) && s.cost <= slow.cost;
        may && has_run_dry(s) && !s.near_is_full(now)
    };
    let subflows = work.subflows.iter();
    subflows.filter(takes).min_by_key(|s| s.pad(now))
}

/// Bytes that are not copied of one subflow: what others of unknown rate owe may turn out to be
/// late as well.
fn kept_for_others(now: Timestamp, slow: &Subflow, work: &Work) -> u64 {
    let others = work.subflows.iter().filter(|s| s.id != slow.id);
    let unproven = others.filter(|s| owes_unproven(now, s));
    let owed = unproven.map(|s| s.sent.unhedged_bytes().min(MAX_BYTES));
    owed.sum()
}

/// By how much sooner the fast subflow has to deliver so that these bytes are copied.
fn least_gain(now: Timestamp, bytes: u64, is_short: bool, fast: &Subflow) -> Duration {
    if !is_short {
        let takes = fast.throughput(now).time_for(bytes);
        return takes + takes.max(LEAST_GAIN);
    }
    // What its window holds goes at once, whatever rate the window has shown so far; not where it
    // may wait at a helper.
    let waits_nowhere = !fast.is_unproven(now) || fast.sent.is_empty();
    let at_once = if waits_nowhere { fast.free_window() } else { 0 };
    fast.throughput(now).time_for(bytes.saturating_sub(at_once)) + LEAST_GAIN
}

/// Whether what a subflow owes may be late whatever its window says.
fn may_be_late(now: Timestamp, slow: &Subflow) -> bool {
    !slow.estimator.rate_is_known(now) && !slow.is_shown_to_bring_all_in(LEAST_GAIN)
}

/// Whether a subflow that works owes something through a helper that has shown no rate.
fn owes_unproven(now: Timestamp, s: &Subflow) -> bool {
    s.works() && s.is_unproven(now) && !s.sent.is_empty()
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

    /// An instant, counted from when the transfer counts as ended.
    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v) + END_AFTER
    }

    /// Copies queued at an instant, where a subflow of 1 MB/s was given `bytes` at 0 ms and another
    /// has run dry; `sent` bytes in all. Rates are measured, or follow from windows.
    fn hedged_of(measured: bool, at: u64, bytes: u64, sent: u64) -> u64 {
        hedged_with(Subflows::new(), measured, at, bytes, sent, 50_000)
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
        hedged_with(subflows, true, 0, 300_000, SHORT_BYTES + 1, 50_000)
    }

    fn hedged_with(
        subflows: Subflows,
        measured: bool,
        at: u64,
        bytes: u64,
        sent: u64,
        window: u64,
    ) -> u64 {
        hedged_to(|_| {}, subflows, measured, at, bytes, sent, window)
    }

    /// The same, both changed by `change`.
    fn hedged_to(
        change: impl Fn(&mut Subflow),
        subflows: Subflows,
        measured: bool,
        at: u64,
        bytes: u64,
        sent: u64,
        window: u64,
    ) -> u64 {
        looked_at(change, subflows, measured, at, bytes, sent, window).0
    }

    /// The same, and when to look again.
    fn looked_at(
        change: impl Fn(&mut Subflow),
        mut subflows: Subflows,
        measured: bool,
        at: u64,
        bytes: u64,
        sent: u64,
        window: u64,
    ) -> (u64, Option<Timestamp>) {
        for id in [1, 2] {
            let mut s = Subflow::for_test(id, None, Role::Regular);
            let path = PathInfo {
                bytes_arrived: u64::from(measured),
                cwnd_bytes: window,
                ..*s.estimator.path()
            };
            s.estimator.on_path(ms(0), path);
            change(&mut s);
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
        reinjection.dry_since = Some(Timestamp::ZERO);
        // What is due once is not copied twice.
        reinjection.hedge(ms(at), &mut work);
        let again = reinjection.hedge(ms(at), &mut work);
        (streams.retransmit_bytes(), again)
    }

    /// The same of a short transfer.
    fn hedged(measured: bool, at: u64, bytes: u64) -> u64 {
        hedged_of(measured, at, bytes, 250_000)
    }

    #[test]
    fn the_last_bytes_of_the_latest_are_copied() {
        // 200 kB take 200 ms, copies of 32 KiB on the other 60 ms.
        assert_eq!(hedged(true, 0, 200_000), MAX_BYTES);
        // What a copy would bring less than 2 ms sooner is not copied.
        assert_eq!(hedged(true, 0, 1_500), 0);
        assert_eq!(hedged(true, 205, 200_000), 0);
    }

    #[test]
    fn all_bytes_of_a_short_transfer_may_be_copied_where_it_would_be_late() {
        let left = |sent, is_late| {
            let allowance = Allowance {
                sent,
                hedged: MAX_BYTES,
                base: MAX_BYTES,
            };
            allowance.left(is_late)
        };
        assert!(left(SHORT_BYTES, true) > SHORT_BYTES);
        assert_eq!(left(SHORT_BYTES, false), 0);
        assert_eq!(left(SHORT_BYTES + 1, true), 0);
    }

    #[test]
    fn copies_that_wait_for_a_window_are_looked_for_a_round_trip_after_it_was_filled() {
        let again = |room| {
            // Both have been given a whole window, and nothing is known of their rates.
            let change = |s: &mut Subflow| {
                s.tx.octets = 10_000;
                s.tx.room = room;
                s.estimator.owes_again(ms(0), 0);
            };
            let looked = looked_at(change, Subflows::new(), false, 0, 10_000, 250_000, 10_000);
            assert_eq!(looked.0, 0);
            looked.1
        };
        assert_eq!(again(100_000), Some(ms(50)));
        // Its socket takes nothing: an event tells when it does.
        assert_eq!(again(0), None);
    }

    #[test]
    fn nothing_is_copied_for_a_radio_that_is_left_asleep() {
        let resting = |data_bytes| {
            let change = |s: &mut Subflow| {
                if s.id == crate::SubflowId(2) {
                    s.radio.rests = true;
                    s.sent.data_bytes = data_bytes;
                }
            };
            hedged_to(change, Subflows::new(), true, 0, 200_000, 250_000, 50_000)
        };
        assert_eq!(resting(0), 0);
        // It carries bytes of streams that no other may carry.
        assert_eq!(resting(1_000), 0);
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
        assert_eq!(s.remaining(ms(150), LEAST_GAIN).as_millis(), 75);
        let path = PathInfo {
            bytes_arrived: 20_000,
            delivery_rate: BitRate::from_bytes_per_sec(1e5),
            ..path
        };
        s.estimator.on_path(ms(150), path);
        assert!(s.remaining(ms(150), LEAST_GAIN) > Duration::from_millis(300));
    }

    #[test]
    fn copies_of_a_longer_transfer_save_the_time_that_they_take() {
        // They take 33 ms on the other subflow, and at 150 ms would save less.
        assert_eq!(
            hedged_of(true, 100, 200_000, 300_000),
            300_000 / COPIED_PART
        );
        assert_eq!(hedged_of(true, 150, 200_000, 250_000), MAX_BYTES);
        assert_eq!(hedged_of(true, 150, 200_000, 300_000), 0);
    }

    #[test]
    fn more_is_copied_where_a_long_transfer_would_be_late() {
        // At 1 MB/s, 1.6 MB take 1.6 s on the other subflow alone, a sixteenth of it is 100 ms.
        // Half of what is owed, and of the records' octets, saves the 100 ms that it takes.
        assert_eq!(hedged_of(true, 0, 200_000, 1_600_000), 102_199);
        assert_eq!(hedged_of(true, 110, 200_000, 1_600_000), MAX_BYTES);
        // An eighth of the transfer is copied at most.
        assert_eq!(hedged_of(true, 0, 600_000, 1_600_000), 200_000);
    }

    #[test]
    fn what_is_overdue_or_was_never_measured_is_copied() {
        assert_eq!(hedged(true, 80, 10_000), 0);
        assert_eq!(hedged(true, 200, 10_000), 10_000);
        assert_eq!(hedged(true, 200, 300), 300);
        // It has taken 80 ms already.
        assert_eq!(hedged(false, 80, 10_000), 10_000);
    }

    #[test]
    fn what_was_never_measured_is_copied_at_once_as_far_as_a_window_goes() {
        assert_eq!(hedged(true, 0, 1_500), 0);
        assert_eq!(hedged(false, 0, 10_000), 10_000);
        let of_window = |window, sent| hedged_with(Subflows::new(), false, 0, 10_000, sent, window);
        assert_eq!(of_window(4_000, 250_000), 4_000);
        assert_eq!(of_window(LEAST_BYTES - 1, 250_000), 0);
        // A longer transfer has time to measure.
        assert_eq!(of_window(50_000, 300_000), 0);
    }

    #[test]
    fn nothing_is_copied_at_once_of_what_a_rate_shown_so_far_brings_in_less_than_a_copy_gains() {
        let hedged = |at, rate, helper: Option<u32>| {
            let change = |s: &mut Subflow| {
                s.helper = helper.map(crate::HelperId);
                let path = PathInfo {
                    delivery_rate: BitRate::from_bytes_per_sec(rate),
                    ..*s.estimator.path()
                };
                s.estimator.on_path(ms(0), path);
            };
            hedged_to(change, Subflows::new(), false, at, 10_000, 250_000, 50_000)
        };
        // 2.5 ms, and 1.7.
        assert_eq!(hedged(0, 4e6, None), 10_000);
        assert_eq!(hedged(0, 6e6, None), 0);
        // It shows nothing of a helper's far hop.
        assert_eq!(hedged(0, 6e6, Some(0)), 10_000);
        // It has turned out to be late all the same.
        assert_eq!(hedged(80, 6e6, None), 10_000);
    }

    #[test]
    fn what_a_path_answers_in_less_than_a_copy_gains_is_copied_when_an_answer_is_overdue() {
        let hedged = |at, rtt, rate, helper: Option<u32>, sent| {
            let change = |s: &mut Subflow| {
                s.helper = helper.map(crate::HelperId);
                let path = PathInfo {
                    delivery_rate: BitRate::from_bytes_per_sec(rate),
                    srtt: Duration::from_micros(rtt),
                    min_rtt: Duration::from_micros(rtt),
                    ..*s.estimator.path()
                };
                s.estimator.on_path(ms(0), path);
            };
            hedged_to(change, Subflows::new(), false, at, 10_000, sent, 50_000)
        };
        // The bytes and their acknowledgement take 0.5 ms; the peer's process may take 30.
        for sent in [250_000, 300_000] {
            assert_eq!(hedged(29, 100, 25e6, None, sent), 0);
            assert_eq!(hedged(80, 100, 25e6, None, sent), 10_000);
            // 2.1 ms are too long, and of a helper's far hop TCP shows nothing.
            assert_eq!(hedged(29, 1_700, 25e6, None, sent), 10_000);
            assert_eq!(hedged(29, 100, 25e6, Some(0), sent), 10_000);
        }
        // At 4 MB/s the bytes take 2.5 ms.
        assert_eq!(hedged(29, 100, 4e6, None, 250_000), 10_000);
    }

    #[test]
    fn what_the_host_at_the_end_of_a_path_that_answers_soon_has_is_not_copied() {
        let hedged = |measured: bool, rtt, acked: u64| {
            let change = |s: &mut Subflow| {
                let path = PathInfo {
                    delivery_rate: BitRate::from_bytes_per_sec(25e6),
                    srtt: Duration::from_micros(rtt),
                    min_rtt: Duration::from_micros(rtt),
                    bytes_arrived: acked + u64::from(measured),
                    bytes_acked: acked,
                    slow_start: !measured,
                    ..*s.estimator.path()
                };
                s.estimator.on_path(ms(0), path);
            };
            hedged_to(
                change,
                Subflows::new(),
                measured,
                80,
                10_000,
                250_000,
                50_000,
            )
        };
        // Records are a little longer than what they bring.
        for measured in [false, true] {
            let copied = hedged(measured, 100, 6_000);
            assert!((4_000..4_500).contains(&copied), "{copied}");
            assert_eq!(hedged(measured, 100, 0), 10_000);
            assert_eq!(hedged(measured, 100, 20_000), 0);
        }
        assert_eq!(hedged(false, 5_000, 6_000), 10_000);
    }
}
