//! Estimates of a subflow at its sender: bytes on the way, throughput and delay of each hop.
//!
//! Facts come from three places: the kernel's view of the near hop ([`PathInfo`], from TCP_INFO),
//! the far end's ACKs (counts, rates of arrival), and reports of the helper on the hop that only it
//! can see ([`FarReport`]). Each has an age; between facts an estimate is extrapolated by the
//! throughput (ADR 0007).

mod average;
mod carried;
mod known;
mod opening;
mod shared;
mod unproven;

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use crate::pad::{self, Hop};
use crate::{BufferDelay, FeedbackRule};
use average::Average;
use carried::Carried;
use known::HELD_BACK_LASTS;
pub(crate) use known::Knowledge;
pub(crate) use shared::{Load, Shared};

/// The near hop as the kernel sees it now. A socket without TCP_INFO has an assumed round-trip
/// time, and a window that follows from it and the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathInfo {
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time; zero if not yet known.
    pub srtt: Duration,
    /// Least round-trip time seen; zero if not yet known.
    pub min_rtt: Duration,
    /// Ciphertext octets of the TLS stream that have arrived at the near hop's far end, in order or
    /// not: a lost packet that is being repaired must not make all that follows it look unsent.
    pub bytes_arrived: u64,
    /// Throughput of the latest flight, zero if not yet known.
    pub delivery_rate: BitRate,
    /// That flight was limited by what there was to send, not by the path.
    pub app_limited: bool,
    /// The flow is in slow start: its rate is its congestion window's, not the path's.
    pub slow_start: bool,
    /// Of `bytes_arrived`, those in order: TCP's cumulative acknowledgement.
    pub bytes_acked: u64,
    /// TCP awaits no acknowledgement: all that the far end's window let go has arrived there.
    pub all_acked: bool,
}

/// The far hop as the helper sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FarReport {
    /// Throughput; zero if not known.
    pub throughput: BitRate,
    /// Round-trip time; zero if not known.
    pub rtt: Duration,
    /// Bytes that wait in the helper in our direction.
    pub level_bytes: u64,
    /// How old this is.
    pub age: Duration,
    /// Time that the last byte that left the helper had spent there, if reported.
    pub sojourn: Option<Duration>,
    /// Whether own traffic of the helper holds bytes in our direction back: they move at the rate
    /// of its limit, and not of a link.
    pub held_back: bool,
}

/// Most that may wait in the near hop's queues, in time: enough that a flow never runs dry between
/// two ACKs, less than the queues of the links of interest. What waits there cannot be scheduled
/// any more, and what overflows them is lost.
const NEAR_AHEAD: Duration = Duration::from_millis(70);

/// Below this a near hop is never held to be full: an initial window and more, yet less than a slow
/// link and its queue hold.
const LEAST_NEAR_BYTES: f64 = 20_000.0;

/// Least span of a throughput sample from ACK counts: several frames on the slowest links.
const SAMPLE_SPAN: Duration = Duration::from_millis(40);

/// Least bytes of such a sample, for the same reason.
const SAMPLE_BYTES: u64 = 8_192;

/// A helper holding this much is backlogged: the far hop is the limit, and the rate at which
/// counts rise is its throughput. Two full records.
const BACKLOGGED_BYTES: u64 = 32_768;

/// A helper that holds this much, and whose far hop brings less than half of an initial window of
/// TCP (RFC 6928) in a round trip, is backlogged as well: no window holds the far hop back.
const SLOW_BACKLOG_BYTES: u64 = 8_192;
const HALF_INITIAL_WINDOW: f64 = 7_300.0;

/// A round-trip time of so many times the one before, and longer by so much, is that of a queue.
const QUEUED_TIMES: u32 = 2;
const QUEUED_FOR: Duration = Duration::from_millis(5);

/// Age up to which the round-trip time is that of before: reports and ACKs of what comes the other
/// way are 100 ms apart at most.
const RTT_LASTS: Duration = Duration::from_millis(250);

/// Maximum age of an arrival rate that is used.
const PACE_LASTS: Duration = Duration::from_millis(500);

