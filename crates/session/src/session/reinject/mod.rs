//! Reinjection: which bytes that one subflow carries are given to another one as well, how many,
//! and to which.
//!
//! | State of a subflow | Bytes also given to others |
//! | --- | --- |
//! | gone, another works ([`Work::requeue`]) | owed bytes of no other subflow; control frames |
//! | potentially failed, another works ([`Reinjection::recall_from_failed`]) | the same, copied |
//! | silent, another active ([`Reinjection::probe`]) | 2, 4, then 8 KiB that block a reader |
//! | later than one that has run dry ([`Reinjection::hedge`]) | its last bytes, few |
//! | larger PAD than the fastest ([`Reinjection::rebalance`]) | its last ones ([`Recall`]) |
//! | only copies for `cut_after` ([`Reinjection::carries_only_copies`]) | none: it is cut |
//!
//! Thresholds are in [`ReinjectionConfig`].
//!
//! Probing and rebalancing make copies only if a subflow that may take over the data of others
//! exists (`subflow::eligibility`). Copies are queued in the stream's send buffer, from where the
//! transmit path takes them as it takes new data: on a subflow that the scheduler chooses in the
//! best tier for new data, but never on the one that carries them already. They precede new bytes,
//! except on a subflow that would deliver them late. Where a helper's queue would delay them
//! everywhere, an express carries them past it ([`express_for`]). The copies of the scheduler
//! `redundant` are made in `transmit::fill`.
//! A subflow that turns out to work brings the rest itself ([`Reinjection::undo`]).

mod hedge;
mod sets;
pub(super) mod takers;

use std::ops::Range;
use std::time::Duration;

use mpbond_units::Timestamp;

use super::control::Control;
use super::streams::Streams;
use super::subflows::Subflows;
use crate::config::{RebalanceTrigger, Recall, ReinjectionConfig};
use crate::copies::Cause;
use crate::stats::SessionStats;
use crate::stream::Stream;
use crate::subflow::{LastFrame, SentFrame, Subflow};
use crate::{PathSet, StreamId, SubflowId};
use takers::Takers;

/// Bytes of the first probe. Each of the next ones has twice as many, [`PROBE_DOUBLINGS`] times:
/// little is lost where the subflow only paused, and the reader goes on until it counts as
/// potentially failed.
const PROBE_BYTES: u64 = 2 << 10;
const PROBE_DOUBLINGS: u32 = 2;

/// An express is used where it delivers sooner than every regular subflow by this much: below that
/// the application notices nothing, and a helper's pipe is left to its regular subflow.
const EXPRESS_GAIN: Duration = Duration::from_millis(100);

/// Maximum queue of an express at its helper, in time: its bytes are not to wait for each other.
const EXPRESS_AHEAD: Duration = Duration::from_millis(200);

/// What reinjection works on.
pub(super) struct Work<'a> {
    pub(super) subflows: &'a mut Subflows,
    pub(super) streams: &'a mut Streams,
    pub(super) stats: &'a mut SessionStats,
}

/// What rebalancing has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rebalanced {
    /// Subflows are in balance, or it is not the time.
    Nothing,
    /// Bytes were recalled.
    Recalled {
        subflow: SubflowId,
        bytes: u64,
        gain: Duration,
    },
    /// This subflow would carry copies for long: it is to be cut.
    Cut(SubflowId),
}

/// Reinjection of a session: its rules, and the allowance for copies.
#[derive(Debug)]
pub(super) struct Reinjection {
    pub(super) config: ReinjectionConfig,
    /// Bytes sent when the session was last idle.
    pub(super) sent_before: u64,
    /// Those of them that were no copies.
    pub(super) first_before: u64,
    /// Bytes recalled by then, and those recalled since that do not count.
    pub(super) copies_before: u64,
    /// Bytes hedged since.
    pub(super) hedged: u64,
    /// First instant since an application wrote at which nothing was left to be sent.
    dry_since: Option<Timestamp>,
}

