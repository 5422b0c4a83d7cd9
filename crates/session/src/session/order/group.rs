//! Streams with the same set of paths: those with something to send, by rank, and their sums.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use super::rank::RANKS;
use super::signalling::Signalling;
use crate::treatment::Treatment;
use crate::{PathSet, StreamId};

/// Place in the queue of a rank: higher priorities first, then the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Turn(u64);

impl Turn {
    /// Bits of the number: one for each stream that was ever added to a queue of the session.
    const NUMBER_BITS: u32 = 60;

    pub(super) fn new(priority: u8, number: u64) -> Self {
        let behind = Treatment::MAX_PRIORITY.saturating_sub(priority);
        Self(u64::from(behind) << Self::NUMBER_BITS | number)
    }

    pub(super) fn number(self) -> u64 {
        self.0 & ((1 << Self::NUMBER_BITS) - 1)
    }

    pub(super) fn without_priority(self) -> Self {
        Self(self.number())
    }

    pub(super) fn priority(self) -> u8 {
        Treatment::MAX_PRIORITY - (self.0 >> Self::NUMBER_BITS) as u8
    }
}

/// Ranks behind the first are given one byte in so many.
pub(super) const SHARE: u64 = 8;

/// Bytes that they are given at a time: a record.
pub(super) const SLICE: u64 = 16 << 10;

/// Bytes that others were given on the paths of a group while streams of it waited that go behind
/// them, less those that these have been given for it.
#[derive(Debug, Default)]
pub(super) struct Ahead(u64);

impl Ahead {
    /// A stream was given bytes: of this group, in its turn before others or not, or of another
    /// one. `sharers` groups have streams behind it, and share an eighth.
    pub(super) fn served(
        &mut self,
        (bytes, sharers): (u64, usize),
        of_group: bool,
        is_turn: bool,
        has_behind: bool,
    ) {
        if is_turn {
            self.0 = self.0.saturating_sub(bytes.saturating_mul(SHARE - 1));
        } else if has_behind {
            // Bounded: these bytes may go where the streams behind cannot.
            let bytes = bytes.div_ceil(sharers.max(1) as u64);
            self.0 = (self.0 + bytes).min(SHARE * SLICE);
        } else if of_group {
            self.0 = 0;
        }
    }

    /// Whether those behind have their turn.
    pub(super) fn is_enough(&self) -> bool {
        self.0 >= (SHARE - 1) * SLICE
    }
}

/// One pass over the streams of a rank, each of which is taken once.
#[derive(Debug)]
pub(in crate::session) struct Pass {
    pub(super) paths: PathSet,
    pub(super) rank: usize,
    /// Streams that are added during the pass have this number or a higher one.
    pub(super) before: u64,
    /// The stream that waits longest is taken first, whatever its priority.
    pub(super) oldest_first: bool,
    pub(super) last: Option<Turn>,
}

/// Streams of one set of paths.
#[derive(Debug)]
pub(in crate::session) struct Group {
    pub(super) paths: PathSet,
    /// A subflow of the set works, or may carry data where none works. Otherwise its streams are
    /// parked: they count nowhere among what waits.
    pub(super) is_open: bool,
    /// Number of streams.
    pub(super) streams: usize,
    /// Streams with something to send, by rank. A peer may have any of them removed, whatever their
    /// number: maps bound the work.
    queues: [BTreeMap<Turn, StreamId>; RANKS],
    /// Ranks in which streams wait: bit n for rank n.
    waiting: u8,
    /// Of earlier ranks, before later ones of this group.
    pub(super) ahead: Ahead,
    /// Of the ranks behind others, the one that had its turn last.
    pub(super) last_behind: usize,
    /// Of the higher priorities in each rank, before lower ones of this group.
    pub(super) ahead_in_rank: [Ahead; RANKS],
    /// Streams with OPEN, CONNECTED, CLASS, RESET, STOP, MAX_STREAM_DATA or CHUNK to
    /// write.
    pub(in crate::session) signalling: Signalling,
    /// Streams of which only the end, a FIN without bytes, waits to be sent.
    pub(in crate::session) ends: BTreeSet<StreamId>,
    /// Streams whose application waits for memory to write.
    pub(in crate::session) blocked: BTreeSet<StreamId>,
    /// Unscheduled bytes: the meta buffer (MPBond section 4.3.3).
    pub(in crate::session) unscheduled: u64,
    /// Bytes to be sent again, among those.
    pub(in crate::session) retransmit: u64,
    /// Bytes that subflows were given, from the first one of each stream on that has not arrived.
    pub(in crate::session) outstanding: u64,
    /// Bytes that are known to follow the unscheduled ones, by ends of chunks.
    pub(in crate::session) declared: u64,
    /// Bytes kept for sending.
    pub(in crate::session) held: u64,
}

