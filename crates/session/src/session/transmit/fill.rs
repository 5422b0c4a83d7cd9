//! Stream frames of a record: which streams, which of their bytes.

use mpbond_units::Timestamp;

use super::choose::{Selection, bytes_before};
use crate::copies::Cause;
use crate::mechanism::Mechanism;
use crate::scheduler::SubflowView;
use crate::session::Session;
use crate::session::order::{RANKS, behind, is_delay_sensitive};
use crate::session::reinject::express_for;
use crate::signal::SignalState;
use crate::stream::Stream;
use crate::subflow::{SentFrame, Subflow};
use crate::wire::{DATA_OVERHEAD_MAX, Frame, OPEN_BYTES_MAX, put_data_header};
use crate::{PathNumber, PathSet, StreamId, SubflowId};

/// Most streams of each rank that are searched for urgent bytes.
const MAX_SEARCHED: usize = 64;

/// Most ends of streams in a record without bytes: so many fit into the least record.
const MAX_ENDS_OF_RECORD: usize = 64;

/// Most streams that are looked at to find out whether only their ends wait. An end that travels
/// with data is no loss.
const MAX_ENDS: usize = 8;

/// Bytes of a stream that a subflow is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// Bytes to be sent again, then new ones.
    All,
    /// Bytes to be sent again that this other subflow does not carry, and nothing new.
    Urgent(SubflowId),
}

/// Where stream frames are written.
struct Target<'a> {
    now: Timestamp,
    /// Index and number of the subflow, and the number of its path.
    i: usize,
    on: SubflowId,
    path: Option<PathNumber>,
    out: &'a mut Vec<u8>,
    /// Plaintext octets of the record.
    limit: usize,
    frames: &'a mut Vec<SentFrame>,
}

impl Target<'_> {
    fn is_full(&self) -> bool {
        self.out.len() + DATA_OVERHEAD_MAX >= self.limit
    }

    /// Stream bytes that fit in, if any.
    fn space(&self) -> Option<u64> {
        let space = self.limit.checked_sub(self.out.len() + DATA_OVERHEAD_MAX)?;
        (space > 0).then_some(space as u64)
    }
}

impl Session {
    /// Whether FINs without bytes are all that waits to be sent.
    pub(super) fn only_ends_wait(&self) -> bool {
        let is_end = |id| self.streams.get(id).is_none_or(|s| s.send.is_end());
        self.streams.unscheduled() == 0
            && !self.scheduler.duplicates()
            && self.streams.ready_ids().take(MAX_ENDS).all(is_end)
    }

    /// Fills a record with FINs without bytes, while bytes give way to others than this session:
    /// they take no time of a link, and applications wait for them.
    pub(super) fn put_ends(
        &mut self,
        now: Timestamp,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) -> Option<usize> {
        let ends = self.streams.ready.open().flat_map(|group| &group.ends);
        let ends: Vec<_> = ends.take(MAX_ENDS_OF_RECORD).copied().collect();
        let streams = ends.iter().filter_map(|id| self.streams.get(*id));
        let paths = streams.map(|s| s.treatment.paths).reduce(PathSet::union)?;
        let i = self.choose_for_ends(now, paths)?;
        let mut target = self.target(now, i, out, frames);
        for id in ends {
            let may = |s: &Stream| s.treatment.paths.contains(target.path);
            if self.streams.get(id).is_some_and(may) {
                self.put_stream(id, Share::All, &mut target);
            }
        }
        (!out.is_empty()).then_some(i)
    }

    /// The subflow for ends of streams that may go on these paths, by the rules for small frames.
    fn choose_for_ends(&mut self, now: Timestamp, paths: PathSet) -> Option<usize> {
        let express = self
            .has_expresses()
            .then(|| express_for(now, &self.subflows));
        if let Some((i, _)) = express.flatten()
            && paths.contains(self.subflows[i].path)
        {
            return Some(i);
        }
        let urgent = !self.config.uses(Mechanism::AwakeRadio);
        self.feedback.choose(now, &self.subflows, paths, urgent)
    }