impl Reinjection {
    pub(super) fn new(config: &ReinjectionConfig) -> Self {
        Self {
            config: config.clone(),
            sent_before: 0,
            first_before: 0,
            copies_before: 0,
            hedged: 0,
            dry_since: None,
        }
    }

    /// Bytes sent since the session was last idle.
    pub(super) fn sent(&self, stats: &SessionStats) -> u64 {
        stats.bytes_out - self.sent_before
    }

    /// A transfer begins, after nothing was under way.
    pub(super) fn transfer_begins(&mut self, stats: &SessionStats) {
        self.sent_before = stats.bytes_out;
        self.first_before = stats.first_bytes_out();
        self.copies_before = stats.reinjected_bytes_out;
        self.hedged = 0;
    }

    /// An application has written bytes.
    pub(super) fn on_written(&mut self) {
        self.dry_since = None;
    }

    // ---- silence --------------------------------------------------------------------------

    /// Probes silent subflows: others are given the few bytes of each that the application waits
    /// for first, as a sender of TCP retransmits its last segment when ACKs stay away (RFC 8985,
    /// section 7). It costs a packet or two if the silence was none.
    pub(super) fn probe(&mut self, silent: &[SubflowId], work: &mut Work) {
        for &id in silent {
            let Some(late) = work.subflows.by_id(id) else {
                continue;
            };
            let helps = |s: &&Subflow| s.may_take_over_from(late);
            let takers = Takers::of(work.subflows.iter().filter(helps));
            let Some(s) = work.subflows.by_id_mut(id) else {
                continue;
            };
            let bytes = PROBE_BYTES << s.health.probes.min(PROBE_DOUBLINGS);
            s.health.probes += 1;
            if takers.is_none() {
                continue;
            }
            let streams = &*work.streams;
            let mut blocked: Vec<StreamId> = Vec::new();
            let oldest = s.sent.recall_oldest(bytes, |stream, range| {
                let may =
                    |s: &&Stream| s.send.reset.is_none() && takers.may_carry(s.treatment.paths);
                let Some(s) = streams.get(stream).filter(may) else {
                    return false;
                };
                if range.start <= s.send.buffer.base() {
                    blocked.push(stream);
                }
                blocked.contains(&stream)
            });
            // Rebalancing has its own allowance.
            self.copies_before += work.retransmit(oldest, Some(id), Cause::Probed);
        }
    }

    /// Gives others what potentially failed subflows owe, if there are any that have not failed;
    /// stream bytes not before `Watch::copies_at`. An OPEN, a RESET or a window that waits there
    /// holds up more than bulk does.
    pub(super) fn recall_from_failed(&self, work: &mut Work, control: &mut Control) {
        let takers = Takers::of(work.subflows.iter().filter(|s| s.works()));
        if takers.is_none() {
            return;
        }
        for i in 0..work.subflows.len() {
            if work.subflows[i].has_failed() {
                if work.subflows[i].health.copied {
                    let may = |paths| takers.may_carry(paths);
                    work.recall(i, u64::MAX, LastFrame::Whole, Cause::Failed, may);
                }
                let streams = &*work.streams;
                let may = |stream: Option<StreamId>| {
                    let stream = stream.and_then(|id| streams.get(id));
                    stream.is_none_or(|s| takers.may_carry(s.treatment.paths))
                };
                let frames = work.subflows[i].sent.take_control_frames(may);
                work.requeue(frames, control);
            }
        }
    }

    /// A potentially failed subflow has come back to life: it brings itself what others have not
    /// been given of what it owes.
    pub(super) fn undo(&self, id: SubflowId, work: &mut Work) {
        let Some(s) = work.subflows.by_id_mut(id) else {
            return;
        };
        let mut changed = Vec::new();
        for (stream, state) in work.streams.iter_mut() {
            let kept = state.send.buffer.undo_recall(id);
            if !kept.is_empty() {
                s.sent.undo_recall(stream, &kept);
                let bytes: u64 = kept.iter().map(|r| r.end - r.start).sum();
                work.stats.reinjected_bytes_out -= bytes;
                changed.push(stream);
            }
        }
        changed.sort_unstable();
        for stream in changed {
            work.streams.update(stream);
        }
    }