const _: () = assert!(RANKS <= u8::BITS as usize);

impl Group {
    pub(super) fn new(paths: PathSet, is_open: bool) -> Self {
        Self {
            paths,
            is_open,
            streams: 0,
            queues: Default::default(),
            waiting: 0,
            ahead: Ahead::default(),
            last_behind: 0,
            ahead_in_rank: Default::default(),
            signalling: Signalling::default(),
            ends: BTreeSet::new(),
            blocked: BTreeSet::new(),
            unscheduled: 0,
            retransmit: 0,
            outstanding: 0,
            declared: 0,
            held: 0,
        }
    }

    pub(in crate::session) fn paths(&self) -> PathSet {
        self.paths
    }

    pub(in crate::session) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(in crate::session) fn has_streams(&self) -> bool {
        self.streams > 0
    }

    pub(super) fn waiting(&self) -> u8 {
        self.waiting
    }

    pub(super) fn waits_in(&self, rank: usize) -> bool {
        self.waiting >> rank & 1 != 0
    }

    /// Whether lower priorities have their turn in a rank.
    pub(super) fn oldest_first(&self, rank: usize) -> bool {
        self.ahead_in_rank[rank].is_enough()
    }

    pub(super) fn push(&mut self, rank: usize, turn: Turn, id: StreamId) {
        self.queues[rank].insert(turn, id);
        self.waiting |= 1 << rank;
    }

    pub(super) fn remove(&mut self, rank: usize, turn: Turn) -> Option<StreamId> {
        let removed = self.queues[rank].remove(&turn);
        if self.queues[rank].is_empty() {
            self.waiting &= !(1 << rank);
        }
        removed
    }

    /// Takes the next stream of a pass out of its queue.
    pub(super) fn pop(&mut self, pass: &mut Pass) -> Option<StreamId> {
        let turn = match std::mem::take(&mut pass.oldest_first) {
            true => self.oldest(pass.rank)?,
            false => {
                let next = self.next(pass)?;
                pass.last = Some(next);
                next
            }
        };
        self.remove(pass.rank, turn)
    }

    fn next(&self, pass: &Pass) -> Option<Turn> {
        let queue = &self.queues[pass.rank];
        let mut next = match pass.last {
            None => queue.first_key_value(),
            Some(last) => queue.range((Excluded(last), Unbounded)).next(),
        };
        while let Some((turn, _)) = next {
            if turn.number() < pass.before {
                return Some(*turn);
            }
            // What follows of this priority was added during the pass, too.
            let below = turn.priority().checked_sub(1)?;
            next = queue.range(Turn::new(below, 0)..).next();
        }
        None
    }

    /// The first of a rank, by priority.
    pub(super) fn first(&self, rank: usize) -> Option<Turn> {
        self.queues[rank].first_key_value().map(|(turn, _)| *turn)
    }

    /// The last of a rank, by priority.
    pub(super) fn last(&self, rank: usize) -> Option<Turn> {
        self.queues[rank].last_key_value().map(|(turn, _)| *turn)
    }

    /// The one that has waited longest in a rank.
    pub(super) fn oldest(&self, rank: usize) -> Option<Turn> {
        let of = |priority| {
            let queue = self.queues[rank].range(Turn::new(priority, 0)..);
            queue.map(|(turn, _)| *turn).next()
        };
        (0..=Treatment::MAX_PRIORITY)
            .filter_map(of)
            .min_by_key(|turn| turn.number())
    }

    /// Number of streams with something to send in this rank and those before it.
    pub(super) fn len_through(&self, rank: usize) -> usize {
        self.queues[..=rank].iter().map(BTreeMap::len).sum()
    }

    pub(in crate::session) fn ids_in(&self, rank: usize) -> impl Iterator<Item = StreamId> {
        self.queues[rank].values().copied()
    }
}
