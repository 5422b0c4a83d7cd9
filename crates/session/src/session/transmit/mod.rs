//! Transmit path: which frames go into the next record, and on which subflow.
//!
//! | Module | Question |
//! | --- | --- |
//! | [`choose`] | which subflow carries the next data |
//! | [`costs`] | which of those that have room are the cheapest ones |
//! | [`resting`] | which helpers' radios are left asleep |
//! | [`giving_way`] | which bulk data waits for others on the same link |
//! | [`fill`] | which streams, and which of their bytes |
//! | [`records`] | how long a record is |

mod choose;
mod costs;
mod fill;
mod giving_way;
mod records;
mod resting;

use mpbond_units::Timestamp;

use super::Session;
use super::event::{Event, Transmit};
use super::feedback;
use super::reinject;
use super::reinject::takers::Takers;
use super::timer::Timer;
use crate::mechanism::Mechanism;
use crate::scheduler::{DEFER, SubflowView};
use crate::subflow::{Phase, SentFrame, Subflow};
use crate::wire::Frame;
use crate::{PathNumber, PathSet};
use choose::{PassedOver, Scope, Selection, passed_rank};

/// Control frames stop at this record length; the rest goes into the next record.
const CONTROL_BYTES: usize = 4_096;

impl Session {
    /// The next record to write, appended to `out` (which should be empty). `None` when nothing
    /// can or should be sent now; [`poll_timeout`](Self::poll_timeout) is when that may change
    /// without another call.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(t) = self.transmit_hello(now, out) {
            return Some(t);
        }
        if !self.subflows.iter().any(|s| s.tx.room > 0 && s.carries()) {
            return None;
        }
        self.update_rests(now);
        let mut frames = std::mem::take(&mut self.scratch.frames);
        let mut views = std::mem::take(&mut self.scratch.views);
        let i = self.fill_record(now, out, &mut frames, &mut views);
        let sent = i.map(|i| self.wrote(now, i, out.len(), &mut frames));
        frames.clear();
        self.scratch.frames = frames;
        self.scratch.views = views;
        sent
    }

    fn transmit_hello(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Transmit> {
        let ready = |s: &Subflow| s.tx.room > 0 && matches!(s.phase, Phase::SendHello(_));
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
        if s.phase == Phase::Up {
            let id = s.id;
            self.events.push_back(Event::SubflowUp(id));
        }
        self.paths_changed();
        // A peer that comes back learns how far its former subflows got, on this very subflow.
        self.resume.peer_is_back();
        if joins {
            let (subflows, resume) = (&mut self.subflows, &mut self.resume);
            self.feedback.write_ack(now, subflows, resume, out);
            self.recall_from_failed();
            if !self.identity.client {
                // The peer's counts came with its hello. Of a subflow lost since then no others
                // need come: the ACK of this answer may be lost.
                let lost = self.resume.take_lost();
                self.requeue(lost);
            }
        }
        Some(self.wrote(now, i, out.len(), &mut Vec::new()))
    }

    /// Fills a record: answers and questions of one subflow, then control frames, then urgent
    /// copies, then data. Returns the index of the subflow that carries it.
    fn fill_record(
        &mut self,
        now: Timestamp,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
        views: &mut Vec<SubflowView>,
    ) -> Option<usize> {
        if let Some(i) = self.put_pings(now, out, frames) {
            return Some(i);
        }
        if let Some(i) = self.feedback.write_published(now, &self.subflows, out) {
            return Some(i);
        }
        if self.control_is_due(now)
            && let Some(i) = self.choose_for_control(now)
        {
            self.put_control(now, self.subflows[i].path, out, frames);
            let selection = Selection {
                scope: Scope::All,
                paths: self.streams.ready.first_set(),
            };
            // Bulk goes along when this is the subflow it would have taken anyway.
            if out.len() < CONTROL_BYTES
                && self.serves_apart(now).is_none()
                && self.passing(now).is_none()
                && self.choose(now, selection, PassedOver::default(), views) == Some(i)
            {
                self.put_data(now, i, selection, views, out, frames);
            }
            if !out.is_empty() {
                return Some(i);
            }
        }
        let apart = self.serves_apart(now);
        if let Some(from) = apart.filter(|from| self.streams.ready.is_due_from(*from)) {
            let i = self.put_due_transfers(now, from, out, frames, views);
            if i.is_some() {
                return i;
            }
        }
        if let Some(i) = self.put_urgent(now, out, frames) {
            return Some(i);
        }
        let mut again = None;
        if !self.streams.has_ready() || self.streams.only_copies_wait() {
            let (reinjection, mut work, _) = self.reinjection();
            again = reinjection.hedge(now, &mut work);
        }
        let scopes: &[_] = match apart {
            Some(from) => &[Scope::Before(from), Scope::From(from)],
            None => &[Scope::All],
        };
        let mut asked = None;
        for scope in scopes {
            let (i, at) = self.put_scope(now, *scope, out, frames, views);
            if i.is_some() {
                return i;
            }
            asked = asked.or(at);
        }
        let gave_way = std::mem::take(&mut self.scratch.gave_way);
        if gave_way && let Some(i) = self.put_ends(now, out, frames) {
            return Some(i);
        }
        let left = std::mem::take(&mut self.scratch.left_to_faster) | gave_way;
        let asked = asked.or(left.then_some(now + DEFER));
        self.timers
            .set(Timer::Schedule, [again, asked].into_iter().flatten().min());
        None
    }

    /// The first rank of transfers, where short exchanges wait that are served apart from them.
    pub(super) fn serves_apart(&self, now: Timestamp) -> Option<usize> {
        let from = self.short_exchanges.transfers_from(now)?;
        self.streams.ready.waits_before(from).then_some(from)
    }

    /// The express that takes bytes of streams now that wait, and that it carries past those of
    /// later ranks at its helper, and the first rank that it does not carry.
    fn passing(&self, now: Timestamp) -> Option<(usize, usize)> {
        if !self.may_pass() {
            return None;
        }
        let ready = &self.streams.ready;
        let mut all = reinject::expresses_for(now, &self.subflows);
        all.find_map(|(i, other)| {
            let rank = self.subflows.by_id(other).and_then(passed_rank)?;
            let waits = ready.waits_before_on(rank, self.subflows[i].path);
            waits.then_some((i, rank))
        })
    }

    /// Fills a record with data of one group of these streams, for the subflow that the scheduler
    /// chooses. Without a record: when it is to be asked again.
    fn put_scope(
        &mut self,
        now: Timestamp,
        scope: Scope,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
        views: &mut Vec<SubflowView>,
    ) -> (Option<usize>, Option<Timestamp>) {
        let selection = |paths| Selection { scope, paths };
        if !self.streams.ready.has_sets() {
            let i = self.put_group(now, selection(PathSet::ALL), out, frames, views);
            return (i, self.timers.get(Timer::Schedule));
        }
        let takers = Takers::of(
            self.subflows
                .iter()
                .filter(|s| s.tx.room > 0 && s.carries()),
        );
        let mut again: Option<Timestamp> = None;
        for paths in self.streams.ready.sets(&|rank| scope.takes(rank)) {
            if !takers.may_carry(paths) {
                continue;
            }
            let i = self.put_group(now, selection(paths), out, frames, views);
            if i.is_some() {
                return (i, None);
            }
            again = [again, self.timers.get(Timer::Schedule)]
                .into_iter()
                .flatten()
                .min();
        }
        (None, again)
    }

    /// Fills a record with data of a transfer that has its turn before short exchanges.
    fn put_due_transfers(
        &mut self,
        now: Timestamp,
        from: usize,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
        views: &mut Vec<SubflowView>,
    ) -> Option<usize> {
        let scope = Scope::From(from);
        if !self.streams.ready.has_sets() {
            let paths = PathSet::ALL;
            return self.put_group(now, Selection { scope, paths }, out, frames, views);
        }
        let sets = self.streams.ready.due_sets(&|rank| scope.takes(rank));
        sets.into_iter()
            .find_map(|paths| self.put_group(now, Selection { scope, paths }, out, frames, views))
    }

    fn put_group(
        &mut self,
        now: Timestamp,
        selection: Selection,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
        views: &mut Vec<SubflowView>,
    ) -> Option<usize> {
        let mut passed_over = PassedOver {
            carriers: self.carriers(),
            ..PassedOver::default()
        };
        while let Some(chosen) = self.choose(now, selection, passed_over, views) {
            // The end of a stream is as small as feedback, and wakes no radio either.
            let quiet = self.only_ends_wait().then(|| self.choose_for_control(now));
            let may = |i: &usize| selection.paths.contains(self.subflows[*i].path);
            let quiet = quiet.flatten().filter(may);
            let left_before = std::mem::take(&mut self.scratch.left_to_faster);
            for i in [quiet, Some(chosen)].into_iter().flatten() {
                self.put_data(now, i, selection, views, out, frames);
                if !out.is_empty() {
                    self.scratch.left_to_faster |= left_before;
                    return Some(i);
                }
            }
            // Everything left is on this very subflow already, or waits for a faster one.
            let bit = 1u64 << chosen.min(63);
            match self.scratch.left_to_faster {
                true => passed_over.waiting |= bit,
                false => passed_over.with_nothing |= bit,
            }
            self.scratch.left_to_faster |= left_before;
        }
        None
    }

    /// Subflows that carry all that waits already, where that is only copies, by bits of their
    /// indices. The scheduler does not wait for these until they have room.
    fn carriers(&self) -> u64 {
        if !self.streams.only_copies_wait() || self.scheduler.duplicates() {
            return 0;
        }
        // The last bit stands for all others.
        let subflows = self.subflows.iter().enumerate().take(63);
        let carry = subflows.filter(|(_, s)| !self.streams.may_have_copies_for(s.id));
        carry.fold(0, |bits, (i, _)| bits | 1u64 << i)
    }

    /// Accounts for a record that is written.
    fn wrote(
        &mut self,
        now: Timestamp,
        i: usize,
        plaintext: usize,
        frames: &mut Vec<SentFrame>,
    ) -> Transmit {
        let s = &mut self.subflows[i];
        let data: u64 = frames
            .iter()
            .map(|frame| match frame {
                SentFrame::Data { range, .. } => range.end - range.start,
                _ => 0,
            })
            .sum();
        if data > 0 {
            s.counters.bytes_out += data;
            s.counters.last_out = Some(now);
            self.stats.bytes_out += data;
            self.scheduler.sent(s.id, data);
            self.events.extend(self.movement.moved(now));
        }
        let octets = s.wrote(now, plaintext, frames);
        debug_assert!(octets > 0);
        let sent = Transmit {
            subflow: s.id,
            octets_end: s.tx.octets,
        };
        self.subflows.share(now, self.identity.client);
        sent
    }

    /// Answers to PING and PINGs, which belong to one subflow each.
    fn put_pings(
        &mut self,
        now: Timestamp,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) -> Option<usize> {
        let due = |s: &Subflow| {
            let pings = &s.pings;
            s.tx.room > 0 && s.carries() && (pings.wanted || !pings.pongs.is_empty())
        };
        let i = self.subflows.iter().position(due)?;
        let pongs = std::mem::take(&mut self.subflows[i].pings.pongs);
        for token in &pongs {
            Frame::Pong(*token).encode(out);
        }
        if !pongs.is_empty() {
            // A peer that tests a subflow may be waiting for an ACK that went where all is silent.
            feedback::write_counts(now, &mut self.subflows, None, out);
        }
        if std::mem::take(&mut self.subflows[i].pings.wanted) {
            Frame::Ping(now.as_nanos() / 1_000).encode(out);
            frames.push(SentFrame::Ping);
        }
        Some(i)
    }

    // ---- control frames -------------------------------------------------------------------

    fn control_is_due(&self, now: Timestamp) -> bool {
        self.session_control_is_due(now) || self.streams.has_signals()
    }

    /// Whether frames of the session itself are due. They choose among all subflows, whatever paths
    /// streams wait for: in a record for one of those they might wait on a slow one, or on a
    /// backup.
    fn session_control_is_due(&self, now: Timestamp) -> bool {
        self.feedback.is_due(now, &self.subflows) || self.control.is_due()
    }

    /// The subflow for small frames. The peer waits for what an OPEN asks for, and wakes radios
    /// anyway. None is to wait at a helper, if an express can carry it: neither frames of streams
    /// nor acknowledgements, without which what they acknowledge counts as lost.
    fn choose_for_control(&mut self, now: Timestamp) -> Option<usize> {
        let of_session = self.session_control_is_due(now);
        let paths = match of_session {
            true => self.streams.signalling_paths().map(|_| PathSet::ALL),
            false => self.streams.signalling_paths(),
        };
        if self.has_expresses()
            && let Some((i, _)) = reinject::express_for(now, &self.subflows)
            && (of_session || paths.is_none() || self.streams.has_signals_on(self.subflows[i].path))
        {
            return Some(i);
        }
        let paths = paths.unwrap_or(PathSet::ALL);
        let urgent = self.streams.has_opens() || !self.config.uses(Mechanism::AwakeRadio);
        self.feedback.choose(now, &self.subflows, paths, urgent)
    }

    /// Writes control frames for a subflow of this path. Without sets of paths, those of the
    /// session that are not due yet go along.
    fn put_control(
        &mut self,
        now: Timestamp,
        path: Option<PathNumber>,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        if !self.streams.ready.has_sets() || self.session_control_is_due(now) {
            self.put_session_control(now, out, frames);
        }
        while out.len() < CONTROL_BYTES
            && let Some(id) = self.streams.pop_signalling(path)
        {
            self.put_signals(id, path, out, frames);
        }
    }

    fn put_session_control(
        &mut self,
        now: Timestamp,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        let (subflows, resume) = (&mut self.subflows, &mut self.resume);
        self.feedback.write_due_ack(now, subflows, resume, out);
        if std::mem::take(&mut self.control.max_data_wanted) {
            Frame::MaxData(self.flow.granted()).encode(out);
            frames.push(SentFrame::MaxData);
        }
        if std::mem::take(&mut self.control.max_streams_wanted) {
            Frame::MaxStreams(self.flow.granted_streams()).encode(out);
            frames.push(SentFrame::MaxStreams);
        }
        self.feedback.write_reports(now, out);
        while let Some(subflow) = self.control.pop_priority() {
            if let Some(s) = self.subflows.by_id(subflow) {
                let (role, cost) = (s.role, s.cost);
                Frame::SubflowRole {
                    subflow,
                    role,
                    cost,
                }
                .encode(out);
                frames.push(SentFrame::Priority(subflow));
            }
        }
        while let Some(subflow) = self.control.pop_admit() {
            let s = self.subflows.by_id(subflow);
            if let Some((s, least)) = s.and_then(|s| Some((s, s.radio.for_peer?))) {
                Frame::Admit {
                    subflow,
                    change: s.radio.change,
                    least,
                }
                .encode(out);
                frames.push(SentFrame::Admit(subflow));
            }
        }
        while let Some(subflow) = self.control.pop_cut() {
            if let Some(dead) = self.resume.dead().find(|dead| dead.subflow == subflow) {
                feedback::write_last_count(now, dead, out);
            }
            Frame::Cut { subflow }.encode(out);
            frames.push(SentFrame::Cut(subflow));
        }
        if std::mem::take(&mut self.control.go_away_wanted) {
            let reason = self.control.go_away.clone().unwrap_or_default();
            Frame::GoAway { reason }.encode(out);
            frames.push(SentFrame::GoAway);
        }
    }

    /// Fills a record with bytes that an express is to carry past a helper's queue, if any: those
    /// of streams that pass others, or copies. Returns its index.
    fn put_urgent(
        &mut self,
        now: Timestamp,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) -> Option<usize> {
        if let Some((i, before)) = self.passing(now) {
            self.put_passing(now, i, before, out, frames);
            if !out.is_empty() {
                return Some(i);
            }
        }
        if self.uses_expresses() {
            let (i, other) = reinject::express_for(now, &self.subflows)?;
            self.put_copies_past(now, i, other, out, frames);
            return (!out.is_empty()).then_some(i);
        }
        None
    }

    /// Fills a record with bytes of streams before this rank that the express may carry.
    fn put_passing(
        &mut self,
        now: Timestamp,
        i: usize,
        before: usize,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        let scope = Scope::Before(before);
        if !self.streams.ready.has_sets() {
            let paths = PathSet::ALL;
            return self.put_data(now, i, Selection { scope, paths }, &[], out, frames);
        }
        for paths in self.streams.ready.sets(&|rank| scope.takes(rank)) {
            if out.is_empty() && paths.contains(self.subflows[i].path) {
                self.put_data(now, i, Selection { scope, paths }, &[], out, frames);
            }
        }
    }
}