    // ---- rebalancing ----------------------------------------------------------------------

    /// Rebalancing (MPBond section 4.3.4): when [`RebalanceTrigger`] allows it and
    /// `(maxPAD - minPAD) / minPAD > eta`, the bytes with the highest sequence numbers, so many as
    /// [`Recall`] says, move from the slowest subflow back to the send buffer. `credit` is what the
    /// peer's session window lets go.
    ///
    /// Bytes that the slow subflow carries and another one has been given too no longer delay the
    /// transfer, so they do not count into its PAD here; without that, every feedback would recall
    /// the same imbalance anew. On the fast subflow they do count, also those that are still to be
    /// given to one: what it is given waits for them, and without them two slow subflows would
    /// recall from each other without end.
    pub(super) fn rebalance(&self, now: Timestamp, credit: u64, work: &mut Work) -> Rebalanced {
        let config = &self.config;
        if config.rebalance && work.streams.ready.has_sets() {
            return self.rebalance_sets(now, credit, work);
        }
        let held_off = match config.trigger {
            RebalanceTrigger::NothingSendable => new_bytes_may_go(work.streams, credit),
            RebalanceTrigger::NothingUnscheduled => work.streams.unscheduled() > 0,
        };
        if !config.rebalance || held_off {
            return Rebalanced::Nothing;
        }
        if work.streams.held_open() == 0 {
            return self.carries_only_copies(now, work);
        }
        let subflows = work.subflows.iter();
        let late = subflows.clone().filter(|s| s.owes_useful());
        let Some(slowest) = late.max_by_key(|s| s.pad_without_copies(now)) else {
            return self.carries_only_copies(now, work);
        };
        // Bytes of a probed one are given to others, which may have more to do than it seems.
        let Some(fastest) = subflows
            .filter(|s| s.may_take_over_from(slowest) && s.cost <= slowest.cost)
            .min_by_key(|s| s.pad(now))
        else {
            return Rebalanced::Nothing;
        };
        let Some((r, gain)) = self.excess(now, slowest, fastest, work) else {
            return Rebalanced::Nothing;
        };
        let subflow = slowest.id;
        match work.subflows.index(subflow) {
            Some(i) => Rebalanced::Recalled {
                subflow,
                bytes: work.recall(i, r, LastFrame::Whole, Cause::Rebalanced, |_| true),
                gain,
            },
            None => Rebalanced::Nothing,
        }
    }

    /// Bytes to be moved from a slow subflow to a fast one, and by how much sooner they arrive;
    /// `None` if that is not worth it.
    pub(super) fn excess(
        &self,
        now: Timestamp,
        slow: &Subflow,
        fast: &Subflow,
        work: &Work,
    ) -> Option<(u64, Duration)> {
        let config = &self.config;
        // Copies that wait for a subflow go before those of now.
        let waits = work.streams.retransmit_bytes();
        let least = fast.pad(now) + fast.throughput(now).time_for(waits);
        let most = slow.pad_without_copies(now);
        let gain = most.saturating_sub(least);
        if gain <= config.least_gain || gain.as_secs_f64() <= config.eta * least.as_secs_f64() {
            return None;
        }
        let (from, to) = (slow.throughput(now), fast.throughput(now));
        let mut r = match config.recall {
            Recall::Published => from.bytes_in(gain),
            Recall::Balanced => {
                let both = from.bytes_per_sec() + to.bytes_per_sec();
                from.bytes_in(gain.mul_f64(to.bytes_per_sec() / both.max(1.0)))
            }
        };
        if gain < config.sure_gain {
            r = r.min(self.allowance(work.stats));
        }
        (r > 0).then_some((r, gain))
    }

    /// How many more bytes may be sent twice since the session was last idle.
    fn allowance(&self, stats: &SessionStats) -> u64 {
        let sent = self.sent(stats);
        let copies = stats
            .reinjected_bytes_out
            .saturating_sub(self.copies_before);
        let allowed = sent as f64 * self.config.copies_share;
        (allowed as u64).saturating_sub(copies)
    }

