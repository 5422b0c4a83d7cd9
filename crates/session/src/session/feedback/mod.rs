//! Feedback to the peer: acknowledgements and reports on pipes, and the subflow that carries them.

mod ack_due;

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use super::resume::{Dead, Resume};
use crate::config::{BufferDelay, FeedbackRule, SessionConfig};
use crate::estimator::FarReport;
use crate::mechanism::Mechanism;
use crate::subflow::Subflow;
use crate::wire::{AckCount, Frame, MAX_ACK_COUNTS, PathReport};
use crate::{PathSet, SubflowId};
use ack_due::AckDue;

/// Under the published feedback rules data moves on a path while some did so shortly before:
/// helpers report on their links every 100 ms, and the report waits in the pipe for about as long.
const MOVES: Duration = Duration::from_millis(250);

/// A report is worth a packet of its own this long after stream bytes last moved. Without a limit
/// an idle session never rests: the packet passes the helper, which reports on it. Helpers report
/// for as long after a relay was last used.
const REPORTS_AFTER_DATA: Duration = Duration::from_millis(500);

/// The radio that was busy last is not known exactly: a helper's radio counts as the last one if it
/// was busy at most this long before any other. Reports come every 100 ms, and wait in the pipe for
/// up to about as long.
const HELPER_GRACE: Duration = Duration::from_millis(250);

/// A direct link counts as busy until this long after its own last data, since it may only pause:
/// recorded cellular links are silent downwards for most of a second while they carry feedback
/// upwards as before.
const DIRECT_GRACE: Duration = Duration::from_secs(1);

/// No radio's rest is worth feedback that comes later than over another subflow by more than this:
/// it would lie behind all that a helper holds, and what waits for it would look lost.
const MAX_DELAY: Duration = Duration::from_millis(150);

/// A direct subflow is preferred for an OPEN where it is later than the fastest by at most this:
/// fewer hops; a pipe may have been silent for long.
const HARDLY_LATER: Duration = Duration::from_millis(5);

/// A direct subflow that brought anything this recently works both ways: TCP stops without its own
/// acknowledgements. Feedback then needs no helper, whose own radio may have done its part long
/// before the pipe has. Longer than an ACK's delay and a round trip over a cellular path.
const PROVEN: Duration = Duration::from_millis(150);

/// Maximum drift of two good clocks against each other: 100 ppm.
const DRIFT: f64 = 100e-6;

/// More than any ACK takes beyond the fastest one.
const MOST_EXTRA: Duration = Duration::from_secs(1);

/// Time after which ACKs that all take longer than [`MOST_EXTRA`] show that one of the clocks stood
/// still: CLOCK_MONOTONIC does in suspend.
const STEPPED_AFTER: Duration = Duration::from_secs(5);

/// A helper's report on a pipe, until it has been sent.
#[derive(Debug)]
struct Report {
    frame: PathReport,
    read_at: Timestamp,
    /// Subflows that have carried it, under a rule that sends it over several.
    sent_on: Vec<SubflowId>,
}

/// Least difference of our clock to the peer's, in microseconds, and when it was seen.
#[derive(Debug, Clone, Copy)]
struct ClockOffset {
    least_us: i64,
    at: Timestamp,
}

/// Acknowledgements and reports that are to be written, and what arrives of the peer's.
#[derive(Debug)]
pub(super) struct Feedback {
    rule: FeedbackRule,
    buffer_delay: BufferDelay,
    ack: AckDue,
    /// Counts choices between subflows that are about as good.
    turn: u64,
    reports: Vec<Report>,
    last_number: u64,

    /// Number of the peer's newest report.
    seen_number: u64,
    clock: Option<ClockOffset>,
    /// The least difference since ACKs began to seem later than any can be, and when they began.
    stepped: Option<ClockOffset>,
    /// Subflow of the peer's last ACK, and when that came.
    last_ack: Option<(SubflowId, Timestamp)>,
}

