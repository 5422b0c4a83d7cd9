//! All streams of a session: the table, the queues of those with something to do, and sums over
//! all.

mod copies;
mod memory;
mod receiving;
mod signals;

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

use super::order::{Group, Order, rank};
use crate::config::StreamOrder;
use crate::copies::Cause;
use crate::range_set::RangeSet;
use crate::signal::{Signal, SignalState};
use crate::stream::{Listed, Stream};
use crate::treatment::Treatment;
use crate::{PathNumber, PathSet, ResetCode, StreamClass, StreamId, SubflowId};

/// Maximum number of streams of a rank whose bytes are counted: the sum is taken for each record,
/// and so many make a long backlog.
const MAX_COUNTED: usize = 64;

/// Most bytes of a stream that are taken to follow, whatever was told: more than any burst needs to
/// be worth a radio, and few enough to be added up.
const MAX_DECLARED: u64 = 1 << 40;

/// Streams by number. After a change of what a stream has to send, [`Streams::update`] must be
/// called.
pub(super) struct Streams {
    table: HashMap<StreamId, Stream>,
    /// Order of the streams of a class.
    order: StreamOrder,
    /// Client: the next number.
    next: u64,
    /// Numbers of streams that are over.
    closed: RangeSet,
    /// Streams by their sets of paths, and those with something to send by rank.
    pub(super) ready: Order,
    /// Bytes kept for sending.
    held: u64,
    /// Client: streams on which an answer is awaited.
    awaiting: usize,
    /// Bytes that the peer was granted, over all streams, and that were not read.
    granted: u64,
    /// Bytes that have arrived and wait in stalled streams.
    stalled: u64,
    /// Shares of subflows that streams keep.
    shares: usize,
    /// Streams whose application waits to write, and to which something has happened: each once,
    /// whatever the peer sends.
    touched: Vec<StreamId>,
}