/// Maximum age of an estimate that is used. Recorded links differ as much from what they were four
/// minutes before as from one minute before, by a factor of two, and a rate that is wrong by that
/// costs less than none (ADR 0052).
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Throughput in bytes per second before the first fact. It only orders paths of which nothing is
/// known.
const FIRST_GUESS: f64 = 125_000.0;

/// ACK count as the far end read it.
#[derive(Debug, Clone, Copy)]
struct Reading {
    count: u64,
    /// On our clock.
    at: Timestamp,
    /// On the far end's clock.
    remote: Timestamp,
}

/// A reported level of a helper's buffer.
#[derive(Debug, Clone, Copy)]
struct Level {
    bytes: u64,
    /// When the helper read it, on our clock.
    at: Timestamp,
    /// Octets that the helper had taken by then.
    taken: u64,
}

/// Estimates for one subflow, in the direction that this end sends.
#[derive(Debug, Default)]
pub(crate) struct Estimator {
    through_helper: bool,
    /// The far hop is known by reports alone ([`FeedbackRule::is_published`]).
    by_reports: bool,
    path: PathInfo,
    path_at: Timestamp,
    /// Time of the last look that showed slow start.
    slow_start_at: Timestamp,
    near: Option<Average>,
    /// `near` is made of measurements, no longer of windows.
    near_measured: bool,
    /// What has arrived under load.
    carried: Carried,
    far: Option<Average>,
    /// Rate at which octets arrive at the far end: that of the slowest hop, as flights show it.
    pace: Option<Average>,
    /// The far hop's throughput as the helper reports it: a window per round trip, when it has
    /// nothing better.
    reported: Option<Average>,
    /// The last measured time of a byte at the helper.
    sojourn: Option<Duration>,
    /// The last reported level of the helper's buffer, where counts do not tell it.
    level: Option<Level>,
    /// Least round-trip time of the far hop; what waits in its queue is counted in bytes.
    far_rtt: Option<Duration>,
    /// `bytes_arrived` over the last third of a second, to compare with counts of that age.
    history: VecDeque<(Timestamp, u64)>,
    last: Option<Reading>,
    /// When octets were last written while none were owed: nothing waited at the helper.
    busy_since: Timestamp,
    /// The count then.
    count_before: u64,
    /// The count from which acknowledged octets widen what a helper without a rate is owed.
    unproven_from: u64,
    /// Octets written by then.
    sent_before: u64,
    /// When the last octets that were owed before were acknowledged, and how many were acknowledged
    /// from when octets were owed until then.
    moved: Option<(Timestamp, u64)>,
    /// The round-trip time then, if it was measured lately.
    rtt_before: Duration,
    /// Time of the last look that showed octets newly acknowledged by the near hop.
    grew_at: Timestamp,
    /// Latest time at which these can have been acknowledged.
    moved_at: Timestamp,
    /// Start of the throughput sample being taken, and the least that the helper has held since.
    sample: Option<(Reading, u64)>,
    /// Other subflows through the same helper that have something on its link now.
    shared: Option<Shared>,
    /// When the helper last held bytes back for its own traffic, as far as its reports tell.
    held_back_at: Option<Timestamp>,
    /// What an earlier connection has shown, until the first round trip of this one.
    remembered: Option<Knowledge>,
}

/// Spacing and number of history entries: a third of a second in all.
const HISTORY_STEP: Duration = Duration::from_millis(5);
const HISTORY_LEN: usize = 64;

impl Estimator {
    pub(crate) fn new(through_helper: bool, feedback: FeedbackRule) -> Self {
        Self {
            through_helper,
            by_reports: through_helper && feedback.is_published(),
            ..Self::default()
        }
    }

