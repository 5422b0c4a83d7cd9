//! Order in which streams with something to send are served: by class, and within the classes
//! interactive and bulk by attained service, so that a short answer, whose size is not known,
//! passes long transfers.
//!
//! A stream is in a *rank*. Ranks are served in their order, the streams of a rank in turn. A bulk
//! stream begins young, in the first rank of its class, and falls by the bytes that it is given
//! since its last request: a multi-level feedback queue, as PIAS (NSDI '15) has it for flows. An
//! interactive stream falls by the bytes that it is given since bytes of it began to wait. Ranks
//! behind the first one that waits keep an eighth, in turn, so that no stream waits for ever
//! (ADR 0024).

mod rank;

use std::collections::BTreeMap;

use crate::StreamId;
use rank::is_delay_sensitive;
pub(super) use rank::{RANKS, is_short_exchange, rank};

/// Ranks behind the first are given one byte in so many.
const SHARE: u64 = 8;

/// Bytes that they are given at a time: a record.
const SLICE: u64 = 16 << 10;

/// Place of a stream in the queue of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    rank: usize,
    turn: u64,
}

/// Streams with something to send, by rank.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Streams by their turn. A peer may have any of them removed, whatever their number: maps
    /// bound the work.
    queues: [BTreeMap<u64, StreamId>; RANKS],
    /// Turn of the next stream that is added.
    turn: u64,
    /// Bytes that the first waiting rank was given while others waited, less those that the others
    /// have been given for them.
    ahead: u64,
    /// Of the ranks behind the first, the one that had its turn last.
    last: usize,
}

impl Order {
    /// Ranks in the order in which the next record is filled from them.
    pub(super) fn ranks(&self) -> impl Iterator<Item = usize> + use<> {
        self.due().into_iter().chain(0..RANKS)
    }

    /// The rank behind the first whose turn it is to go before it, if one does.
    fn due(&self) -> Option<usize> {
        if self.ahead < (SHARE - 1) * SLICE {
            return None;
        }
        let first = self.waiting().next()?;
        let behind = || self.waiting().filter(|rank| *rank > first);
        // From the last one up, then again from the last one.
        let next = behind().filter(|rank| *rank < self.last).last();
        next.or_else(|| behind().last())
    }

    fn waiting(&self) -> impl Iterator<Item = usize> {
        (0..RANKS).filter(|rank| !self.queues[*rank].is_empty())
    }

    /// A rank was given bytes. Its streams are in their queues again.
    pub(super) fn served(&mut self, rank: usize, bytes: u64) {
        let is_behind = self.queues[..rank].iter().any(|queue| !queue.is_empty());
        let has_behind = self.queues[rank + 1..]
            .iter()
            .any(|queue| !queue.is_empty());
        if is_behind {
            self.ahead = self.ahead.saturating_sub(bytes.saturating_mul(SHARE - 1));
            self.last = rank;
        } else if has_behind {
            // Bounded: these bytes may go where the streams behind cannot.
            self.ahead = (self.ahead + bytes).min(SHARE * SLICE);
        } else {
            self.ahead = 0;
        }
    }

    /// Adds a stream at the end of a rank.
    pub(super) fn push(&mut self, rank: usize, id: StreamId) -> Place {
        let turn = self.turn;
        self.turn += 1;
        self.queues[rank].insert(turn, id);
        Place { rank, turn }
    }

    pub(super) fn pop(&mut self, rank: usize) -> Option<StreamId> {
        self.queues[rank].pop_first().map(|(_, id)| id)
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.queues[place.rank].remove(&place.turn);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting().next().is_none()
    }

    /// Whether a stream of a delay-sensitive class waits.
    pub(super) fn has_delay_sensitive(&self) -> bool {
        self.waiting().any(is_delay_sensitive)
    }

    /// Whether a short exchange waits.
    pub(super) fn has_short_exchanges(&self) -> bool {
        self.waiting().next().is_some_and(is_short_exchange)
    }

    /// Whether short exchanges wait, and a transfer has its turn before them.
    pub(super) fn transfer_is_due(&self) -> bool {
        self.has_short_exchanges() && self.due().is_some_and(|rank| !is_short_exchange(rank))
    }

    /// Whether something behind short exchanges waits.
    pub(super) fn has_transfers(&self) -> bool {
        self.waiting().any(|rank| !is_short_exchange(rank))
    }