/// The rank in which a stream of this class waits that was given so many bytes.
fn rank_of(order: StreamOrder, class: StreamClass, served: u64) -> usize {
    match order {
        StreamOrder::AttainedService => rank(class, served),
        StreamOrder::RoundRobin => rank(class, 0),
    }
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            table: HashMap::new(),
            order: StreamOrder::default(),
            next: 0,
            closed: RangeSet::default(),
            ready: Order::default(),
            held: 0,
            awaiting: 0,
            granted: 0,
            stalled: 0,
            shares: 0,
            touched: Vec::new(),
        }
    }

    /// The same with this order of the streams of a class.
    pub(super) fn with_order(self, order: StreamOrder) -> Self {
        Self { order, ..self }
    }

    // ---- the table ------------------------------------------------------------------------

    pub(super) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.table.get(&id)
    }

    /// The caller calls [`Self::update`] where it changes what is to be sent.
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.table.get_mut(&id)
    }

    pub(super) fn contains(&self, id: StreamId) -> bool {
        self.table.contains_key(&id)
    }

    pub(super) fn is_closed(&self, id: StreamId) -> bool {
        self.closed.contains(id.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Streams in no order. There may be thousands: not for what happens with every record.
    pub(super) fn values(&self) -> impl Iterator<Item = &Stream> {
        self.table.values()
    }

    /// Streams in no order, as [`Self::values`]; see [`Self::get_mut`].
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.table.values_mut()
    }

    /// Streams in no order; see [`Self::get_mut`].
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        self.table.iter_mut().map(|(id, s)| (*id, s))
    }

    /// Numbers of all streams, ascending.
    pub(super) fn ids(&self) -> Vec<StreamId> {
        let mut ids: Vec<_> = self.table.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Client: number of the next stream.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Client: adds a stream under the next number.
    pub(super) fn open(&mut self, stream: Stream) -> StreamId {
        let id = StreamId(self.next);
        self.next += 1;
        self.accept(id, stream);
        id
    }

    /// Server: adds a stream under the peer's number.
    pub(super) fn accept(&mut self, id: StreamId, stream: Stream) {
        self.ready.enter(stream.treatment.paths);
        self.table.insert(id, stream);
        self.update_receiving(id);
    }

    /// Takes a stream out that is over both ways.
    pub(super) fn remove_if_done(&mut self, id: StreamId) -> Option<Stream> {
        if !self.get(id).is_some_and(Stream::is_done) {
            return None;
        }
        let s = self.table.remove(&id)?;
        let (paths, held) = (s.treatment.paths, s.send.buffer.held_bytes());
        if let Some(group) = self.ready.group(paths) {
            group.unscheduled -= s.listed.unscheduled;
            group.retransmit -= s.listed.retransmit;
            group.outstanding -= s.listed.outstanding;
            group.declared -= s.listed.declared;
            group.held -= held;
            group.ends.remove(&id);
            group.blocked.remove(&id);
            // A parked group writes nothing. That of all paths drops the stream in its turn.
            if !paths.is_all() {
                group.signalling.remove(id);
            }
        }
        self.ready.leave(paths);
        self.held -= held;
        self.awaiting -= usize::from(s.listed.awaits);
        self.granted -= s.listed.granted;
        self.stalled -= s.listed.stalled;
        self.shares -= s.listed.shares;
        self.closed.insert(id.0..id.0 + 1);
        Some(s)
    }

    /// Number of streams that are over.
    pub(super) fn closed(&self) -> u64 {
        self.closed.len()
    }

    // ---- sums -----------------------------------------------------------------------------

    /// Brings sums and queues up to date after something happened to a stream.
    ///
    /// The count of an interactive stream restarts when bytes begin to wait: below the rate of the
    /// paths it fills no queue, however long it goes on.
    pub(super) fn update(&mut self, id: StreamId) {
        let Some(s) = self.table.get_mut(&id) else {
            return;
        };
        let (unscheduled, retransmit, outstanding) = match s.send.reset {
            Some(_) => (0, 0, 0),
            None => {
                let buffer = &s.send.buffer;
                let (unscheduled, retransmit) = (buffer.untransmitted(), buffer.retransmit_bytes());
                (unscheduled, retransmit, buffer.outstanding_bytes())
            }
        };
        // After the end of the stream nothing follows, whatever was told.
        let declared = match s.send.is_writable() {
            true => s.send.buffer.declared().min(MAX_DECLARED),
            false => 0,
        };
        let awaits = s.awaits_answer();
        self.shares += s.uncounted_shares();
        if s.treatment.class == StreamClass::Interactive
            && s.listed.unscheduled == 0
            && unscheduled > 0
        {
            s.restart_count();
            if let Some(place) = s.listed.queued.take() {
                self.ready.remove(place);
            }
        }
        let is_end = s.send.is_end();
        let listed = &mut s.listed;
        self.awaiting = self.awaiting + usize::from(awaits) - usize::from(listed.awaits);
        listed.awaits = awaits;
        if let Some(group) = self.ready.group(s.treatment.paths) {
            group.unscheduled = group.unscheduled - listed.unscheduled + unscheduled;
            group.retransmit = group.retransmit - listed.retransmit + retransmit;
            group.outstanding = group.outstanding - listed.outstanding + outstanding;
            group.declared = group.declared - listed.declared + declared;
            match is_end {
                _ if is_end == listed.is_end => {}
                true => drop(group.ends.insert(id)),
                false => drop(group.ends.remove(&id)),
            }
        }
        if listed.blocked && !std::mem::replace(&mut listed.touched, true) {
            self.touched.push(id);
        }
        listed.is_end = is_end;
        listed.unscheduled = unscheduled;
        listed.retransmit = retransmit;
        listed.outstanding = outstanding;
        listed.declared = declared;
        if listed.queued.is_none() && s.send.is_sendable() {
            let rank = rank_of(self.order, s.treatment.class, s.served);
            listed.queued = Some(self.ready.push(&s.treatment, rank, id));
        }
    }

    /// Bytes that no subflow has been given, and those to be sent again; without those of parked
    /// streams.
    pub(super) fn unscheduled(&self) -> u64 {
        self.ready.open().map(|group| group.unscheduled).sum()
    }

    /// Bytes that are known to follow those, as applications have told; without those of parked
    /// streams.
    pub(super) fn declared(&self) -> u64 {
        self.ready.open().map(|group| group.declared).sum()
    }

    /// Unscheduled bytes with those of parked streams.
    pub(super) fn unscheduled_in_all(&self) -> u64 {
        self.ready.all().map(|group| group.unscheduled).sum()
    }

    /// Those of streams that share a path with this set.
    pub(super) fn unscheduled_beside(&self, paths: PathSet) -> u64 {
        let groups = self.ready.open_beside(paths);
        groups.map(|group| group.unscheduled).sum()
    }

    /// Those of ranks before this one among them.
    pub(super) fn unscheduled_before(&self, rank: usize, paths: PathSet) -> u64 {
        let ids = (0..rank).flat_map(|rank| {
            let groups = self.ready.open_beside(paths);
            groups
                .flat_map(move |group| group.ids_in(rank))
                .take(MAX_COUNTED)
        });
        ids.filter_map(|id| Some(self.get(id)?.listed.unscheduled))
            .sum()
    }

    /// Bytes to be sent again; without those of parked streams.
    pub(super) fn retransmit_bytes(&self) -> u64 {
        self.ready.open().map(|group| group.retransmit).sum()
    }

    /// Bytes that streams of this set may add to `credit` bytes of the peer's session window, of
    /// which others are outstanding.
    ///
    /// Streams with sets keep to half of the window. Their bytes may be lost with a path, and hold
    /// the window until it is back: with more than three quarters the peer, which grants a quarter
    /// at a time, would never grant more, and all streams would stop.
    pub(super) fn credit_for(&self, paths: PathSet, credit: u64) -> u64 {
        if paths.is_all() {
            return credit;
        }
        let outstanding = |groups: &mut dyn Iterator<Item = &Group>| {
            groups.map(|group| group.outstanding).sum::<u64>()
        };
        let with_sets = self.ready.all().filter(|group| !group.paths().is_all());
        let window = credit.saturating_add(outstanding(&mut self.ready.all()));
        credit.min((window / 2).saturating_sub(outstanding(&mut { with_sets })))
    }

    /// Whether a stream of this set has something that may go, as far as `credit` bytes of the
    /// peer's session window let it.
    pub(super) fn may_send(&self, paths: PathSet, credit: u64) -> bool {
        let mut groups = self.ready.open().filter(|group| group.paths() == paths);
        groups.any(|group| {
            group.retransmit > 0
                || !group.ends.is_empty()
                || group.unscheduled > 0 && self.credit_for(paths, credit) > 0
        })
    }

    /// Bytes kept until the peer has them.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Those of streams that are not parked.
    pub(super) fn held_open(&self) -> u64 {
        self.ready.open().map(|group| group.held).sum()
    }

    /// Whether the peer owes an answer on any stream.
    pub(super) fn await_answer(&self) -> bool {
        self.awaiting > 0
    }

    // ---- something to send ----------------------------------------------------------------

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Streams with something to send, in their order.
    pub(super) fn ready_ids(&self) -> impl Iterator<Item = StreamId> {
        self.ready.ids()
    }

    /// Accounts for bytes given on a path to a stream that was taken out of a rank, and puts it
    /// into its rank if it has more to send. Returns that rank, and the restarts of its count.
    pub(super) fn requeue(
        &mut self,
        from: usize,
        id: StreamId,
        on: Option<PathNumber>,
        bytes: u64,
    ) -> (usize, u32) {
        let (mut now, mut restarts, mut of) = (from, 0, (PathSet::ALL, 0));
        if let Some(s) = self.table.get_mut(&id) {
            s.served = s.served.saturating_add(bytes);
            now = rank_of(self.order, s.treatment.class, s.served);
            let more = s.send.is_sendable();
            s.listed.queued = more.then(|| self.ready.push(&s.treatment, now, id));
            restarts = s.restarts;
            of = (s.treatment.paths, s.treatment.priority);
        }
        self.ready.served(of, on, from, bytes);
        (now, restarts)
    }

    /// Puts a stream that was taken out of a rank, and given nothing, at the end of that rank.
    pub(super) fn put_back(&mut self, rank: usize, id: StreamId) {
        if let Some(s) = self.table.get_mut(&id) {
            s.listed.queued = Some(self.ready.push(&s.treatment, rank, id));
        }
    }

    /// Bytes have come from the client's application: a new request, if all that this end has sent
    /// has arrived, which makes the stream young again. For a proxy, these are bytes of the primary
    /// while nothing is on its way there. For a primary, these are bytes that the application
    /// writes when all that it wrote before has arrived: an upload that pauses for a round trip is
    /// young again.
    pub(super) fn asked(&mut self, id: StreamId) {
        if let Some(s) = self.table.get_mut(&id)
            && s.send.buffer.all_acked()
        {
            s.restart_count();
        }
    }

    /// Gives a stream another treatment, and its place among the streams of that treatment.
    pub(super) fn treat(&mut self, id: StreamId, treatment: Treatment) {
        let stream = self.table.get_mut(&id);
        if let Some(s) = stream.filter(|s| s.treatment != treatment) {
            let old = std::mem::replace(&mut s.treatment, treatment);
            if let Some(place) = s.listed.queued.take() {
                self.ready.remove(place);
            }
            if old.paths != treatment.paths {
                self.regroup(id, old.paths, treatment.paths);
            }
            self.update(id);
        }
    }

    /// Moves a stream to the group of another set of paths.
    fn regroup(&mut self, id: StreamId, from: PathSet, to: PathSet) {
        let Some(s) = self.table.get(&id) else {
            return;
        };
        let (listed, held) = (&s.listed, s.send.buffer.held_bytes());
        let has_open = s.opening.wanted;
        // The ends of a stream need none of its paths.
        let is_wanted = |signal: Signal| signal.state == SignalState::Wanted;
        let has_end = s.send.reset.is_some_and(is_wanted) || s.recv.stop.is_some_and(is_wanted);
        let (mut signals, mut is_blocked, mut is_end) = (false, false, false);
        if let Some(group) = self.ready.group(from) {
            group.unscheduled -= listed.unscheduled;
            group.retransmit -= listed.retransmit;
            group.outstanding -= listed.outstanding;
            group.declared -= listed.declared;
            group.held -= held;
            signals = group.signalling.remove(id);
            is_blocked = group.blocked.remove(&id);
            is_end = group.ends.remove(&id);
        }
        self.ready.leave(from);
        self.ready.enter(to);
        if let Some(group) = self.ready.group(to) {
            group.unscheduled += listed.unscheduled;
            group.retransmit += listed.retransmit;
            group.outstanding += listed.outstanding;
            group.declared += listed.declared;
            group.held += held;
            if signals {
                group.signalling.push(id, has_open);
            }
            group.blocked.extend(is_blocked.then_some(id));
            group.ends.extend(is_end.then_some(id));
        }
        if has_end {
            self.signal_end(id);
        }
    }

    // ---- writing --------------------------------------------------------------------------

    /// Gives a stream bytes to send; they are dropped when its sending half is over.
    pub(super) fn write(&mut self, id: StreamId, bytes: Bytes) {
        if let Some(s) = self.table.get_mut(&id).filter(|s| s.send.is_writable()) {
            let len = bytes.len() as u64;
            self.held += len;
            if let Some(group) = self.ready.group(s.treatment.paths) {
                group.held += len;
            }
            s.send.buffer.write(bytes);
            s.wrote_last = true;
            self.update(id);
        }
    }

    /// Gives up the sending half of a stream, unless it is over. Returns whether it was not.
    pub(super) fn reset(&mut self, id: StreamId, code: ResetCode) -> bool {
        let Some(s) = self.table.get_mut(&id).filter(|s| !s.send.is_over()) else {
            return false;
        };
        let held = s.send.buffer.held_bytes();
        self.held -= held;
        if let Some(group) = self.ready.group(s.treatment.paths) {
            group.held -= held;
        }
        s.send.buffer.clear();
        s.send.reset = Some(Signal::wanted(code));
        self.update(id);
        self.leave_queue(id);
        self.signal_end(id);
        true
    }

    /// Takes a stream with nothing to send out of its queue: what waits in a queue keeps the ends
    /// of transfers from being hedged, and a primary from asking whether its paths work.
    fn leave_queue(&mut self, id: StreamId) {
        if let Some(s) = self.table.get_mut(&id)
            && !s.send.is_sendable()
            && let Some(place) = s.listed.queued.take()
        {
            self.ready.remove(place);
        }
    }

    /// Bytes of a stream are to be sent again, over any subflow but `origin`, which carries them
    /// still; so is FIN. Returns how many bytes these are.
    pub(super) fn retransmit(
        &mut self,
        id: StreamId,
        range: Range<u64>,
        fin: bool,
        origin: Option<SubflowId>,
        cause: Cause,
    ) -> u64 {
        let Some(s) = self.table.get_mut(&id).filter(|s| s.send.reset.is_none()) else {
            return 0;
        };
        let bytes = s.send.buffer.retransmit(range, origin, cause);
        if fin && !s.send.fin_acked {
            s.send.fin_wanted = true;
        }
        self.update(id);
        bytes
    }

    /// Bytes of a stream have arrived, and FIN if so said.
    pub(super) fn acked(&mut self, id: StreamId, range: Range<u64>, fin: bool) {
        let Some(s) = self.table.get_mut(&id) else {
            return;
        };
        if fin {
            s.send.fin_acked = true;
            s.send.fin_wanted = false;
        }
        let gone = s.send.buffer.ack(range);
        self.held -= gone;
        if let Some(group) = self.ready.group(s.treatment.paths) {
            group.held -= gone;
        }
        self.update(id);
        self.leave_queue(id);
    }

    /// The session is over: every half of a stream is reset that has not arrived completely.
    /// Returns all streams, ascending.
    pub(super) fn lose(&mut self) -> Vec<StreamId> {
        self.held = 0;
        self.awaiting = 0;
        self.ready.clear();
        self.touched.clear();
        for s in self.table.values_mut() {
            let receiving = Listed {
                granted: s.listed.granted,
                stalled: s.listed.stalled,
                shares: s.listed.shares,
                ..Listed::default()
            };
            s.listed = receiving;
            s.lose();
            self.ready.enter(s.treatment.paths);
        }
        self.ids()
    }
}