impl Feedback {
    pub(super) fn new(config: &SessionConfig) -> Self {
        let early = config.uses(Mechanism::EarlyAcks);
        Self {
            rule: config.feedback,
            buffer_delay: config.buffer_delay,
            ack: AckDue::new(config.ack_bytes, config.ack_delay, early),
            turn: 0,
            reports: Vec::new(),
            last_number: 0,
            seen_number: 0,
            clock: None,
            stepped: None,
            last_ack: None,
        }
    }

    // ---- acknowledgements -----------------------------------------------------------------

    /// Octets arrived in a record that asks for an ACK.
    pub(super) fn note_octets(&mut self, now: Timestamp, octets: u64) {
        self.ack.arrived(now, octets);
    }

    /// When an ACK is due at the latest.
    pub(super) fn ack_deadline(&self) -> Option<Timestamp> {
        self.ack.deadline()
    }

    /// Whether an ACK, or a report that travels with ACKs, is to be written.
    pub(super) fn is_due(&self, now: Timestamp, subflows: &[Subflow]) -> bool {
        let moves = |s: &Subflow| {
            s.pipe_quiet(now)
                .is_some_and(|quiet| quiet < REPORTS_AFTER_DATA)
        };
        let reports = !self.reports.is_empty() && !self.rule.is_published();
        self.ack.is_due(now) || (reports && subflows.iter().any(moves))
    }

    /// Writes an ACK if there is anything to acknowledge.
    pub(super) fn write_due_ack(
        &mut self,
        now: Timestamp,
        subflows: &mut [Subflow],
        resume: &mut Resume,
        out: &mut Vec<u8>,
    ) {
        if self.ack.is_pending() {
            self.write_ack(now, subflows, resume, out);
        }
    }

    /// Writes an ACK: counts of all subflows and, once for a peer that has come back, of those that
    /// are gone.
    pub(super) fn write_ack(
        &mut self,
        now: Timestamp,
        subflows: &mut [Subflow],
        resume: &mut Resume,
        out: &mut Vec<u8>,
    ) {
        let with_dead = std::mem::take(&mut resume.tell_dead);
        write_counts(now, subflows, with_dead.then_some(&*resume), out);
        self.ack.written();
    }

    /// An ACK has come over `on`, written at `time_us` on the peer's clock. Returns how long it was
    /// under way: `one_way_delay`, the least that its subflow can have, and what it took longer
    /// than the fastest of all ACKs, by the peer's clock.
    pub(super) fn ack_arrived(
        &mut self,
        now: Timestamp,
        on: SubflowId,
        one_way_delay: Duration,
        time_us: u64,
    ) -> Duration {
        self.last_ack = Some((on, now));
        let now_us = (now.as_nanos() / 1_000) as i64;
        let offset = now_us.saturating_sub(i64::try_from(time_us).unwrap_or(i64::MAX));
        let least = match self.clock {
            Some(clock) => {
                let drift = now.since(clock.at).as_secs_f64() * 1e6 * DRIFT;
                clock.least_us.saturating_add(drift as i64)
            }
            None => i64::MAX,
        };
        let extra = if offset < least {
            self.clock = Some(ClockOffset {
                least_us: offset,
                at: now,
            });
            0
        } else {
            offset - least
        };
        let extra = Duration::from_micros(extra.max(0).unsigned_abs());
        self.follow_step(now, offset, extra);
        // A peer's absurd clock shall not make us wait.
        one_way_delay + extra.min(MOST_EXTRA)
    }

    /// Takes a new least difference where one of the clocks stood still.
    fn follow_step(&mut self, now: Timestamp, offset: i64, extra: Duration) {
        if extra <= MOST_EXTRA {
            self.stepped = None;
            return;
        }
        let began = self.stepped.map_or(now, |s| s.at);
        let least_us = self.stepped.map_or(offset, |s| s.least_us.min(offset));
        let stepped = ClockOffset {
            least_us,
            at: began,
        };
        self.stepped = Some(stepped);
        if now.since(began) >= STEPPED_AFTER {
            self.clock = Some(ClockOffset { least_us, at: now });
            self.stepped = None;
        }
    }