    /// Nothing useful is on the way any more. A subflow that would go on carrying copies for long
    /// is cut, so that old copies do not stand before the next transfer.
    pub(super) fn carries_only_copies(&self, now: Timestamp, work: &Work) -> Rebalanced {
        let subflows = &work.subflows;
        // Where all has arrived, what is under way was sent for nothing: a subflow that came back
        // brought it before those that were to help it.
        let all_arrived = work.streams.held_open() == 0;
        let copies_only = |s: &&Subflow| {
            let bytes = match all_arrived {
                true => s.sent.data_bytes,
                false => s.sent.recalled_bytes,
            };
            s.works() && s.throughput(now).time_for(bytes) > self.config.cut_after
        };
        let Some(s) = subflows.iter().find(copies_only) else {
            return Rebalanced::Nothing;
        };
        let is_used = |o: &Subflow| o.works() && !o.is_express() && !o.radio.rests;
        let is_path = |o: &Subflow| o.id != s.id && is_used(o);
        match subflows.iter().any(is_path) {
            true => Rebalanced::Cut(s.id),
            false => Rebalanced::Nothing,
        }
    }
}

impl Work<'_> {
    /// Frames of a subflow that is gone, or that failed potentially, are to be sent again.
    pub(super) fn requeue(&mut self, frames: Vec<SentFrame>, control: &mut Control) {
        for frame in frames {
            match frame {
                // Bytes that were recalled are in other hands.
                SentFrame::Data { recalled: true, .. } => {}
                SentFrame::Data {
                    stream, range, fin, ..
                } => {
                    self.retransmit([(stream, range, fin)], None, Cause::Lost);
                }
                SentFrame::Open(id) => {
                    if let Some(s) = self.streams.get_mut(id) {
                        s.opening.wanted = true;
                        self.streams.signal(id);
                    }
                }
                SentFrame::Connected(id) => {
                    if let Some(s) = self.streams.get_mut(id) {
                        s.opening.connected_wanted = true;
                        self.streams.signal(id);
                    }
                }
                SentFrame::Class(id) => self.streams.signal_class(id),
                SentFrame::Chunk { stream, end } => self.streams.tell_chunk_end(stream, end),
                SentFrame::MaxStreamData(id) => {
                    if let Some(s) = self.streams.get_mut(id) {
                        s.recv.grant_wanted = true;
                        self.streams.signal(id);
                    }
                }
                SentFrame::Reset(id) => self.streams.retransmit_signal(id, |s| &mut s.send.reset),
                SentFrame::Stop(id) => self.streams.retransmit_signal(id, |s| &mut s.recv.stop),
                SentFrame::MaxData => control.max_data_wanted = true,
                SentFrame::MaxStreams => control.max_streams_wanted = true,
                SentFrame::Priority(id) => control.prioritise(id),
                SentFrame::Admit(id) => control.admit(id),
                SentFrame::Cut(id) => control.cut(id),
                SentFrame::GoAway => control.go_away_wanted = true,
                SentFrame::Ping => {}
            }
        }
    }

    /// Marks up to `budget` bytes of a subflow, the youngest first, to be sent again on another:
    /// those of streams with a set of paths that `may`. Returns how many.
    pub(super) fn recall(
        &mut self,
        i: usize,
        budget: u64,
        last: LastFrame,
        cause: Cause,
        may: impl Fn(PathSet) -> bool,
    ) -> u64 {
        let mut taken: Vec<(StreamId, Range<u64>, bool)> = Vec::new();
        let streams = &*self.streams;
        let s = &mut self.subflows[i];
        let origin = s.id;
        let bytes = s.sent.recall(
            budget,
            last,
            cause != Cause::Hedged,
            |stream, range, fin| {
                let may = |s: &Stream| s.send.reset.is_none() && may(s.treatment.paths);
                let may = streams.get(stream).is_some_and(may);
                if may {
                    taken.push((stream, range, fin));
                }
                may
            },
        );
        self.retransmit(taken, Some(origin), cause);
        bytes
    }

    /// Queues bytes to be sent again, over any subflow but `origin`; returns how many.
    fn retransmit(
        &mut self,
        ranges: impl IntoIterator<Item = (StreamId, Range<u64>, bool)>,
        origin: Option<SubflowId>,
        cause: Cause,
    ) -> u64 {
        let ranges = ranges.into_iter();
        let bytes = ranges
            .map(|(id, range, fin)| self.streams.retransmit(id, range, fin, origin, cause))
            .sum();
        self.stats.reinjected_bytes_out += bytes;
        bytes
    }
}