#[cfg(test)]
mod tests {
    use mpbond_units::Timestamp;

    use super::*;

    const A: SubflowId = SubflowId(1);

    pub(super) fn streams(count: u64) -> Streams {
        let mut streams = Streams::new();
        for _ in 0..count {
            let mut s = Stream::new(StreamClass::Bulk, None, Timestamp::ZERO, 1_000);
            s.send.max_offset = 1_000_000;
            streams.open(s);
        }
        streams
    }

    pub(super) fn take(streams: &mut Streams, id: StreamId, bytes: u64) {
        let s = streams.get_mut(id).unwrap();
        s.send.buffer.take_new(bytes, u64::MAX).unwrap();
        streams.update(id);
    }

    fn pop(streams: &mut Streams, rank: usize) -> Option<StreamId> {
        let mut pass = streams.ready.pass(PathSet::ALL, rank);
        streams.ready.pop(&mut pass)
    }

    #[test]
    fn sums_follow_what_happens_to_streams() {
        let mut all = streams(2);
        let (a, b) = (StreamId(0), StreamId(1));
        all.write(a, Bytes::from(vec![0; 100]));
        all.write(b, Bytes::from(vec![0; 10]));
        assert_eq!((all.unscheduled(), all.held()), (110, 110));
        assert!(all.await_answer());
        take(&mut all, a, 100);
        assert_eq!((all.unscheduled(), all.held()), (10, 110));
        assert_eq!(all.retransmit(a, 20..50, false, Some(A), Cause::Probed), 30);
        assert_eq!((all.unscheduled(), all.retransmit_bytes()), (40, 30));
        all.acked(a, 0..40, false);
        assert_eq!((all.unscheduled(), all.held()), (20, 70));
        assert!(all.reset(a, ResetCode::Cancelled));
        assert!(!all.reset(a, ResetCode::Cancelled));
        assert_eq!((all.unscheduled(), all.held()), (10, 10));
        assert_eq!(all.retransmit(a, 40..50, false, None, Cause::Lost), 0);
        assert_eq!(all.lose(), [a, b]);
        assert_eq!((all.unscheduled(), all.held()), (0, 0));
    }