    /// What is known of the path, if it has shown a rate other than that at which its helper holds
    /// bytes back. Where helpers are known by their reports alone, as published, nothing is known
    /// of paths through them.
    pub(crate) fn knowledge(&self) -> Option<Knowledge> {
        let held_back_until = self.held_back_at.map(|at| at + HELD_BACK_LASTS);
        let is_links = |rate: &Average| held_back_until.is_none_or(|until| rate.at > until);
        let [near, far, pace] = [self.near, self.far, self.pace].map(|rate| rate.filter(is_links));
        let near = near.filter(|_| self.path.min_rtt > Duration::ZERO)?;
        let shown = self.near_measured || far.is_some() || pace.is_some();
        (shown && !self.by_reports).then_some(Knowledge {
            near,
            near_measured: self.near_measured,
            near_rtt: self.path.min_rtt,
            far,
            pace,
        })
    }

    /// Begins with what a connection over the same path has shown, once its first round trip is
    /// known.
    pub(crate) fn remember(&mut self, known: Knowledge) {
        self.remembered = Some(known).filter(|_| !self.by_reports);
    }

    /// The kernel has measured the first round trip.
    fn recall(&mut self, now: Timestamp, rtt: Duration) {
        let Some(known) = self.remembered.take().filter(|known| known.fits(rtt)) else {
            return;
        };
        let is_new = |average: &Average| now.since(average.at) < FORGET_AFTER;
        if is_new(&known.near) {
            self.near = Some(known.near);
            self.near_measured = known.near_measured;
        }
        self.far = self.far.or(known.far.filter(is_new));
        self.pace = self.pace.or(known.pace.filter(is_new));
    }

    pub(crate) fn path(&self) -> &PathInfo {
        &self.path
    }

    /// Octets are written while none are owed, after `sent` others.
    pub(crate) fn owes_again(&mut self, now: Timestamp, sent: u64) {
        let count = self.last.map_or(0, |last| last.count);
        // Over a fast path, one ACK takes all that the bound allows: what it takes widens the bound
        // for what follows at once.
        let moved = self.moved.take();
        let moved = moved.filter(|(at, _)| now.since(*at) <= RTT_LASTS);
        self.unproven_from = count.saturating_sub(moved.map_or(0, |(_, octets)| octets));
        self.sent_before = sent;
        self.busy_since = now;
        self.count_before = count;
        let is_new = now.since(self.grew_at) < RTT_LASTS;
        self.rtt_before = self.path.srtt * u32::from(is_new);
    }

    /// The last octets that were owed are acknowledged.
    pub(crate) fn owes_nothing(&mut self, now: Timestamp) {
        let count = self.last.map_or(0, |last| last.count);
        self.moved = Some((now, count.saturating_sub(self.count_before)));
    }

    /// Packets of a flow that is starting wait in a queue: it has all that the near hop gives. What
    /// the round trip was before is not its queue: acknowledgements wait beside what the other end
    /// sends.
    fn is_queued(&self, info: &PathInfo) -> bool {
        let before = self.rtt_before.max(info.min_rtt);
        let base = before.max(Duration::from_micros(1));
        info.srtt > base * QUEUED_TIMES && info.srtt > base + QUEUED_FOR
    }