/// Whether there are unscheduled bytes that the peer's windows have room for. Where a slow subflow
/// owes what the application waits for, a window is soon full, and every other subflow idle.
fn new_bytes_may_go(streams: &Streams, credit: u64) -> bool {
    streams.unscheduled() > 0
        && credit > 0
        && streams
            .ready_ids()
            .any(|id| streams.get(id).is_some_and(|s| s.send.has_new()))
}

// ---- express (ADR 0011) -------------------------------------------------------------------

// A helper that runs ahead of its pipe holds a second and more of bytes. Urgent ones would lie
// behind all of them: copies of what a silent or lost path owes, and short exchanges. An express is
// a second subflow through the same helper that carries nothing else, so that nothing lies before
// its bytes but the queues of links.

/// The express that takes urgent bytes now, if they would arrive much later on every regular
/// subflow; and the regular one over the same pipe. Their count is not zero.
pub(super) fn express_for(now: Timestamp, subflows: &[Subflow]) -> Option<(usize, SubflowId)> {
    expresses_for(now, subflows).next()
}

/// All expresses of which this is true.
pub(super) fn expresses_for(
    now: Timestamp,
    subflows: &[Subflow],
) -> impl Iterator<Item = (usize, SubflowId)> {
    let takes = move |s: &Subflow| {
        let is_full =
            s.near_is_full(now) || s.unproven_is_full(now) || s.far_is_full(now, EXPRESS_AHEAD);
        s.tx.room > 0 && !is_full
    };
    let all = subflows.iter().enumerate();
    all.filter_map(move |(i, s)| Some((i, passed_by(now, s, subflows).filter(|_| takes(s))?)))
}