    #[test]
    fn a_stream_stands_in_its_queue_once_and_in_turn() {
        let mut all = streams(2);
        let (a, b) = (StreamId(0), StreamId(1));
        for id in [a, b, a] {
            all.write(id, Bytes::from_static(b"x"));
        }
        assert_eq!(all.ready_ids().collect::<Vec<_>>(), [a, b]);
        assert_eq!(pop(&mut all, 2), Some(a));
        all.requeue(2, a, None, 1);
        assert_eq!(all.ready_ids().collect::<Vec<_>>(), [b, a]);
        take(&mut all, b, 1);
        assert_eq!(pop(&mut all, 2), Some(b));
        all.requeue(2, b, None, 1);
        assert_eq!(all.ready_ids().collect::<Vec<_>>(), [a]);
    }

    #[test]
    fn a_stream_with_nothing_left_to_send_stands_in_no_queue() {
        let mut all = streams(2);
        let (a, b) = (StreamId(0), StreamId(1));
        all.write(a, Bytes::from_static(b"x"));
        all.reset(a, ResetCode::Cancelled);
        assert!(!all.has_ready());
        // A copy waits, and the bytes arrive by the first subflow before it is sent.
        all.write(b, Bytes::from_static(b"xy"));
        take(&mut all, b, 2);
        assert_eq!(pop(&mut all, 2), Some(b));
        all.requeue(2, b, None, 2);
        all.retransmit(b, 0..2, false, Some(A), Cause::Probed);
        assert!(all.has_ready());
        all.acked(b, 0..2, false);
        assert!(!all.has_ready());
    }