    pub(crate) fn on_path(&mut self, now: Timestamp, info: PathInfo) {
        let grew = info.bytes_arrived > self.path.bytes_arrived;
        if grew {
            self.grew_at = now;
            self.moved_at = self.acknowledged_by(now, &info);
        }
        // The kernel shows the sample of the latest flight until there is another one. One of
        // before an idle time, often of the slow end of a transfer, is no measurement of now.
        let is_repeated = info.delivery_rate == self.path.delivery_rate
            && info.app_limited == self.path.app_limited;
        let is_old = is_repeated && self.near.is_some_and(|n| now.since(n.at) > RTT_LASTS);
        self.path = info;
        self.path_at = now;
        if info.slow_start {
            self.slow_start_at = now;
        }
        let due = self
            .history
            .back()
            .is_none_or(|(at, _)| now.since(*at) >= HISTORY_STEP);
        if due {
            if self.history.len() == HISTORY_LEN {
                self.history.pop_front();
            }
            // What is acknowledged out of order is counted in segments, as if each were full: when
            // its place is reached, the sum can be a little less than it was.
            let before = self.history.back().map_or(0, |(_, arrived)| *arrived);
            self.history
                .push_back((now, info.bytes_arrived.max(before)));
        }
        if !info.srtt.is_zero() {
            self.recall(now, info.srtt);
        }
        // CWND / RTT, as published, says what an unlimited flow gets; the kernel's own rate
        // sample says it better where the flow was limited by the path.
        let published = if info.srtt.is_zero() {
            0.0
        } else {
            info.cwnd_bytes as f64 / info.srtt.as_secs_f64()
        };
        if self.near.is_none() {
            if published > 0.0 {
                Average::update(&mut self.near, now, published);
            }
        } else if grew && info.delivery_rate > BitRate::ZERO {
            let sample = info.delivery_rate.bytes_per_sec();
            let known = self.near.map_or(0.0, |n| n.bytes_per_sec);
            // A flow that lacked bytes, or a window, shows no more than a lower bound: nothing
            // against a measured rate until a round trip after slow start (ADR 0089).
            let just_started = now.since(self.slow_start_at) < info.srtt;
            let lacks_window = info.slow_start || self.near_measured && just_started;
            let shows_path = !lacks_window || self.is_queued(&info);
            let measured = !is_old && !info.app_limited && shows_path;
            if measured && !self.near_measured {
                // Lower bounds of slow start are no part of an average of measurements.
                self.near_measured = true;
                self.near = None;
            }
            if measured || sample > known {
                Average::update(&mut self.near, now, sample);
            }
        }
    }

    pub(crate) fn on_far_report(&mut self, now: Timestamp, r: FarReport) {
        if !r.rtt.is_zero() {
            let least = self.far_rtt.map_or(r.rtt, |known| known.min(r.rtt));
            // It may have become longer for good: half of one percent a report.
            self.far_rtt = Some(least + (r.rtt - least) / 200);
        }
        self.sojourn = r.sojourn.or(self.sojourn);
        if r.held_back {
            self.held_back_at = Some(now);
        }
        if r.throughput > BitRate::ZERO {
            Average::update(&mut self.reported, now, r.throughput.bytes_per_sec());
        }
        let at = now.before(r.age);
        if self.by_reports && self.level.is_none_or(|l| l.at <= at) {
            self.level = Some(Level {
                bytes: r.level_bytes,
                at,
                taken: self.taken_by(at),
            });
        }
    }

    /// The far end measured this arrival rate.
    pub(crate) fn on_pace(&mut self, now: Timestamp, pace: BitRate) {
        if pace > BitRate::ZERO && !self.by_reports {
            Average::update(&mut self.pace, now, pace.bytes_per_sec());
        }
    }

    /// A count arrived that the far end read at `remote` on its clock, `at` on ours.
    pub(crate) fn on_count(&mut self, count: u64, at: Timestamp, remote: Timestamp) {
        if self.by_reports || self.last.is_some_and(|l| count < l.count) {
            return;
        }
        let reading = Reading { count, at, remote };
        let unchanged = self.last.is_some_and(|l| l.count == count);
        self.last = Some(reading);
        if !self.through_helper || unchanged {
            return;
        }
        let held = self.taken_at(at).saturating_sub(count);
        let Some((start, least)) = self.sample else {
            self.sample = Some((reading, held));
            return;
        };
        let span = remote.since(start.remote);
        let bytes = count - start.count;
        let least = least.min(held);
        if span < SAMPLE_SPAN || bytes < SAMPLE_BYTES {
            self.sample = Some((start, least));
            return;
        }
        // A second without news is a pause of ours, not the pipe's pace.
        if span < Duration::from_secs(1) {
            let rate = bytes as f64 / span.as_secs_f64();
            // Counts that catch up after a repaired loss show more than the hop's rate (ADR 0091).
            let rate = rate.min(self.recent_pace(at).unwrap_or(f64::MAX));
            let known = self.far.map_or(0.0, |f| f.bytes_per_sec);
            if self.is_backlogged(least, rate) || (rate > known && self.far.is_some()) {
                Average::update(&mut self.far, at, rate);
            }
        }
        self.sample = Some((reading, held));
    }