    /// Subflow of the peer's last ACK, and when that came.
    pub(super) fn last_ack(&self) -> Option<(SubflowId, Timestamp)> {
        self.last_ack
    }

    // ---- reports --------------------------------------------------------------------------

    /// A report of the peer has come; whether it is newer than all before.
    pub(super) fn is_news(&mut self, report: &PathReport) -> bool {
        let is_news = report.number > self.seen_number;
        self.seen_number = self.seen_number.max(report.number);
        is_news
    }

    /// A helper's report on a hop that the peer cannot see is to be sent, in place of an older one.
    pub(super) fn relay(&mut self, now: Timestamp, id: SubflowId, report: FarReport) {
        self.last_number += 1;
        let frame = PathReport {
            number: self.last_number,
            subflow: id,
            throughput: report.throughput,
            rtt: report.rtt,
            level_bytes: report.level_bytes,
            age: report.age,
            held_back: report.held_back,
            sojourn: match self.buffer_delay {
                BufferDelay::Estimated => None,
                BufferDelay::Measured => report.sojourn,
            },
        };
        self.forget(id);
        self.reports.push(Report {
            frame,
            read_at: now,
            sent_on: Vec::new(),
        });
    }

    /// A subflow is gone.
    pub(super) fn forget(&mut self, id: SubflowId) {
        self.reports.retain(|r| r.frame.subflow != id);
    }

    /// Writes the reports that travel with ACKs.
    pub(super) fn write_reports(&mut self, now: Timestamp, out: &mut Vec<u8>) {
        if !self.rule.is_published() {
            for report in self.reports.drain(..) {
                report.write(now, out);
            }
        }
    }

    /// Under a published rule: writes reports into a record for a subflow on which they may travel
    /// now, if there is one; returns its index.
    pub(super) fn write_published(
        &mut self,
        now: Timestamp,
        subflows: &[Subflow],
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        if self.reports.is_empty() || !self.rule.is_published() {
            return None;
        }
        let rule = self.rule;
        let due =
            |r: &Report, s: &Subflow| r.may_travel(rule, now, s) && !r.sent_on.contains(&s.id);
        let takes = |s: &&Subflow| {
            s.tx.room > 0
                && s.carries()
                && !s.is_express()
                && self.reports.iter().any(|r| due(r, s))
        };
        let s = subflows.iter().find(takes)?;
        for report in self.reports.iter_mut().filter(|r| due(r, s)) {
            report.sent_on.push(s.id);
            report.write(now, out);
        }
        if rule != FeedbackRule::Flexible {
            self.reports.retain(|r| r.sent_on.is_empty());
        }
        subflows.iter().position(|o| o.id == s.id)
    }

    // ---- the subflow ----------------------------------------------------------------------