    /// Where the next record on a subflow is written.
    fn target<'a>(
        &self,
        now: Timestamp,
        i: usize,
        out: &'a mut Vec<u8>,
        frames: &'a mut Vec<SentFrame>,
    ) -> Target<'a> {
        let s = &self.subflows[i];
        Target {
            now,
            i,
            on: s.id,
            path: s.path,
            out,
            limit: self.record_limit(now, s) as usize,
            frames,
        }
    }

    /// Fills a record with bytes of these streams: ranks in their order, streams of a rank in turn,
    /// a record each. `views` are the subflows among which this one was chosen.
    pub(super) fn put_data(
        &mut self,
        now: Timestamp,
        i: usize,
        Selection { scope, paths }: Selection,
        views: &[SubflowView],
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        let mut target = self.target(now, i, out, frames);
        let before = bytes_before(target.on, views);
        // Bytes that others carry go before new ones: every byte over every subflow.
        if self.scheduler.duplicates() {
            for id in self.streams.ids() {
                self.put_copies(id, &mut target);
            }
        }
        // While others go first on its link, it carries delay-sensitive data only.
        let s = &self.subflows[i];
        let gives_way = !s.is_express() && !self.scheduler.duplicates() && s.gives_way(now);
        let ready = &self.streams.ready;
        let is_left = |rank| gives_way && scope.takes(rank) && !is_delay_sensitive(rank);
        self.scratch.gave_way |= ready.first_of(paths, &is_left).is_some();
        let streams = ready.len_beside(paths, RANKS - 1);
        let ranks = ready.ranks(paths);
        for rank in ranks.filter(|rank| scope.takes(*rank) && !is_left(*rank)) {
            let mut pass = self.streams.ready.pass(paths, rank);
            loop {
                // Else thousands of streams would be looked at that the peer's window stops.
                if target.is_full() || !self.streams.may_send(paths, self.flow.credit()) {
                    return;
                }
                let Some(id) = self.streams.ready.pop(&mut pass) else {
                    break;
                };
                // Those that are served before its end.
                let ahead = self.streams.ready.len_beside(paths, rank) as u64 + 1;
                if streams > 1 && self.is_short(id, ahead, before) {
                    self.scratch.left_to_faster = true;
                    self.streams.put_back(rank, id);
                    continue;
                }
                let before = target.out.len();
                self.put_stream(id, Share::All, &mut target);
                let bytes = target.out.len() - before;
                let (rank, restarts) = self.streams.requeue(rank, id, target.path, bytes as u64);
                if bytes > 0 {
                    self.subflows[i].tx.give(rank);
                    if !is_delay_sensitive(rank) {
                        self.subflows[i].giving_way.gave(now, bytes as u64);
                    }
                    if self.keeps_queues_short() {
                        let beside = self.has_transfers(behind(rank));
                        let exchange = (id, restarts);
                        self.short_exchanges.served(now, exchange, rank, beside);
                    }
                }
            }
        }
    }

    /// Whether streams of this rank or of a later one wait, or a subflow owes bytes of one: a
    /// transfer does not wait while its window is full of what a helper holds.
    fn has_transfers(&self, from: usize) -> bool {
        let owes = |s: &Subflow| s.tx.owed_rank().is_some_and(|rank| rank >= from);
        self.streams.ready.waits_from(from) || self.subflows.iter().any(owes)
    }

    /// Whether queues are kept short for short exchanges. The published scheduler, and those that
    /// send every byte over every subflow, are left as they are.
    fn keeps_queues_short(&self) -> bool {
        !self.config.scheduler.fills_windows()
            && self.config.uses(Mechanism::ShortQueues)
            && !self.scheduler.duplicates()
    }

    /// Whether the fastest subflow has carried a stream to its end, in its turn among the `streams`
    /// that are served with it or before it, before a byte that goes elsewhere arrives: it delivers
    /// `bytes_before` by then. Schedulers that do not mind when bytes arrive leave no stream to it.
    fn is_short(&self, id: StreamId, streams: u64, bytes_before: u64) -> bool {
        self.scheduler.minds_delay()
            && self.config.uses(Mechanism::LeftToFastest)
            && self.streams.get(id).is_some_and(|s| {
                let waiting = s.listed.unscheduled;
                waiting > 0
                    && s.send.buffer.retransmit_bytes() == 0
                    && waiting.saturating_mul(streams) < bytes_before
            })
    }

    /// Fills a record with bytes to be sent again that `other` does not carry.
    pub(super) fn put_copies_past(
        &mut self,
        now: Timestamp,
        i: usize,
        other: SubflowId,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        let mut target = self.target(now, i, out, frames);
        for rank in 0..RANKS {
            let groups = self.streams.ready.open_on(target.path);
            let ids = groups.flat_map(|group| group.ids_in(rank));
            let ids: Vec<_> = ids.take(MAX_SEARCHED).collect();
            for id in ids {
                self.put_stream(id, Share::Urgent(other), &mut target);
            }
        }
    }

    /// Writes frames of one stream until the record is full or the stream has no more for it.
    fn put_stream(&mut self, id: StreamId, share: Share, target: &mut Target) {
        let on = target.on;
        loop {
            let Some(paths) = self.streams.get(id).map(|s| s.treatment.paths) else {
                return;
            };
            let credit = self.streams.credit_for(paths, self.flow.credit());
            let Some(s) = self.streams.get_mut(id) else {
                return;
            };
            if !s.send.is_sendable_on(on, credit) {
                return;
            }
            let Some(space) = target.space() else {
                return;
            };
            // A copy of the first byte goes with OPEN, without which the far end has no use for it.
            let room = match s.opening.unacked {
                true => space.saturating_sub(OPEN_BYTES_MAX as u64),
                false => space,
            };
            let buffer = &mut s.send.buffer;
            // Bytes of a lost or silent subflow hold up all that follows them: they go first.
            let copy = match share {
                _ if room == 0 => None,
                Share::All => buffer.take_retransmission(room, &[on]),
                Share::Urgent(other) => buffer.take_retransmission(room, &[on, other]),
            };
            let (range, chunk_end, copy) = if let Some((r, cause)) = copy {
                (r, false, Some(cause))
            } else if matches!(share, Share::Urgent(_)) {
                return;
            } else if let Some((r, chunk_end)) =
                buffer.take_new(space.min(credit), s.send.max_offset)
            {
                self.flow.sent(r.end - r.start);
                (r, chunk_end, None)
            } else if s.send.fin_ready() {
                let end = s.send.buffer.end();
                (end..end, false, None)
            } else {
                return;
            };
            let fin = s.send.ends_at(range.end);
            if fin {
                s.send.fin_wanted = false;
            }
            if copy.is_some() && range.start == 0 && s.opening.unacked {
                put_open(id, s, target.out, target.frames);
            }
            let len = range.end - range.start;
            put_data_header(target.out, id, range.start, len as usize, fin, chunk_end);
            s.send.buffer.copy(range.clone(), target.out);
            s.counters.sent(target.now, on, len, copy);
            if let Some(cause) = copy {
                self.subflows[target.i].counters.redundant_out += len;
                self.stats.copies_out.add(cause, len);
            } else if self.scheduler.duplicates() {
                s.send.note_copied(on, range.end);
            }
            target.frames.push(SentFrame::Data {
                stream: id,
                range,
                fin,
                recalled: false,
                hedge: copy == Some(Cause::Hedged),
            });
            self.streams.update(id);
        }
    }

    /// Redundant scheduling: bytes that other subflows carry and this one does not.
    fn put_copies(&mut self, id: StreamId, target: &mut Target) {
        let on = target.on;
        loop {
            let may =
                |s: &&mut Stream| s.send.reset.is_none() && s.treatment.paths.contains(target.path);
            let Some(s) = self.streams.get_mut(id).filter(may) else {
                return;
            };
            let Some(space) = target.space() else {
                return;
            };
            let buffer = &s.send.buffer;
            let from = s.send.copied_to(on).max(buffer.base());
            let Some(gap) = buffer.unacked(from..buffer.next()).next() else {
                return;
            };
            let range = gap.start..gap.end.min(gap.start + space);
            let len = range.end - range.start;
            let fin = s.send.finished && range.end == buffer.end();
            put_data_header(target.out, id, range.start, len as usize, fin, false);
            buffer.copy(range.clone(), target.out);
            s.send.note_copied(on, range.end);
            s.counters.sent(target.now, on, len, Some(Cause::Scheduled));
            self.subflows[target.i].counters.redundant_out += len;
            self.stats.copies_out.add(Cause::Scheduled, len);
            target.frames.push(SentFrame::Data {
                stream: id,
                range,
                fin,
                recalled: true,
                hedge: false,
            });
            self.streams.update_shares(id);
        }
    }

    /// Frames of one stream for a subflow of this path: CLASS, RESET, STOP and, if the path is in
    /// the stream's set, OPEN, CONNECTED, MAX_STREAM_DATA and CHUNK.
    pub(super) fn put_signals(
        &mut self,
        id: StreamId,
        path: Option<PathNumber>,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        self.put_class(id, out, frames);
        self.put_signals_of_set(id, path, out, frames);
        let Some(s) = self.streams.get_mut(id) else {
            return;
        };
        if let Some(reset) = &mut s.send.reset
            && reset.state == SignalState::Wanted
        {
            reset.state = SignalState::Sent;
            Frame::Reset {
                stream: id,
                code: reset.code,
                final_offset: s.send.buffer.next(),
            }
            .encode(out);
            frames.push(SentFrame::Reset(id));
        }
        if let Some(stop) = &mut s.recv.stop
            && stop.state == SignalState::Wanted
        {
            stop.state = SignalState::Sent;
            Frame::Stop {
                stream: id,
                code: stop.code,
            }
            .encode(out);
            frames.push(SentFrame::Stop(id));
        }
    }

    /// Frames of one stream that only paths of its set may carry.
    fn put_signals_of_set(
        &mut self,
        id: StreamId,
        path: Option<PathNumber>,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        let may = |s: &&mut Stream| s.treatment.paths.contains(path);
        let Some(s) = self.streams.get_mut(id).filter(may) else {
            return;
        };
        if std::mem::take(&mut s.opening.wanted) {
            s.recv.grant_wanted = false;
            put_open(id, s, out, frames);
        }
        if std::mem::take(&mut s.opening.connected_wanted) {
            Frame::Connected { stream: id }.encode(out);
            frames.push(SentFrame::Connected(id));
        }
        if std::mem::take(&mut s.recv.grant_wanted) {
            Frame::MaxStreamData {
                stream: id,
                max: s.recv.granted,
            }
            .encode(out);
            frames.push(SentFrame::MaxStreamData(id));
        }
        self.put_chunks(id, out, frames);
    }
}

/// OPEN of a stream of ours.
fn put_open(id: StreamId, s: &mut Stream, out: &mut Vec<u8>, frames: &mut Vec<SentFrame>) {
    let Some(destination) = s.destination.clone() else {
        return;
    };
    s.opening.written = true;
    Frame::Open {
        stream: id,
        treatment: s.treatment,
        max_stream_data: s.recv.granted,
        destination,
        confirm: s.opening.unconfirmed,
    }
    .encode(out);
    frames.push(SentFrame::Open(id));
}