    /// Whether a helper that held so much all along was the limit of this rate.
    fn is_backlogged(&self, held: u64, rate: f64) -> bool {
        let slow = |rtt: Duration| rate * rtt.as_secs_f64() < HALF_INITIAL_WINDOW;
        held > BACKLOGGED_BYTES || held > SLOW_BACKLOG_BYTES && self.far_rtt.is_some_and(slow)
    }

    /// Octets that had been acknowledged on the near hop at an earlier instant.
    fn taken_at(&self, at: Timestamp) -> u64 {
        let i = self.history.partition_point(|(t, _)| *t <= at);
        match (
            i.checked_sub(1).and_then(|i| self.history.get(i)),
            self.history.get(i),
        ) {
            (Some(&(t0, a0)), Some(&(t1, a1))) => {
                let part = at.since(t0).as_secs_f64() / t1.since(t0).as_secs_f64().max(1e-9);
                a0 + ((a1 - a0) as f64 * part) as u64
            }
            (Some(&(_, a)), None) | (None, Some(&(_, a))) => a,
            (None, None) => 0,
        }
    }

    /// Others have this on the link of the helper that this subflow shares with them.
    pub(crate) fn share(&mut self, shared: Option<Shared>) {
        self.shared = shared;
    }

    /// What this subflow has on the link of its helper: on the near hop, or on the far one.
    pub(crate) fn load(&self, now: Timestamp, is_near: bool, sent: u64, acked: u64) -> Load {
        match is_near {
            true => Load {
                bytes: self.b_near(now, sent),
                rate: self.near_hop(now).throughput,
            },
            false => Load {
                bytes: self.b_far(now, sent, acked),
                rate: self.far_hop(now).throughput,
            },
        }
    }

    fn near_hop(&self, now: Timestamp) -> Hop {
        let known = self.near.and_then(|n| n.newer_than(now, FORGET_AFTER));
        let mut throughput = known.map_or_else(
            || {
                let rtt = self.path.srtt.as_secs_f64();
                if rtt > 0.0 {
                    self.path.cwnd_bytes as f64 / rtt
                } else {
                    FIRST_GUESS
                }
            },
            |n| n.bytes_per_sec,
        );
        // A flow that is starting is slower than its path still. The far end of a helper's path
        // also sees what the helper had gathered, at the pace of the far hop: no news of a near one
        // that is measured.
        if self.path.slow_start && !self.near_measured {
            throughput = throughput.max(self.recent_pace(now).unwrap_or_default());
        }
        Hop {
            throughput: throughput.max(1.0),
            one_way_delay: self.near_owd().as_secs_f64(),
        }
    }

    /// Rate of arrival, if one was measured lately.
    fn recent_pace(&self, now: Timestamp) -> Option<f64> {
        Some(self.pace?.newer_than(now, PACE_LASTS)?.bytes_per_sec)
    }

    /// Half the least round-trip time: what waits in queues is counted in bytes already.
    fn near_owd(&self) -> Duration {
        let rtt = if self.path.min_rtt.is_zero() {
            self.path.srtt
        } else {
            self.path.min_rtt
        };
        rtt / 2
    }

    /// Throughput of the far hop: as counts showed it under a backlog, else as flights show it,
    /// else as the helper reports it.
    fn far_known(&self, now: Timestamp) -> Option<f64> {
        [self.far, self.pace, self.reported]
            .into_iter()
            .flatten()
            .find_map(|f| f.newer_than(now, FORGET_AFTER))
            .map(|f| f.bytes_per_sec.max(1.0))
    }

    /// Whether the rate over all hops was measured lately, not derived from windows.
    pub(crate) fn rate_is_known(&self, now: Timestamp) -> bool {
        let is_new = |a: &Average| now.since(a.at) < FORGET_AFTER;
        let near = self.near_measured && self.near.as_ref().is_some_and(is_new);
        let far = !self.through_helper || self.far.as_ref().is_some_and(is_new);
        self.pace.as_ref().is_some_and(is_new) || (near && far)
    }

    /// Round-trip time of the far hop; zero until the helper reports.
    fn far_rtt(&self) -> Duration {
        self.far_rtt.unwrap_or_default()
    }