/// The subflow that an express passes by, if it would deliver well before every regular one that
/// works.
fn passed_by(now: Timestamp, express: &Subflow, subflows: &[Subflow]) -> Option<SubflowId> {
    if !express.may_carry_urgent() {
        return None;
    }
    let regular = || subflows.iter().filter(|s| s.may_take_over());
    // Without the other one, or where that has gone silent, its helper or their pipe has. Pipes to
    // one helper differ in their names.
    let over_same_pipe = |s: &&Subflow| s.helper == express.helper && s.name == express.name;
    let other = regular().find(over_same_pipe)?;
    // Nor is anything passed by a costly one while one that costs less works.
    let is_cheapest = regular().all(|s| s.cost >= other.cost);
    let least = regular()
        .map(|s| s.pad(now))
        .min()
        .filter(|_| is_cheapest)?;
    (least > express.pad(now) + EXPRESS_GAIN).then_some(other.id)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::stream::Stream;
    use crate::{Role, StreamClass};

    const MIB: u64 = 1 << 20;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    /// Two subflows of 1 MB/s, and a stream of 1 MiB whose bytes are given to them.
    struct Bench {
        subflows: Subflows,
        streams: Streams,
        stats: SessionStats,
        reinjection: Reinjection,
    }

    const SLOW: SubflowId = SubflowId(1);
    const FAST: SubflowId = SubflowId(2);

    impl Bench {
        fn new(on_slow: u64) -> Self {
            let mut subflows = Subflows::new();
            for id in [SLOW, FAST] {
                subflows.add(Subflow::for_test(id.0, None, Role::Regular));
            }
            let mut streams = Streams::new();
            let mut stream = Stream::new(StreamClass::Bulk, None, ms(0), MIB);
            stream.send.max_offset = MIB;
            let id = streams.open(stream);
            streams.write(id, Bytes::from(vec![0; MIB as usize]));
            streams.get_mut(id).unwrap().send.buffer.take_new(MIB, MIB);
            streams.update(id);
            for at in (0..on_slow).step_by(16 << 10) {
                let end = on_slow.min(at + (16 << 10));
                subflows[0].give(ms(0), 0, at..end);
            }
            let stats = SessionStats {
                bytes_out: MIB,
                ..SessionStats::default()
            };
            Self {
                subflows,
                streams,
                stats,
                reinjection: Reinjection::new(&ReinjectionConfig::default()),
            }
        }

        fn work(&mut self) -> (&mut Reinjection, Work<'_>) {
            let work = Work {
                subflows: &mut self.subflows,
                streams: &mut self.streams,
                stats: &mut self.stats,
            };
            (&mut self.reinjection, work)
        }
    }

    #[test]
    fn the_slowest_gives_its_last_bytes_to_the_fastest() {
        let mut bench = Bench::new(700_000);
        let (reinjection, mut work) = bench.work();
        // Half of (700 ms - 0) * 1 MB/s, all of it: a difference of 0.4 s is no error of estimates.
        let done = reinjection.rebalance(ms(0), 0, &mut work);
        let Rebalanced::Recalled {
            subflow,
            bytes,
            gain,
        } = done
        else {
            panic!("{done:?}");
        };
        assert_eq!(subflow, SLOW);
        assert!((0.65..0.72).contains(&gain.as_secs_f64()), "{gain:?}");
        assert!((325_000..=350_000).contains(&bytes), "{bytes}");
        let buffer = &mut bench.streams.get_mut(StreamId(0)).unwrap().send.buffer;
        assert_eq!(buffer.retransmit_bytes(), bytes);
        assert!(!buffer.has_retransmission_for(SLOW) && buffer.has_retransmission_for(FAST));
        // Bytes that were recalled do not count any more.
        let (reinjection, mut work) = bench.work();
        let again = reinjection.rebalance(ms(0), 0, &mut work);
        assert!(!matches!(again, Rebalanced::Recalled { .. }), "{again:?}");
    }

    #[test]
    fn copies_on_the_fastest_delay_what_it_is_given() {
        for (copies, recalls) in [(100_000, true), (600_000, false)] {
            let mut bench = Bench::new(700_000);
            bench.subflows[1].give(ms(0), 0, 0..copies);
            let (reinjection, mut work) = bench.work();
            let recalled = work.recall(1, u64::MAX, LastFrame::Whole, Cause::Rebalanced, |_| true);
            assert_eq!(recalled, copies);
            let done = reinjection.rebalance(ms(0), 0, &mut work);
            let is_recalled = matches!(done, Rebalanced::Recalled { subflow: SLOW, .. });
            assert_eq!(is_recalled, recalls, "{copies}: {done:?}");
        }
    }

    #[test]
    fn a_small_difference_has_an_allowance() {
        let mut bench = Bench::new(200_000);
        let (reinjection, mut work) = bench.work();
        let done = reinjection.rebalance(ms(0), 0, &mut work);
        // Half a percent of 1 MiB, up to the frame that exceeds it.
        assert!(
            matches!(done, Rebalanced::Recalled { bytes, .. } if bytes <= 5_243 + (16 << 10)),
            "{done:?}"
        );
        let (reinjection, mut work) = bench.work();
        let again = reinjection.rebalance(ms(0), 0, &mut work);
        assert_eq!(again, Rebalanced::Nothing);
    }

    #[test]
    fn a_probe_gives_the_bytes_that_block_the_reader() {
        let mut bench = Bench::new(100_000);
        for (probe, bytes) in [(1, 2_048), (2, 4_096), (3, 8_192), (4, 8_192)] {
            let before = bench.stats.reinjected_bytes_out;
            let (reinjection, mut work) = bench.work();
            reinjection.probe(&[SLOW], &mut work);
            assert_eq!(bench.stats.reinjected_bytes_out - before, bytes);
            assert_eq!(bench.subflows[0].health.probes, probe);
        }
        let buffer = &mut bench.streams.get_mut(StreamId(0)).unwrap().send.buffer;
        assert_eq!(
            buffer.take_retransmission(1_000, &[FAST]),
            Some((0..1_000, Cause::Probed))
        );
        // No subflow may take over: it is a probe all the same.
        bench.subflows[1].health.probes = 1;
        let before = bench.stats.reinjected_bytes_out;
        let (reinjection, mut work) = bench.work();
        reinjection.probe(&[SLOW], &mut work);
        assert_eq!(bench.stats.reinjected_bytes_out, before);
        assert_eq!(bench.subflows[0].health.probes, 5);
    }

    #[test]
    fn a_failed_subflow_that_comes_back_brings_the_rest_itself() {
        let mut bench = Bench::new(100_000);
        bench.subflows[0].health.failed_since = Some(ms(1_000));
        bench.subflows[0].health.copied = true;
        let mut control = Control::default();
        let (reinjection, mut work) = bench.work();
        reinjection.recall_from_failed(&mut work, &mut control);
        assert_eq!(bench.streams.retransmit_bytes(), 100_000);
        let buffer = &mut bench.streams.get_mut(StreamId(0)).unwrap().send.buffer;
        assert_eq!(
            buffer.take_retransmission(30_000, &[FAST]),
            Some((0..16_384, Cause::Failed))
        );
        bench.streams.update(StreamId(0));
        assert!(bench.subflows[0].health.advanced(ms(2_000)).is_some());
        let (reinjection, mut work) = bench.work();
        reinjection.undo(SLOW, &mut work);
        assert_eq!(bench.streams.retransmit_bytes(), 0);
        assert!(bench.stats.reinjected_bytes_out <= 30_000);
        assert!(bench.subflows[0].sent.useful_bytes() >= 70_000);
    }

    /// Of two pipes to one helper; each has the name of its link.
    #[test]
    fn an_express_passes_by_the_subflow_over_its_own_pipe() {
        let mut subflows = Subflows::new();
        for (id, name, role) in [
            (1, "wifi", Role::Regular),
            (2, "usb", Role::Regular),
            (3, "usb", Role::Express),
        ] {
            let mut subflow = Subflow::for_test(id, Some(0), role);
            subflow.name = name.to_owned();
            subflows.add(subflow);
        }
        subflows[0].give(ms(0), 0, 0..1_000_000);
        subflows[1].give(ms(0), 0, 1_000_000..2_000_000);
        assert_eq!(express_for(ms(0), &subflows), Some((2, SubflowId(2))));
        // What is silent over one pipe says nothing about the other.
        subflows[0].health.probes = 1;
        assert_eq!(express_for(ms(0), &subflows), Some((2, SubflowId(2))));
        subflows[0].health.probes = 0;
        subflows[1].health.probes = 1;
        assert_eq!(express_for(ms(0), &subflows), None);
    }

    #[test]
    fn each_express_passes_by_its_own_helper() {
        let mut subflows = Subflows::new();
        for (id, helper, role) in [
            (1, 0, Role::Regular),
            (2, 1, Role::Regular),
            (3, 0, Role::Express),
            (4, 1, Role::Express),
        ] {
            subflows.add(Subflow::for_test(id, Some(helper), role));
        }
        for i in 0..2 {
            subflows[i].give(ms(0), 0, 0..1_000_000);
        }
        let all = expresses_for(ms(0), &subflows);
        assert!(all.eq([(2, SubflowId(1)), (3, SubflowId(2))]));
    }

    #[test]
    fn an_express_passes_by_a_helper_that_holds_much() {
        let mut subflows = Subflows::new();
        subflows.add(Subflow::for_test(1, Some(0), Role::Regular));
        subflows.add(Subflow::for_test(2, Some(0), Role::Express));
        assert_eq!(express_for(ms(0), &subflows), None);
        subflows[0].give(ms(0), 0, 0..1_000_000);
        assert_eq!(express_for(ms(0), &subflows), Some((1, SubflowId(1))));
        // Not where the helper's regular subflow is silent, too.
        subflows[0].health.probes = 1;
        assert_eq!(express_for(ms(0), &subflows), None);
    }
}