    /// The subflow for small frames: the least PAD among those whose radio was last busy. Of
    /// several with about the same, a direct one that is known to work; without such they take
    /// turns, so that one that swallows everything delays feedback and does not stop it; radios
    /// that are left asleep (ADR 0035) have no turn before it is avoided or has failed. Frames that
    /// are `urgent` take the least PAD, whatever radio is awake. Others take a subflow whose link
    /// would go to sleep while it brings bytes first of all.
    ///
    /// [`FeedbackRule::HelperRadio`]: where no radio is busy, the one that was busy last is nearest
    /// to awake, and a packet keeps it from its rest for the shortest time more.
    pub(super) fn choose(
        &mut self,
        now: Timestamp,
        subflows: &[Subflow],
        paths: PathSet,
        urgent: bool,
    ) -> Option<usize> {
        let pad = |s: &Subflow| s.pad(now);
        let usable = || usable(subflows, paths);
        if let Some((i, _)) = usable().find(|(_, s)| !urgent && s.would_sleep(now)) {
            return Some(i);
        }
        let soon = usable().map(|(_, s)| pad(s)).min()? + MAX_DELAY;
        let last_busy = usable()
            .filter(|(_, s)| pad(s) <= soon)
            .filter_map(|(_, s)| s.radio_quiet(now))
            .min();
        let allowed = |s: &Subflow| {
            let busy_last = |(own, least)| own <= latest(s, least) && pad(s) <= soon;
            urgent || s.radio_quiet(now).zip(last_busy).is_some_and(busy_last)
        };
        type Test<'a> = &'a dyn Fn(&Subflow) -> bool;
        let tests: [Test; 3] = [&allowed, &Subflow::is_direct, &|_| true];
        for test in tests {
            let mut best: Vec<(Duration, usize)> = usable()
                .filter(|(_, s)| test(s))
                .map(|(i, s)| (pad(s), i))
                .collect();
            best.sort_unstable();
            let Some(&(least, _)) = best.first() else {
                continue;
            };
            let near = match urgent {
                true => least + HARDLY_LATER,
                false => least * 2 + Duration::from_millis(50),
            };
            best.retain(|(pad, _)| *pad <= near);
            let direct = |i: usize| subflows[i].is_direct();
            let proven = |i: usize| direct(i) && now.since(subflows[i].rx.at) < PROVEN;
            if urgent && best.iter().any(|(_, i)| direct(*i)) {
                best.retain(|(_, i)| direct(*i));
            } else if best.iter().any(|(_, i)| proven(*i)) {
                best.retain(|(_, i)| proven(*i));
            }
            self.turn = self.turn.wrapping_add(1);
            let turn = (self.turn % best.len() as u64) as usize;
            return Some(best[turn].1);
        }
        None
    }

    /// Whether any subflow takes an ACK now.
    pub(super) fn has_room(subflows: &[Subflow]) -> bool {
        usable(subflows, PathSet::ALL).next().is_some()
    }
}

/// Subflows of these paths, of the best tier for feedback among them, that have room; with their
/// indices. Where none has, feedback waits.
fn usable(subflows: &[Subflow], paths: PathSet) -> impl Iterator<Item = (usize, &Subflow)> {
    let in_set = move |s: &&Subflow| paths.contains(s.path);
    let tiers = subflows.iter().filter(in_set);
    let best = tiers.filter_map(Subflow::feedback_tier).min();
    let takes = move |s: &Subflow| {
        s.tx.room > 0 && best.is_some() && s.feedback_tier() == best && in_set(&s)
    };
    subflows.iter().enumerate().filter(move |(_, s)| takes(s))
}

/// Longest time without data of a radio that counts as busy last, where `least` is the shortest of
/// all radios. The direct link's allowance ends with its own time: once the link has rested for
/// that long it is no pause, and feedback would keep it awake until the whole transfer ends.
fn latest(s: &Subflow, least: Duration) -> Duration {
    match s.helper {
        Some(_) => least + HELPER_GRACE,
        None => least.max(DIRECT_GRACE),
    }
}

/// Writes an ACK with the counts of all subflows, and of those that are gone if given.
pub(super) fn write_counts(
    now: Timestamp,
    subflows: &mut [Subflow],
    dead: Option<&Resume>,
    out: &mut Vec<u8>,
) {
    let live = subflows.iter_mut().map(|s| AckCount {
        subflow: s.id,
        count: s.rx.octets,
        age: now.since(s.rx.at),
        pace: s.rx.rate.take(),
    });
    let mut counts: Vec<AckCount> = live.collect();
    if let Some(resume) = dead {
        counts.extend(resume.dead().map(|dead| AckCount {
            subflow: dead.subflow,
            count: dead.octets,
            age: Duration::from_secs(1),
            pace: BitRate::ZERO,
        }));
    }
    counts.truncate(MAX_ACK_COUNTS);
    let time_us = now.as_nanos() / 1_000;
    Frame::Ack { time_us, counts }.encode(out);
}

/// Writes an ACK with the final count of a subflow that is to be cut: what it has brought is not
/// sent again.
pub(super) fn write_last_count(now: Timestamp, dead: Dead, out: &mut Vec<u8>) {
    let count = AckCount {
        subflow: dead.subflow,
        count: dead.octets,
        age: now.since(dead.at),
        pace: BitRate::ZERO,
    };
    let time_us = now.as_nanos() / 1_000;
    let counts = vec![count];
    Frame::Ack { time_us, counts }.encode(out);
}