    pub(crate) fn near_throughput(&self, now: Timestamp) -> BitRate {
        BitRate::from_bytes_per_sec(self.near_hop(now).throughput)
    }

    fn far_hop(&self, now: Timestamp) -> Hop {
        let near = self.near_hop(now);
        Hop {
            // Unknown: no slower than the near hop until a backlog shows otherwise.
            throughput: self.far_known(now).unwrap_or(near.throughput),
            one_way_delay: self.far_rtt().as_secs_f64() / 2.0,
        }
    }

    /// Octets that the near hop's far end has by now: those acknowledged, and those whose
    /// acknowledgement must be under way.
    fn taken(&self, now: Timestamp, sent: u64) -> u64 {
        let mut unseen = now.since(self.path_at) + self.near_owd();
        if self.near_measured {
            // Nothing is under way from before a pause (ADR 0089). A rate that follows from windows
            // is a lower bound: it is left as it is.
            unseen = unseen.min(now.since(self.busy_since));
        }
        let moved = self.near_hop(now).throughput * unseen.as_secs_f64();
        let arrived = self.path.bytes_arrived;
        arrived.saturating_add(moved as u64).min(sent)
    }

    /// Octets that the near hop's far end had by `at`, as far as its acknowledgements tell today.
    fn taken_by(&self, at: Timestamp) -> u64 {
        let shown = at + self.near_owd();
        if shown < self.path_at {
            return self.taken_at(shown);
        }
        let unseen = shown.since(self.path_at);
        let moved = self.near_hop(at).throughput * unseen.as_secs_f64();
        self.path.bytes_arrived.saturating_add(moved as u64)
    }

    /// B_s: octets that have not left the near hop, of `sent` in all.
    pub(crate) fn b_near(&self, now: Timestamp, sent: u64) -> u64 {
        sent - self.taken(now, sent)
    }

    /// B_p (downlink) or B_h (uplink): octets that the helper has taken and the far end has not.
    /// `acked` is the latest ACK count.
    pub(crate) fn b_far(&self, now: Timestamp, sent: u64, acked: u64) -> u64 {
        if !self.through_helper {
            return 0;
        }
        let taken = self.taken(now, sent);
        if let Some(level) = self.level {
            let since = taken.saturating_sub(level.taken);
            let drained = self.far_hop(now).throughput * now.since(level.at).as_secs_f64();
            return (level.bytes + since).saturating_sub(drained as u64);
        }
        // The helper passes nothing on while it has nothing: time counts from the last count, or
        // from when the first octets after an idle time reached it.
        let begun = self.busy_since + self.near_owd();
        let at = self.last.map_or(now, |l| l.at.max(begun));
        let drained = self.far_hop(now).throughput * now.since(at).as_secs_f64();
        taken.saturating_sub(acked.saturating_add(drained as u64))
    }

    /// PAD by the three published cases or, behind a helper, by the delay that it measured, which
    /// is zero until its first report.
    pub(crate) fn pad(
        &self,
        now: Timestamp,
        sent: u64,
        acked: u64,
        buffer_delay: BufferDelay,
    ) -> Duration {
        let near = self.near_hop(now);
        let b_near = self.b_near(now, sent);
        let seconds = if self.through_helper && buffer_delay == BufferDelay::Measured {
            let sojourn = self.sojourn.unwrap_or_default().as_secs_f64();
            pad::by_measured_delay(b_near, sojourn, near, self.far_hop(now))
        } else if self.through_helper {
            let b_far = self.b_far(now, sent, acked);
            let far = self.far_hop(now);
            let alone = pad::through_helper(b_near, b_far, near, far);
            // Before it goes what other pipes of the helper have on its link.
            let on_link = |shared: Shared| {
                let mut own = self.load(now, shared.is_near, sent, acked);
                own.bytes += if shared.is_near { 0 } else { b_near };
                near.one_way_delay + far.one_way_delay + shared.time_for(now, own)
            };
            self.shared
                .map_or(alone, |shared| alone.max(on_link(shared)))
        } else {
            pad::direct(b_near, near)
        };
        pad::to_duration(seconds)
    }