    /// Number of streams.
    pub(super) fn len(&self) -> usize {
        self.len_through(RANKS - 1)
    }

    /// Number of streams in this rank and those before it.
    pub(super) fn len_through(&self, rank: usize) -> usize {
        self.queues[..=rank].iter().map(BTreeMap::len).sum()
    }

    pub(super) fn len_in(&self, rank: usize) -> usize {
        self.queues[rank].len()
    }

    /// All streams, in the order in which they are served but for shares.
    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> {
        self.queues.iter().flat_map(BTreeMap::values).copied()
    }

    pub(super) fn ids_in(&self, rank: usize) -> impl Iterator<Item = StreamId> {
        self.queues[rank].values().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An interactive transfer is one, and its class is sensitive to delay nevertheless.
    #[test]
    fn ranks_of_short_exchanges_and_of_classes_that_are_sensitive_to_delay() {
        for of in 0..RANKS {
            let mut order = Order::default();
            order.push(of, StreamId(0));
            assert_eq!(order.has_short_exchanges(), of <= 2, "{of}");
            assert_eq!(order.has_transfers(), of > 2, "{of}");
            assert_eq!(order.has_delay_sensitive(), [0, 1, 3].contains(&of), "{of}");
            // Whatever waits before it.
            order.push(2, StreamId(1));
            assert_eq!(order.has_delay_sensitive(), [0, 1, 3].contains(&of), "{of}");
        }
    }

    #[test]
    fn streams_of_a_rank_are_served_in_turn() {
        let mut order = Order::default();
        for n in 0..3 {
            order.push(5, StreamId(n));
        }
        let next = |order: &mut Order| {
            let rank = order.ranks().find(|rank| order.len_in(*rank) > 0).unwrap();
            let id = order.pop(rank).unwrap();
            order.push(rank, id);
            order.served(rank, SLICE);
            id.0
        };
        let turns: Vec<_> = (0..7).map(|_| next(&mut order)).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn bytes_given_while_no_other_rank_waits_are_not_counted() {
        let mut order = Order::default();
        order.push(2, StreamId(0));
        order.served(2, 1 << 30);
        let place = order.push(5, StreamId(1));
        assert_eq!(order.ranks().next(), Some(0));
        order.served(2, 7 * SLICE);
        assert_eq!(order.ranks().next(), Some(5));
        order.remove(place);
        assert_eq!(order.ranks().next(), Some(0));
    }

    proptest! {
        /// However many ranks wait and whatever is served at a time: the first has seven eighths,
        /// the others have their turns one after another, and no rank waits longer than its share
        /// says.
        #[test]
        fn the_first_has_seven_eighths_and_no_other_starves(
            ranks in proptest::collection::btree_set(0..RANKS, 2..=RANKS),
            records in proptest::collection::vec(1..=SLICE, 4_000..5_000),
        ) {
            let mut order = Order::default();
            for rank in &ranks {
                order.push(*rank, StreamId(*rank as u64));
            }
            let (mut given, mut turns) = ([0; RANKS], [0_u64; RANKS]);
            // Bytes that others are given between two turns of a rank: the most, and where its last
            // turn ended.
            let (mut gap, mut ended) = ([0; RANKS], [0; RANKS]);
            let mut total = 0_u64;
            for bytes in records {
                let rank = order.ranks().find(|rank| order.len_in(*rank) > 0).unwrap();
                order.served(rank, bytes);
                gap[rank] = gap[rank].max(total - ended[rank]);
                given[rank] += bytes;
                turns[rank] += 1;
                total += bytes;
                ended[rank] = total;
            }
            let first = *ranks.first().unwrap();
            let behind = ranks.len() as u64 - 1;
            prop_assert!(given[first].abs_diff(total / SHARE * (SHARE - 1)) <= SLICE + SHARE);
            prop_assert!(gap[first] <= 2 * SLICE, "{gap:?}");
            let others = || ranks.iter().copied().filter(|rank| *rank != first);
            let most = others().map(|rank| turns[rank]).max().unwrap();
            for rank in others() {
                prop_assert!(turns[rank] + 1 >= most, "{rank}: {turns:?}");
                let gap = gap[rank].max(total - ended[rank]);
                prop_assert!(gap <= (SHARE + 1) * SLICE * behind, "{rank}: {gap}");
            }
        }
    }
}
