//! What is sent: which frames, in which record, on which subflow.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use super::{Session, Transmit};
use crate::config::FeedbackRule;
use crate::scheduler::{Backlog, DEFER, Decision, SubflowView};
use crate::subflow::{Owed, Phase, SignalState, Subflow};
use crate::wire::{
    AckCount, DATA_OVERHEAD_MAX, Frame, MAX_ACK_COUNTS, MAX_RECORD_BYTES, put_data_header,
};
use crate::{StreamClass, StreamId, SubflowId};

/// Control frames stop at this record length; what is left goes into the next record.
const CONTROL_BYTES: usize = 4_096;

/// What the on-demand rule takes for "while data flows".
const AWAKE: Duration = Duration::from_secs(1);

/// The flexible rule takes the radio that was last busy with data, and with it helpers' that were
/// busy until so shortly before: their reports come every 100 ms, and wait in the pipe for up to
/// about as long.
const HELPER_GRACE: Duration = Duration::from_millis(250);

/// A direct link may only pause: recorded cellular links are silent downwards for most of a second
/// while they carry feedback upwards as before.
const DIRECT_GRACE: Duration = Duration::from_secs(1);

/// No radio's rest is worth feedback that comes later than another subflow's by this much: it
/// would lie behind all that a helper holds, and what waits for it would look lost.
const FEEDBACK_LATE: Duration = Duration::from_millis(150);

/// What a pipe gave last time may be long ago: until it has brought anything of what is owed now,
/// its helper is not given more than it would then pass on in this time. A round trip and an ACK's
/// delay fit in easily.
const UNTRIED_AHEAD: Duration = Duration::from_millis(500);

/// A report older than this says nothing about a helper's radio any more.
const DOWNLINK_KNOWN: Duration = Duration::from_millis(500);

/// A direct subflow that brought anything so recently works both ways: TCP stops without its own
/// acknowledgements. Feedback then needs no helper, whose own radio may have done its part long
/// before the pipe has. Longer than an ACK's delay and a round trip over a cellular path.
const PROVEN: Duration = Duration::from_millis(150);

/// A record's time on its path: short enough that small frames never wait long behind one, long
/// enough that framing stays under half a percent at the rates of interest.
const RECORD_TIME: Duration = Duration::from_millis(12);

/// A subflow that delivers later than the fastest by more than this is late: what holds up the
/// application is not for it.
const LATE: Duration = Duration::from_millis(50);

/// Doubts at which new bytes keep away from a subflow: about a quarter of a second of silence. TCP
/// repairs a first overrun of a queue for that long; who is shunned for it is short of bytes when
/// it goes on, while a helper has been given too many.
const SHUNNED_AT: u32 = 4;

/// Least record while the backlog is long.
const LEAST_RECORD: u64 = 4_096;

/// Which of a stream's bytes a subflow is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// What is to be sent again, then what is new.
    All,
    /// It delivers late: what is new, then what comes last of what is to be sent again.
    Late,
    /// What is to be sent again, but for what this other one has, and nothing new.
    Urgent(SubflowId),
}