    /// End-to-end throughput: the lesser of the hops'.
    pub(crate) fn throughput(&self, now: Timestamp) -> BitRate {
        let near = self.near_hop(now).throughput;
        let least = if self.through_helper {
            near.min(self.far_hop(now).throughput)
        } else {
            near
        };
        BitRate::from_bytes_per_sec(least)
    }

    /// A count arrived that the far end read at `remote` on its clock, while so many octets were
    /// sent.
    pub(crate) fn on_arrived(&mut self, now: Timestamp, count: u64, sent: u64, remote: Timestamp) {
        self.carried.on_count(now, count, sent, remote);
    }

    /// End-to-end throughput where load has shown it lately.
    pub(crate) fn throughput_under_load(&self, now: Timestamp) -> Option<BitRate> {
        self.carried.throughput(now)
    }

    pub(crate) fn far_throughput(&self, now: Timestamp) -> Option<BitRate> {
        self.far_known(now).map(BitRate::from_bytes_per_sec)
    }

    /// One-way delay over all hops.
    pub(crate) fn one_way_delay(&self) -> Duration {
        self.near_owd() + self.far_rtt() / 2
    }

    /// Round-trip time over all hops, with today's queues.
    pub(crate) fn rtt(&self) -> Duration {
        self.path.srtt + self.far_rtt()
    }

    /// Whether more is on its way over the near hop than it can use: it takes no more for now, so
    /// that decisions are made late.
    ///
    /// What the peer has acknowledged has passed the near hop, whatever its TCP knows: where the
    /// way back is silent, the peer's acknowledgements come on another subflow.
    pub(crate) fn near_is_full(&self, now: Timestamp, sent: u64, acked: u64) -> bool {
        let ahead = (self.path.min_rtt + NEAR_AHEAD).as_secs_f64();
        let window = LEAST_NEAR_BYTES.min(self.path.cwnd_bytes as f64);
        let allowed = (self.near_hop(now).throughput * ahead).max(window);
        let arrived = self.path.bytes_arrived.max(acked);
        sent.saturating_sub(arrived) as f64 > allowed
    }

    /// Whether so many octets keep the near hop busy until more can have come: a round trip. Not
    /// where none is measured.
    pub(crate) fn keep_busy(&self, now: Timestamp, octets: u64) -> bool {
        let round_trip = self.path.min_rtt.as_secs_f64();
        round_trip > 0.0 && octets as f64 >= self.near_hop(now).throughput * round_trip
    }

    /// Whether the near hop's congestion window is full (MPBond, Algorithm 1: no subflow is idle
    /// then).
    pub(crate) fn window_is_full(&self, sent: u64) -> bool {
        sent.saturating_sub(self.path.bytes_arrived) >= self.path.cwnd_bytes
    }

    /// Whether the helper holds more than its far hop sends in `bound`, at the rate that it has
    /// shown.
    pub(crate) fn far_is_full(
        &self,
        now: Timestamp,
        sent: u64,
        acked: u64,
        bound: Duration,
    ) -> bool {
        if !self.through_helper || !self.far_is_shown(now) {
            return false;
        }
        let Some(rate) = self.far_known(now) else {
            return false;
        };
        let own = self.b_near(now, sent) + self.b_far(now, sent, acked);
        // What other pipes have brought waits for the same link.
        let shared = self.shared.filter(|shared| !shared.is_near);
        let (others, rate) = shared.map_or((0, rate), |shared| shared.beside(now, rate));
        own + others > (rate * bound.as_secs_f64()) as u64
    }

    /// The far hop has shown its rate, by a backlog or by a flight. A helper's report, which may be
    /// that of a socket that is starting, counts only where nothing else is asked for.
    pub(crate) fn far_is_shown(&self, now: Timestamp) -> bool {
        let is_new = |a: Average| now.since(a.at) < FORGET_AFTER;
        let shown = [self.far, self.pace].into_iter().flatten().any(is_new);
        shown || self.by_reports
    }
}

#[cfg(test)]
mod tests;