impl Report {
    /// Writes the report with its age.
    fn write(&self, now: Timestamp, out: &mut Vec<u8>) {
        let mut frame = self.frame;
        frame.age += now.since(self.read_at);
        Frame::PathReport(frame).encode(out);
    }

    /// Whether a published rule lets the report travel over this subflow now: over a PS-Path, or
    /// over the pipe that it is about and the HS-Path behind it.
    fn may_travel(&self, rule: FeedbackRule, now: Timestamp, s: &Subflow) -> bool {
        let moves = |quiet: Option<Duration>| quiet.is_some_and(|d| d < MOVES);
        let hs_path = !s.is_direct() && s.id == self.frame.subflow;
        match rule {
            FeedbackRule::HelperRadio => false,
            FeedbackRule::Flexible => (hs_path || s.is_direct()) && moves(s.radio_quiet(now)),
            FeedbackRule::FixedAlways => {
                hs_path && (moves(s.radio_quiet(now)) || moves(s.pipe_quiet(now)))
            }
            FeedbackRule::FixedOnDemand => hs_path && moves(s.radio_quiet(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::subflow::HelperDownlink;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    fn feedback() -> Feedback {
        Feedback::new(&SessionConfig::default())
    }

    /// A direct subflow, one through a helper, an express beside it.
    fn subflows() -> Vec<Subflow> {
        vec![
            Subflow::for_test(1, None, Role::Regular),
            Subflow::for_test(2, Some(0), Role::Regular),
            Subflow::for_test(3, Some(0), Role::Express),
        ]
    }

    #[test]
    fn feedback_takes_the_radio_that_was_last_busy() {
        let mut all = subflows();
        let mut feedback = feedback();
        all[1].counters.last_in = Some(ms(1_990));
        all[0].counters.last_in = Some(ms(500));
        assert_eq!(
            feedback.choose(ms(2_000), &all, PathSet::ALL, false),
            Some(1)
        );
        // An OPEN takes the direct path whatever radio is awake, if it is hardly slower.
        assert_eq!(
            feedback.choose(ms(2_000), &all, PathSet::ALL, true),
            Some(0)
        );
        // The helper's own link has been silent for long: only its pipe is busy.
        all[1].radio.downlink = Some(HelperDownlink {
            quiet: Duration::from_secs(4),
            read_at: ms(1_950),
        });
        assert_eq!(
            feedback.choose(ms(2_000), &all, PathSet::ALL, false),
            Some(0)
        );
    }

    /// Without it, the direct subflow that has just brought something has all of it.
    #[test]
    fn feedback_keeps_a_link_from_sleep_while_that_brings_bytes() {
        let mut all = subflows();
        let mut feedback = feedback();
        let mut chosen = |at, written: u64, brought: u64, urgent| {
            all[0].rx.at = ms(at);
            all[0].counters.last_in = Some(ms(at));
            all[1].sleeps = true;
            all[1].tx.at = ms(written);
            all[1].counters.last_in = Some(ms(brought));
            feedback.choose(ms(at), &all, PathSet::ALL, urgent)
        };
        assert_eq!(chosen(9_000, 7_501, 9_000, false), Some(0));
        assert_eq!(chosen(9_000, 7_500, 9_000, false), Some(1));
        // An OPEN is sooner over the direct one.
        assert_eq!(chosen(9_000, 7_500, 9_000, true), Some(0));
        // Nothing comes any more: the link may sleep.
        assert_eq!(chosen(9_000, 7_500, 8_000, false), Some(0));
    }

    #[test]
    fn an_open_takes_the_path_that_delivers_first() {
        let mut all = subflows();
        let mut feedback = feedback();
        let mut chosen = |rtt| {
            let path = crate::PathInfo {
                srtt: ms(rtt).since(ms(0)),
                min_rtt: ms(rtt).since(ms(0)),
                ..*all[0].estimator.path()
            };
            all[0].estimator.on_path(ms(1), path);
            let two = [0, 1].map(|_| feedback.choose(ms(2_000), &all, PathSet::ALL, true));
            assert_eq!(two[0], two[1], "they do not take turns");
            two[0]
        };
        // The helper's subflow has 25 ms.
        assert_eq!(chosen(60), Some(0));
        assert_eq!(chosen(62), Some(1));
    }

    #[test]
    fn a_direct_link_that_rested_for_over_a_second_is_left_to_rest() {
        let mut all = subflows();
        let mut feedback = feedback();
        // Both fell quiet within 0.4 s of each other, the direct link first.
        all[0].counters.last_in = Some(ms(2_000));
        all[1].counters.last_in = Some(ms(2_400));
        let mut chosen = |at| {
            let two = [0, 1].map(|_| feedback.choose(ms(at), &all, PathSet::ALL, false));
            two.contains(&Some(0))
        };
        assert!(chosen(2_999) && !chosen(3_001) && !chosen(4_500));
    }

    #[test]
    fn feedback_waits_for_room_on_a_subflow_that_works() {
        let mut all = subflows();
        let mut feedback = feedback();
        all[1].health.failed_since = Some(ms(1_000));
        all[0].tx.room = 0;
        assert_eq!(feedback.choose(ms(2_000), &all, PathSet::ALL, false), None);
        assert!(!Feedback::has_room(&all));
        // An express only where nothing else works, a failed one at the very last.
        all[0].health.failed_since = Some(ms(1_000));
        assert_eq!(
            feedback.choose(ms(2_000), &all, PathSet::ALL, false),
            Some(2)
        );
        all.pop();
        assert_eq!(
            feedback.choose(ms(2_000), &all, PathSet::ALL, false),
            Some(1)
        );
    }

    #[test]
    fn an_ack_that_took_longer_than_the_fastest_is_older() {
        let mut feedback = feedback();
        let own = Duration::from_millis(20);
        let on = SubflowId(1);
        let mut arrived = |at, us| feedback.ack_arrived(ms(at), on, own, us);
        assert_eq!(arrived(1_000, 5_000_000), own);
        assert_eq!(arrived(1_100, 5_100_000), own);
        let late = arrived(1_250, 5_200_000);
        assert!(
            late > own * 3 && late <= own + Duration::from_millis(50),
            "{late:?}"
        );
        // Absurd clocks add a second at most.
        assert_eq!(arrived(1_300, 0), own + Duration::from_secs(1));
        assert_eq!(feedback.last_ack(), Some((on, ms(1_300))));
    }

    #[test]
    fn a_clock_that_stood_still_is_followed_after_five_seconds() {
        let mut feedback = feedback();
        let own = Duration::from_millis(20);
        let mut arrived = |at, us| feedback.ack_arrived(ms(at), SubflowId(1), own, us);
        assert_eq!(arrived(1_000, 5_000_000), own);
        // The peer slept for 10 s, by a clock that did not go on.
        for at in (0..5_000).step_by(500) {
            let late = arrived(11_100 + at, (5_100 + at) * 1_000);
            assert_eq!(late, own + MOST_EXTRA);
        }
        arrived(16_100, 10_100_000);
        assert_eq!(arrived(16_600, 10_600_000), own);
        let late = arrived(17_200, 11_100_000);
        assert!(late > own * 5, "{late:?}");
    }

    #[test]
    fn a_newer_report_replaces_an_older_one() {
        let mut feedback = feedback();
        for _ in 0..3 {
            feedback.relay(ms(1), SubflowId(2), FarReport::default());
        }
        assert_eq!(feedback.reports.len(), 1);
        let newest = feedback.reports[0].frame;
        assert!(feedback.is_news(&newest));
        assert!(!feedback.is_news(&PathReport {
            number: 2,
            ..newest
        }));
        feedback.forget(SubflowId(2));
        assert!(feedback.reports.is_empty());
    }
}