impl Session {
    /// The next record to write, appended to `out` (which should be empty). `None` when nothing
    /// can or should be sent now; [`poll_timeout`](Self::poll_timeout) tells when that may change
    /// by itself.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(t) = self.transmit_hello(now, out) {
            return Some(t);
        }
        let mut owed = std::mem::take(&mut self.owed);
        let sent = self.transmit_frames(now, out, &mut owed);
        owed.clear();
        self.owed = owed;
        sent
    }

    fn transmit_hello(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Transmit> {
        let ready =
            |s: &crate::subflow::Subflow| s.room > 0 && matches!(s.phase, Phase::SendHello(_));
        let i = self.subflows.iter().position(ready)?;
        let s = &mut self.subflows[i];
        let Phase::SendHello(hello) = std::mem::replace(&mut s.phase, Phase::Up) else {
            return None;
        };
        hello.encode(out);
        s.hello_at = Some(now);
        let joins = matches!(*hello, Frame::MpJoin { .. } | Frame::MpJoinOk { .. });
        s.phase = match *hello {
            Frame::MpCapable { .. } => Phase::AwaitOk,
            Frame::MpJoin { .. } => Phase::AwaitJoinOk,
            _ => Phase::Up,
        };
        let id = s.id;
        if s.phase == Phase::Up {
            self.events.push_back(super::Event::SubflowUp(id));
        }
        // A peer that comes back learns how far its former subflows got, on this very subflow: it
        // may know of a loss that we have not noticed, and waits to be told before it sends again.
        self.tell_dead |= !self.dead.is_empty();
        if joins {
            self.put_ack(now, out);
            self.recall_from_suspects();
        }
        Some(self.wrote(now, i, out.len(), &mut Vec::new()))
    }

    fn transmit_frames(
        &mut self,
        now: Timestamp,
        out: &mut Vec<u8>,
        owed: &mut Vec<Owed>,
    ) -> Option<Transmit> {
        if !self.subflows.iter().any(|s| s.room > 0 && s.carries()) {
            return None;
        }
        // Answers to PING and tests of silent subflows belong to one subflow each.
        let own = |s: &crate::subflow::Subflow| {
            s.room > 0 && s.carries() && (s.ping_wanted || !s.pongs.is_empty())
        };
        if let Some(i) = self.subflows.iter().position(own) {
            let pongs = std::mem::take(&mut self.subflows[i].pongs);
            for token in &pongs {
                Frame::Pong(*token).encode(out);
            }
            if !pongs.is_empty() {
                // Whoever tests a subflow may be waiting for an ACK that went where all is silent.
                self.put_counts(now, false, out);
            }
            let s = &mut self.subflows[i];
            if std::mem::take(&mut s.ping_wanted) {
                Frame::Ping(now.as_nanos() / 1_000).encode(out);
                owed.push(Owed::Ping);
            }
            return Some(self.wrote(now, i, out.len(), owed));
        }
        if self.control_is_due(now)
            && let Some(i) = self.control_subflow(now)
        {
            self.put_control(now, out, owed);
            // Bulk goes along when this is the subflow it would have taken anyway.
            if out.len() < CONTROL_BYTES && self.pick(now, 0) == Some(i) {
                let limit = self.record_limit(now, i);
                self.put_data(now, i, out, limit, owed);
            }
            if !out.is_empty() {
                return Some(self.wrote(now, i, out.len(), owed));
            }
        }
        if let Some(i) = self.put_urgent(now, out, owed) {
            return Some(self.wrote(now, i, out.len(), owed));
        }
        let mut passed_over = 0u64;
        while let Some(picked) = self.pick(now, passed_over) {
            // The end of a stream is as small as feedback, and wakes no radio either.
            let quiet = self.only_ends_wait().then(|| self.control_subflow(now));
            for i in [quiet.flatten(), Some(picked)].into_iter().flatten() {
                let limit = self.record_limit(now, i);
                self.put_data(now, i, out, limit, owed);
                if !out.is_empty() {
                    return Some(self.wrote(now, i, out.len(), owed));
                }
            }
            // Everything left is on this very subflow already, or waits for a faster one.
            passed_over |= 1 << picked.min(63);
        }
        if std::mem::take(&mut self.spared) && self.defer_until.is_none() {
            self.defer_until = Some(now + DEFER);
        }
        None
    }

    fn wrote(
        &mut self,
        now: Timestamp,
        i: usize,
        plaintext: usize,
        owed: &mut Vec<Owed>,
    ) -> Transmit {
        let s = &mut self.subflows[i];
        let data: u64 = owed
            .iter()
            .map(|o| match o {
                Owed::Data { range, .. } => range.end - range.start,
                _ => 0,
            })
            .sum();
        if data > 0 {
            s.bytes_out += data;
            s.last_out = Some(now);
            self.stats.bytes_out += data;
            self.scheduler.sent(s.id, data);
        }
        let octets = s.wrote(now, plaintext, owed);
        debug_assert!(octets > 0);
        Transmit {
            subflow: s.id,
            octets_end: s.tx_octets,
        }
    }

    // ---- which subflow --------------------------------------------------------------------

    /// Whether what waits to be sent is FINs without bytes.
    fn only_ends_wait(&self) -> bool {
        // A glance is enough: an end that travels with data is no loss.
        const GLANCE: usize = 8;
        let mut waiting = self.ready.iter().flatten().take(GLANCE);
        self.backlog == 0
            && !self.scheduler.duplicates()
            && waiting.all(|id| {
                let stream = self.streams.get(id);
                stream.is_none_or(|s| s.fin_ready() && s.send.again_bytes() == 0)
            })
    }

    /// The subflow that the scheduler gives the next data to. `passed_over` are indices that have
    /// turned out to have nothing they may carry.
    fn pick(&mut self, now: Timestamp, passed_over: u64) -> Option<usize> {
        if self.ready.iter().all(|q| q.is_empty()) && !self.scheduler.duplicates() {
            self.defer_until = None;
            return None;
        }
        let interactive = !self.ready[0].is_empty();
        // Copies for a suspect that comes back are copies in vain: no store of them at a helper.
        let rescues = || {
            let mut subflows = self.subflows.iter();
            subflows.any(|s| s.suspect.is_some() && s.sent.data_bytes > 0)
        };
        let bound = (interactive || rescues()).then_some(self.config.interactive_far_bound);
        let mut views = std::mem::take(&mut self.views);
        self.fill_views(now, passed_over, bound, &mut views);
        let decision = if views.iter().any(|v| v.idle) {
            let backlog = Backlog {
                unscheduled_bytes: self.backlog,
            };
            Some(self.scheduler.decide(now, &views, backlog))
        } else {
            None
        };
        self.views = views;
        match decision {
            Some(Decision::Send(id)) => {
                self.defer_until = None;
                self.index(id)
            }
            Some(Decision::Defer { until }) => {
                self.defer_until = Some(until);
                None
            }
            None => {
                // A subflow that is held back, though its socket would take more, is looked at
                // again without an event.
                let held_back = self.subflows.iter().any(|s| s.room > 0 && s.carries());
                self.defer_until = (held_back && passed_over == 0).then(|| now + DEFER);
                None
            }
        }
    }

    /// Views of the subflows that may carry data: the regular ones that are neither suspect nor
    /// doubted for long; of the others only when those are all there is.
    fn fill_views(
        &self,
        now: Timestamp,
        passed_over: u64,
        bound: Option<Duration>,
        views: &mut Vec<SubflowView>,
    ) {
        views.clear();
        // The worst that is taken: doubted 1, in reserve 2, silent 3. An express is a reserve, too.
        let worst = |s: &Subflow| match s.suspect {
            Some(_) => 3,
            None if s.backup => 2,
            None => u8::from(s.doubts >= SHUNNED_AT && self.scheduler.heeds_doubt()),
        };
        for taken in 0..=3 {
            for (i, s) in self.subflows.iter().enumerate() {
                if !s.carries() || worst(s) > taken {
                    continue;
                }
                let (sent, acked) = (s.tx_octets, s.acked_octets);
                let untried = s.progress.is_new().then_some(UNTRIED_AHEAD);
                let bound = [bound, untried].into_iter().flatten().min();
                let full = s.room > 0
                    && (s.estimator.near_is_full(now, sent)
                        || s.estimator.far_is_full(now, sent, acked, bound));
                views.push(SubflowView {
                    id: s.id,
                    helper: s.helper,
                    idle: s.room > 0 && !full && passed_over >> i.min(63) & 1 == 0,
                    pad: s.estimator.pad(now, sent, acked, self.config.buffer_delay),
                    rtt: s.estimator.path().srtt,
                    throughput: s.estimator.throughput(now),
                    owed_bytes: s.sent.data_bytes,
                });
            }
            if !views.is_empty() {
                return;
            }
        }
    }

    /// The subflow for small frames: the least PAD that the feedback rule allows. Of several with
    /// about the same, a direct one that is known to work; without such they take turns, so that
    /// one that swallows everything delays feedback and does not stop it.
    ///
    /// The flexible rule is the paper's (MPBond section 4.2: over the HS-Path while data flows
    /// there, else over the PS-Path) made even: where neither radio is busy, the one that was busy
    /// last is nearest to awake, and a packet keeps it from its rest for the shortest time more.
    fn control_subflow(&mut self, now: Timestamp) -> Option<usize> {
        let since = |at: Option<Timestamp>| at.map(|t| now.since(t));
        let pipe_quiet = |s: &Subflow| since(s.data_in_at.max(s.last_out));
        let awake = |s: &Subflow| pipe_quiet(s).is_some_and(|d| d < AWAKE);
        // How long the radio towards the Internet has carried no data: a helper's own knows best.
        let quiet = |s: &Subflow| match s.downlink {
            Some(d) if now.since(d.read_at) < DOWNLINK_KNOWN => {
                let down = d.quiet + now.since(d.read_at);
                Some(since(s.last_out).map_or(down, |up| up.min(down)))
            }
            _ => pipe_quiet(s),
        };
        let grace = |s: &Subflow| match s.helper {
            Some(_) => HELPER_GRACE,
            None => DIRECT_GRACE,
        };
        let way = self.config.buffer_delay;
        let pad = |s: &Subflow| s.estimator.pad(now, s.tx_octets, s.acked_octets, way);
        let spared = self.spares_expresses();
        let usable = || {
            let takes = move |s: &&Subflow| s.room > 0 && s.carries() && !(spared && s.express);
            self.subflows.iter().filter(takes)
        };
        let healthy = usable().filter(|s| s.suspect.is_none());
        let soon = healthy.map(pad).min().unwrap_or_default() + FEEDBACK_LATE;
        let least_quiet = usable().filter(|s| pad(s) <= soon).filter_map(quiet).min();
        let rule = self.config.feedback;
        // Somebody waits for what an OPEN asks for, and wakes radios anyway.
        let opens = |id: &StreamId| self.streams.get(id).is_some_and(|s| s.open_wanted);
        let urgent = self.signalling.iter().any(opens);
        let allowed = |s: &Subflow| match rule {
            _ if urgent => true,
            FeedbackRule::Flexible => quiet(s)
                .zip(least_quiet)
                .is_some_and(|(own, least)| own <= least + grace(s) && pad(s) <= soon),
            FeedbackRule::FixedAlways => s.helper.is_some(),
            FeedbackRule::FixedOnDemand => s.helper.is_some() && awake(s),
        };
        type Test<'a> = &'a dyn Fn(&Subflow) -> bool;
        let direct = |s: &Subflow| s.helper.is_none();
        let any = |_: &Subflow| true;
        let tests: [Test; 3] = [&allowed, &direct, &any];
        for healthy_only in [true, false] {
            for test in tests {
                let mut best: Vec<(Duration, usize)> = self
                    .subflows
                    .iter()
                    .enumerate()
                    .filter(|(_, s)| s.room > 0 && s.carries() && !(spared && s.express))
                    .filter(|(_, s)| !healthy_only || s.suspect.is_none())
                    .filter(|(_, s)| test(s))
                    .map(|(i, s)| (pad(s), i))
                    .collect();
                best.sort_unstable();
                let Some(&(least, _)) = best.first() else {
                    continue;
                };
                let near = least * 2 + Duration::from_millis(50);
                best.retain(|(pad, _)| *pad <= near);
                let proven = |i: usize| {
                    let s = &self.subflows[i];
                    s.helper.is_none() && now.since(s.rx_at) < PROVEN
                };
                let direct = |i: usize| self.subflows[i].helper.is_none();
                if urgent && best.iter().any(|(_, i)| direct(*i)) {
                    // Fewer hops, fewer surprises: a pipe may have been silent for long.
                    best.retain(|(_, i)| direct(*i));
                } else if rule == FeedbackRule::Flexible && best.iter().any(|(_, i)| proven(*i)) {
                    best.retain(|(_, i)| proven(*i));
                }
                self.ack_turn = self.ack_turn.wrapping_add(1);
                let turn = (self.ack_turn % best.len() as u64) as usize;
                return Some(best[turn].1);
            }
        }
        None
    }

    /// Plaintext octets of the next data record on a subflow.
    pub(super) fn record_limit(&self, now: Timestamp, i: usize) -> usize {
        let rate = self.subflows[i].estimator.throughput(now);
        rate.bytes_in(RECORD_TIME)
            .clamp(LEAST_RECORD, MAX_RECORD_BYTES as u64) as usize
    }

    // ---- which frames ---------------------------------------------------------------------

    fn ack_is_due(&self, now: Timestamp) -> bool {
        self.ack_octets >= self.config.ack_bytes
            || self
                .ack_since
                .is_some_and(|t| now >= t + self.config.ack_delay)
    }

    fn control_is_due(&self, now: Timestamp) -> bool {
        self.ack_is_due(now)
            || self.max_data_wanted
            || self.max_streams_wanted
            || !self.signalling.is_empty()
            || !self.priorities.is_empty()
            || !self.cuts.is_empty()
            || !self.reports.is_empty()
            || self.go_away.is_some()
    }

    fn put_control(&mut self, now: Timestamp, out: &mut Vec<u8>, owed: &mut Vec<Owed>) {
        if self.ack_since.is_some() || self.ack_is_due(now) {
            self.put_ack(now, out);
        }
        if std::mem::take(&mut self.max_data_wanted) {
            Frame::MaxData(self.granted_data).encode(out);
            owed.push(Owed::MaxData);
        }
        if std::mem::take(&mut self.max_streams_wanted) {
            Frame::MaxStreams(self.granted_streams).encode(out);
            owed.push(Owed::MaxStreams);
        }
        for (mut report, at) in self.reports.drain(..) {
            report.age += now.since(at);
            Frame::PathReport(report).encode(out);
        }
        while let Some(subflow) = self.priorities.pop_front() {
            if let Some(s) = self.subflows.iter().find(|s| s.id == subflow) {
                let backup = s.backup;
                Frame::SubflowPriority { subflow, backup }.encode(out);
                owed.push(Owed::Priority(subflow));
            }
        }
        while let Some(subflow) = self.cuts.pop_front() {
            Frame::Cut { subflow }.encode(out);
            owed.push(Owed::Cut(subflow));
        }
        if let Some(reason) = &self.go_away
            && !self.going_away
        {
            self.going_away = true;
            Frame::GoAway {
                reason: reason.clone(),
            }
            .encode(out);
            owed.push(Owed::GoAway);
        }
        if self.going_away {
            self.go_away = None;
        }
        while out.len() < CONTROL_BYTES
            && let Some(id) = self.signalling.pop_front()
        {
            self.put_signals(id, out, owed);
        }
    }

    fn put_ack(&mut self, now: Timestamp, out: &mut Vec<u8>) {
        let dead = std::mem::take(&mut self.tell_dead);
        self.put_counts(now, dead, out);
        self.ack_octets = 0;
        self.ack_since = None;
    }

    /// An ACK; `with_dead` also of subflows that are gone.
    fn put_counts(&mut self, now: Timestamp, with_dead: bool, out: &mut Vec<u8>) {
        let live = self.subflows.iter_mut().map(|s| AckCount {
            subflow: s.id,
            count: s.rx_octets,
            age: now.since(s.rx_at),
            pace: s.pace.take(),
        });
        let dead = self.dead.iter().map(|(subflow, count)| AckCount {
            subflow: *subflow,
            count: *count,
            age: Duration::from_secs(1),
            pace: BitRate::ZERO,
        });
        let mut counts: Vec<AckCount> = live.collect();
        if with_dead {
            counts.extend(dead);
        }
        counts.truncate(MAX_ACK_COUNTS);
        let time_us = now.as_nanos() / 1_000;
        Frame::Ack { time_us, counts }.encode(out);
    }

    /// OPEN, MAX_STREAM_DATA, RESET and STOP of one stream.
    fn put_signals(&mut self, id: StreamId, out: &mut Vec<u8>, owed: &mut Vec<Owed>) {
        let Some(s) = self.streams.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut s.open_wanted)
            && let Some(destination) = s.destination.clone()
        {
            s.grant_wanted = false;
            Frame::Open {
                stream: id,
                class: s.class,
                max_stream_data: s.granted,
                destination,
            }
            .encode(out);
            owed.push(Owed::Open(id));
        }
        if std::mem::take(&mut s.grant_wanted) {
            Frame::MaxStreamData {
                stream: id,
                max: s.granted,
            }
            .encode(out);
            owed.push(Owed::MaxStreamData(id));
        }
        if let Some(reset) = &mut s.reset_out
            && reset.state == SignalState::Wanted
        {
            reset.state = SignalState::Sent;
            Frame::Reset {
                stream: id,
                code: reset.code,
                final_offset: s.send.next(),
            }
            .encode(out);
            owed.push(Owed::Reset(id));
        }
        if let Some(stop) = &mut s.stop_out
            && stop.state == SignalState::Wanted
        {
            stop.state = SignalState::Sent;
            Frame::Stop {
                stream: id,
                code: stop.code,
            }
            .encode(out);
            owed.push(Owed::Stop(id));
        }
    }

    /// Fills a record with stream bytes up to `limit` octets: interactive streams first, streams
    /// of a class in turn, a record each.
    fn put_data(
        &mut self,
        now: Timestamp,
        i: usize,
        out: &mut Vec<u8>,
        limit: usize,
        owed: &mut Vec<Owed>,
    ) {
        let on = self.subflows[i].id;
        let share = match self.is_late(on) || self.is_passed_by(now, i) {
            true => Share::Late,
            false => Share::All,
        };
        let soon_bytes = self.bytes_before(on);
        // What others carry goes before what is new: every byte over every subflow.
        if self.scheduler.duplicates() {
            let mut ids: Vec<StreamId> = self.streams.keys().copied().collect();
            ids.sort_unstable();
            for id in ids {
                self.put_copies(now, i, on, id, out, limit, owed);
            }
        }
        let streams = self.ready.iter().map(VecDeque::len).sum::<usize>() as u64;
        for class in [StreamClass::Interactive, StreamClass::Bulk] {
            let q = super::queue_of(class);
            for _ in 0..self.ready[q].len() {
                if out.len() + DATA_OVERHEAD_MAX >= limit {
                    return;
                }
                let Some(id) = self.ready[q].pop_front() else {
                    break;
                };
                // In its turn among all that wait, the fastest has carried this one to its end
                // before a byte that goes here arrives.
                let short = self.streams.get(&id).is_some_and(|s| {
                    s.backlog > 0
                        && s.send.again_bytes() == 0
                        && s.backlog.saturating_mul(streams) < soon_bytes
                });
                if short && streams > 1 {
                    self.spared = true;
                    self.ready[q].push_back(id);
                    continue;
                }
                self.put_stream(now, i, (on, share), id, out, limit, owed);
                let again = match self.streams.get_mut(&id) {
                    Some(s) => {
                        s.queued = s.sendable();
                        s.queued
                    }
                    None => false,
                };
                if again {
                    self.ready[q].push_back(id);
                }
            }
        }
    }

    /// What the fastest subflow delivers before a byte that is given to `on` arrives; nothing for
    /// schedulers that do not mind.
    fn bytes_before(&self, on: SubflowId) -> u64 {
        if !self.scheduler.minds_delay() {
            return 0;
        }
        let own = self.views.iter().find(|v| v.id == on);
        let fastest = self.views.iter().min_by_key(|v| v.pad);
        own.zip(fastest).map_or(0, |(own, fastest)| {
            fastest
                .throughput
                .bytes_in(own.pad.saturating_sub(fastest.pad))
        })
    }

    /// Whether a subflow delivers later than the fastest that was looked at.
    fn is_late(&self, on: SubflowId) -> bool {
        let least = self.views.iter().map(|v| v.pad).min();
        let own = self.views.iter().find(|v| v.id == on).map(|v| v.pad);
        own.zip(least)
            .is_some_and(|(own, least)| own > least + LATE)
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn put_stream(
        &mut self,
        now: Timestamp,
        i: usize,
        (on, share): (SubflowId, Share),
        id: StreamId,
        out: &mut Vec<u8>,
        limit: usize,
        owed: &mut Vec<Owed>,
    ) {
        loop {
            let credit = self.peer.max_data.saturating_sub(self.tx_data);
            let Some(s) = self.streams.get_mut(&id) else {
                return;
            };
            if !s.sendable_on(on, credit) {
                return;
            }
            let Some(space) = limit
                .checked_sub(out.len() + DATA_OVERHEAD_MAX)
                .filter(|n| *n > 0)
            else {
                return;
            };
            let space = space as u64;
            // Bytes of a lost or silent subflow hold up all that follows them: they go first, where
            // they arrive soonest. A late subflow takes what comes last in order.
            let again = match share {
                Share::Late => None,
                Share::All => s.send.take_again(space, &[on]),
                Share::Urgent(other) => s.send.take_again(space, &[on, other]),
            };
            let (range, chunk_end, copy) = if let Some(r) = again {
                (r, false, true)
            } else if matches!(share, Share::Urgent(_)) {
                return;
            } else if let Some((r, chunk_end)) = s.send.take_new(space.min(credit), s.max_send) {
                self.tx_data += r.end - r.start;
                (r, chunk_end, false)
            } else if let Some(r) = s.send.take_again_last(space, on) {
                (r, false, true)
            } else if s.fin_ready() {
                let end = s.send.end();
                (end..end, false, false)
            } else {
                return;
            };
            let fin = s.finish && range.end == s.send.end() && s.send.next() == s.send.end();
            if fin {
                s.fin_wanted = false;
            }
            let len = range.end - range.start;
            put_data_header(out, id, range.start, len as usize, fin, chunk_end);
            s.send.copy(range.clone(), out);
            let share = s.share(on);
            share.bytes_out += len;
            share.last_out = Some(now);
            if copy {
                s.redundant_out += len;
                self.subflows[i].redundant_out += len;
                self.stats.redundant_bytes_out += len;
            } else if self.scheduler.duplicates() {
                set_copied(&mut s.copied, on, range.end);
            }
            owed.push(Owed::Data {
                stream: id,
                range,
                fin,
                recalled: false,
            });
            self.touch(id);
        }
    }

    /// Redundant scheduling: what other subflows carry and this one does not.
    #[allow(clippy::too_many_arguments)]
    fn put_copies(
        &mut self,
        now: Timestamp,
        i: usize,
        on: SubflowId,
        id: StreamId,
        out: &mut Vec<u8>,
        limit: usize,
        owed: &mut Vec<Owed>,
    ) {
        loop {
            let Some(s) = self.streams.get_mut(&id).filter(|s| s.reset_out.is_none()) else {
                return;
            };
            let Some(space) = limit
                .checked_sub(out.len() + DATA_OVERHEAD_MAX)
                .filter(|n| *n > 0)
            else {
                return;
            };
            let from = s
                .copied
                .iter()
                .find(|(c, _)| *c == on)
                .map_or(0, |(_, at)| *at)
                .max(s.send.base());
            let Some(gap) = s.send.unacked(from..s.send.next()).next() else {
                return;
            };
            let range = gap.start..gap.end.min(gap.start + space as u64);
            let len = range.end - range.start;
            let fin = s.finish && range.end == s.send.end();
            put_data_header(out, id, range.start, len as usize, fin, false);
            s.send.copy(range.clone(), out);
            set_copied(&mut s.copied, on, range.end);
            let share = s.share(on);
            share.bytes_out += len;
            share.last_out = Some(now);
            s.redundant_out += len;
            self.subflows[i].redundant_out += len;
            self.stats.redundant_bytes_out += len;
            owed.push(Owed::Data {
                stream: id,
                range,
                fin,
                recalled: true,
            });
        }
    }
}

fn set_copied(copied: &mut Vec<(SubflowId, u64)>, on: SubflowId, end: u64) {
    match copied.iter_mut().find(|(c, _)| *c == on) {
        Some((_, at)) => *at = end,
        None => copied.push((on, end)),
    }
}