    /// What waits to be written for a stream that is over goes with it, while its path is gone and
    /// nothing is written.
    #[test]
    fn a_stream_that_is_over_waits_for_no_path() {
        let mut all = streams(1);
        let elsewhere = Treatment {
            paths: PathSet::of(PathNumber::new(1)).unwrap(),
            ..StreamClass::Bulk.into()
        };
        all.treat(StreamId(0), elsewhere);
        for _ in 0..10_000 {
            let mut s = Stream::new(elsewhere, None, Timestamp::ZERO, 1_000);
            s.recv.end_read = true;
            s.recv.reset = Some(ResetCode::Cancelled);
            let id = all.open(s);
            all.reset(id, ResetCode::Cancelled);
            all.signal(id);
            let reset = all.get_mut(id).and_then(|s| s.send.reset.as_mut());
            reset.unwrap().state = SignalState::Acked;
            assert!(all.remove_if_done(id).is_some());
        }
        let group = all.ready.group(elsewhere.paths).unwrap();
        assert!(group.signalling.is_empty());
    }

    #[test]
    fn an_end_that_is_not_written_yet_needs_no_path_of_a_set_that_comes() {
        let mut all = streams(1);
        all.reset(StreamId(0), ResetCode::Cancelled);
        let elsewhere = Treatment {
            paths: PathSet::of(PathNumber::new(1)).unwrap(),
            ..StreamClass::Bulk.into()
        };
        all.treat(StreamId(0), elsewhere);
        assert!(!all.ready.group(PathSet::ALL).unwrap().signalling.is_empty());
    }

    #[test]
    fn a_stream_that_changes_its_class_stands_in_one_queue() {
        let mut all = streams(3);
        let (a, b, c) = (StreamId(0), StreamId(1), StreamId(2));
        for id in [a, b, c] {
            all.write(id, Bytes::from_static(b"x"));
        }
        all.treat(a, StreamClass::Bulk.into());
        assert_eq!(all.ready_ids().collect::<Vec<_>>(), [a, b, c]);
        for _ in 0..1_000 {
            all.treat(b, StreamClass::Background.into());
            assert_eq!(all.ready_ids().collect::<Vec<_>>(), [a, c, b]);
            all.treat(b, StreamClass::Realtime.into());
            assert_eq!(all.ready_ids().collect::<Vec<_>>(), [b, a, c]);
        }
        assert_eq!(pop(&mut all, 0), Some(b));
        all.put_back(0, b);
        all.treat(b, StreamClass::Bulk.into());
        assert_eq!(all.ready_ids().collect::<Vec<_>>(), [a, c, b]);
        assert_eq!(all.ready.len(), 3);
    }
}
