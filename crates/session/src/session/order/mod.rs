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
//!
//! Streams with the same set of paths form a *group* ([`Group`]), and a record is filled from one.
//! A group is open while a subflow of its set works, or may carry data where none works; streams of
//! the others are *parked*.
//! Without sets there is one group, of all streams, which is always open. In a rank, streams of a
//! higher priority are served first, and an eighth goes by the turns alone.

mod group;
mod rank;

use std::cmp::Ordering;

use crate::treatment::Treatment;
use crate::{PathNumber, PathSet, StreamId};
use group::Turn;
pub(super) use group::{Group, Pass};
use rank::is_delay_sensitive;
pub(super) use rank::{RANKS, is_short_exchange, rank};

/// Ranks behind the first are given one byte in so many.
const SHARE: u64 = 8;

/// Bytes that they are given at a time: a record.
const SLICE: u64 = 16 << 10;

/// Place of a stream in the queue of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    paths: PathSet,
    rank: usize,
    turn: Turn,
}

/// Bytes that some were given while others waited that go behind them, less those that the others
/// have been given for them.
#[derive(Debug, Default)]
struct Ahead(u64);

impl Ahead {
    fn served(&mut self, bytes: u64, is_behind: bool, has_behind: bool) {
        if is_behind {
            self.0 = self.0.saturating_sub(bytes.saturating_mul(SHARE - 1));
        } else if has_behind {
            // Bounded: these bytes may go where the streams behind cannot.
            self.0 = (self.0 + bytes).min(SHARE * SLICE);
        } else {
            self.0 = 0;
        }
    }

    /// Whether those behind have their turn.
    fn is_enough(&self) -> bool {
        self.0 >= (SHARE - 1) * SLICE
    }
}

/// All streams by their sets of paths, and those with something to send by rank.
#[derive(Debug)]
pub(super) struct Order {
    /// The group of all paths first.
    groups: Vec<Group>,
    /// Numbered paths of the subflows that work, or if none does, of those that may carry data.
    carrying: Option<PathSet>,
    /// Number of the next stream that is added to a queue.
    turn: u64,
    /// Of the first waiting rank, before the others.
    ahead: Ahead,
    /// Of the ranks behind the first, the one that had its turn last.
    last: usize,
    /// Whether a stream had a priority yet.
    has_priorities: bool,
    /// Of the higher priorities in each rank, before the lower ones.
    ahead_in_rank: [Ahead; RANKS],
}

impl Default for Order {
    fn default() -> Self {
        Self {
            groups: vec![Group::new(PathSet::ALL, true)],
            carrying: None,
            turn: 0,
            ahead: Ahead::default(),
            last: 0,
            has_priorities: false,
            ahead_in_rank: Default::default(),
        }
    }
}

impl Order {
    // ---- groups ---------------------------------------------------------------------------

    /// Sets the numbered paths of the subflows that open a group. Returns whether a group has
    /// been opened or closed by that.
    pub(super) fn set_carrying(&mut self, carrying: Option<PathSet>) -> bool {
        self.carrying = carrying;
        let mut changed = false;
        for i in 0..self.groups.len() {
            let is_open = self.is_open(self.groups[i].paths);
            let was_open = std::mem::replace(&mut self.groups[i].is_open, is_open);
            changed |= is_open != was_open;
        }
        changed
    }

    /// Whether a group of these paths is open; that of all paths, also if no subflow is there.
    pub(super) fn is_open(&self, paths: PathSet) -> bool {
        paths.is_all() || self.carrying.is_some_and(|c| c.intersects(paths))
    }

    /// Number of sets that streams would have, without that of all paths, if one of the set `from`
    /// had the set `to`.
    pub(super) fn sets_with(&self, from: PathSet, to: PathSet) -> usize {
        let is_new = !self.groups.iter().any(|group| group.paths == to);
        let is_last = |group: &Group| group.paths == from && from != to && group.streams == 1;
        let leaves = !from.is_all() && self.groups.iter().any(is_last);
        self.groups.len() - 1 + usize::from(is_new) - usize::from(leaves)
    }

    /// A stream has this set of paths from now on.
    pub(super) fn enter(&mut self, paths: PathSet) {
        let is_open = self.is_open(paths);
        match self.group(paths) {
            Some(group) => group.streams += 1,
            None => {
                let mut group = Group::new(paths, is_open);
                group.streams = 1;
                self.groups.push(group);
            }
        }
    }

    /// A stream has this set of paths no longer.
    pub(super) fn leave(&mut self, paths: PathSet) {
        if let Some(group) = self.group(paths) {
            group.streams = group.streams.saturating_sub(1);
            if group.streams == 0 && !paths.is_all() {
                self.groups.retain(|group| group.paths != paths);
            }
        }
    }

    pub(super) fn group(&mut self, paths: PathSet) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.paths == paths)
    }

    /// Groups whose streams count among what waits.
    pub(super) fn open(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.is_open)
    }

    /// Open groups with streams that a subflow of this path may carry.
    pub(super) fn open_on(&self, path: Option<PathNumber>) -> impl Iterator<Item = &Group> {
        self.open().filter(move |group| group.paths.contains(path))
    }

    pub(super) fn open_on_mut(
        &mut self,
        path: Option<PathNumber>,
    ) -> impl Iterator<Item = &mut Group> {
        let groups = self.groups.iter_mut();
        groups.filter(move |group| group.is_open && group.paths.contains(path))
    }

    /// Open groups that share a path with this set.
    pub(super) fn open_beside(&self, paths: PathSet) -> impl Iterator<Item = &Group> {
        self.open()
            .filter(move |group| group.paths.intersects(paths))
    }

    /// All groups, also those that are not open.
    pub(super) fn all(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    /// Number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn nth(&self, n: usize) -> Option<&Group> {
        self.groups.get(n)
    }

    pub(super) fn nth_mut(&mut self, n: usize) -> Option<&mut Group> {
        self.groups.get_mut(n)
    }

    /// Whether any stream has a set of paths.
    pub(super) fn has_sets(&self) -> bool {
        self.groups.len() > 1
    }

    /// The set of paths whose streams are served next.
    pub(super) fn first_set(&self) -> PathSet {
        match self.has_sets() {
            true => self.sets(|_| true).first().copied(),
            false => None,
        }
        .unwrap_or(PathSet::ALL)
    }

    /// Sets of paths whose streams wait in a rank that `takes`, in the order in which they are
    /// served, then that of all paths.
    pub(super) fn sets(&self, takes: impl Fn(usize) -> bool) -> Vec<PathSet> {
        let mut sets = Vec::new();
        for rank in self.ranks().filter(|rank| takes(*rank)) {
            let oldest_first = self.oldest_first(rank);
            let place = |group: &Group| match oldest_first {
                true => group.oldest(rank).map(Turn::without_priority),
                false => group.first(rank),
            };
            let waiting = self.open().filter(|group| group.waits_in(rank));
            let mut waiting: Vec<_> = waiting.map(|group| (place(group), group.paths)).collect();
            waiting.sort_by_key(|(place, _)| *place);
            for (_, paths) in waiting {
                if !sets.contains(&paths) {
                    sets.push(paths);
                }
            }
        }
        if !sets.contains(&PathSet::ALL) {
            sets.push(PathSet::ALL);
        }
        sets
    }

    // ---- turns ----------------------------------------------------------------------------

    /// Ranks in the order in which the next record is filled from them.
    pub(super) fn ranks(&self) -> impl Iterator<Item = usize> + use<> {
        self.due().into_iter().chain(0..RANKS)
    }

    /// The rank behind the first whose turn it is to go before it, if one does.
    fn due(&self) -> Option<usize> {
        if !self.ahead.is_enough() {
            return None;
        }
        let first = self.waiting().next()?;
        let behind = || self.waiting().filter(|rank| *rank > first);
        // From the last one up, then again from the last one.
        let next = behind().filter(|rank| *rank < self.last).last();
        next.or_else(|| behind().last())
    }

    fn waiting(&self) -> impl Iterator<Item = usize> + use<> {
        let ranks = self.waiting_ranks();
        (0..RANKS).filter(move |rank| ranks >> rank & 1 != 0)
    }

    /// Ranks in which streams wait: bit n for rank n.
    fn waiting_ranks(&self) -> u8 {
        self.open().fold(0, |ranks, group| ranks | group.waiting())
    }

    /// A stream of this priority and rank was given bytes. It is in its queue again.
    pub(super) fn served(&mut self, rank: usize, priority: u8, bytes: u64) {
        let waiting = self.waiting_ranks();
        let is_behind = waiting & ((1 << rank) - 1) != 0;
        let has_behind = u32::from(waiting) >> (rank + 1) != 0;
        self.ahead.served(bytes, is_behind, has_behind);
        if is_behind {
            self.last = rank;
        }
        if self.has_priorities {
            let is = |turn: Option<Turn>, than| {
                turn.is_some_and(|t| t.priority().cmp(&priority) == than)
            };
            let is_behind = self
                .open()
                .any(|group| is(group.first(rank), Ordering::Greater));
            let has_behind = self
                .open()
                .any(|group| is(group.last(rank), Ordering::Less));
            self.ahead_in_rank[rank].served(bytes, is_behind, has_behind);
        }
    }

    /// Whether lower priorities have their turn in a rank.
    fn oldest_first(&self, rank: usize) -> bool {
        self.has_priorities && self.ahead_in_rank[rank].is_enough()
    }

    // ---- streams --------------------------------------------------------------------------

    /// Adds a stream at the end of its priority in a rank.
    pub(super) fn push(&mut self, treatment: &Treatment, rank: usize, id: StreamId) -> Place {
        let Treatment {
            paths, priority, ..
        } = *treatment;
        let turn = Turn::new(priority, self.turn);
        self.turn += 1;
        self.has_priorities |= priority > 0;
        if let Some(group) = self.group(paths) {
            group.push(rank, turn, id);
        }
        Place { paths, rank, turn }
    }

    /// A pass over the streams of a rank that wait now.
    pub(super) fn pass(&self, paths: PathSet, rank: usize) -> Pass {
        Pass {
            paths,
            rank,
            before: self.turn,
            oldest_first: self.oldest_first(rank),
            last: None,
        }
    }

    /// Takes the next stream of a pass out of its queue.
    pub(super) fn pop(&mut self, pass: &mut Pass) -> Option<StreamId> {
        self.group(pass.paths)?.pop(pass)
    }

    pub(super) fn remove(&mut self, place: Place) {
        if let Some(group) = self.group(place.paths) {
            group.remove(place.rank, place.turn);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting_ranks() == 0
    }

    /// Whether a stream of these paths waits.
    pub(super) fn waits(&self, paths: PathSet) -> bool {
        let mut groups = self.open().filter(|group| group.paths == paths);
        groups.any(|group| group.waiting() != 0)
    }

    /// Whether a stream of a delay-sensitive class waits that shares a path with this set.
    pub(super) fn has_delay_sensitive(&self, paths: PathSet) -> bool {
        let ranks = self.open_beside(paths);
        let ranks = ranks.fold(0, |ranks, group| ranks | group.waiting());
        (0..RANKS).any(|rank| ranks >> rank & 1 != 0 && is_delay_sensitive(rank))
    }

    /// Whether short exchanges wait.
    pub(super) fn has_short_exchanges(&self) -> bool {
        self.waiting().next().is_some_and(is_short_exchange)
    }

    /// Whether short exchanges wait that a subflow of this path may carry.
    pub(super) fn has_short_exchanges_on(&self, path: Option<PathNumber>) -> bool {
        let short = |rank: &usize| is_short_exchange(*rank);
        self.open_on(path)
            .any(|group| (0..RANKS).filter(short).any(|rank| group.waits_in(rank)))
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
        self.open().map(|group| group.len_through(RANKS - 1)).sum()
    }

    /// Number of streams of these paths in this rank and those before it.
    pub(super) fn len_through(&self, paths: PathSet, rank: usize) -> usize {
        let groups = self.open().filter(|group| group.paths == paths);
        groups.map(|group| group.len_through(rank)).sum()
    }

    /// All streams, in the order in which they are served but for shares.
    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> {
        (0..RANKS).flat_map(|rank| self.open().flat_map(move |group| group.ids_in(rank)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::StreamClass;

    fn push(order: &mut Order, rank: usize, n: u64) -> Place {
        order.push(&StreamClass::Bulk.into(), rank, StreamId(n))
    }

    fn waits(order: &Order, rank: usize) -> bool {
        order.open().any(|group| group.waits_in(rank))
    }

    /// An interactive transfer is one, and its class is sensitive to delay nevertheless.
    #[test]
    fn ranks_of_short_exchanges_and_of_classes_that_are_sensitive_to_delay() {
        for of in 0..RANKS {
            let mut order = Order::default();
            push(&mut order, of, 0);
            assert_eq!(order.has_short_exchanges(), of <= 2, "{of}");
            assert_eq!(order.has_transfers(), of > 2, "{of}");
            assert_eq!(
                order.has_delay_sensitive(PathSet::ALL),
                [0, 1, 3].contains(&of),
                "{of}"
            );
            // Whatever waits before it.
            push(&mut order, 2, 1);
            assert_eq!(
                order.has_delay_sensitive(PathSet::ALL),
                [0, 1, 3].contains(&of),
                "{of}"
            );
        }
    }

    #[test]
    fn streams_of_a_rank_are_served_in_turn() {
        let mut order = Order::default();
        for n in 0..3 {
            push(&mut order, 5, n);
        }
        let next = |order: &mut Order| {
            let rank = order.ranks().find(|rank| waits(order, *rank)).unwrap();
            let mut pass = order.pass(PathSet::ALL, rank);
            let id = order.pop(&mut pass).unwrap();
            push(order, rank, id.0);
            order.served(rank, 0, SLICE);
            id.0
        };
        let turns: Vec<_> = (0..7).map(|_| next(&mut order)).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn bytes_given_while_no_other_rank_waits_are_not_counted() {
        let mut order = Order::default();
        push(&mut order, 2, 0);
        order.served(2, 0, 1 << 30);
        let place = push(&mut order, 5, 1);
        assert_eq!(order.ranks().next(), Some(0));
        order.served(2, 0, 7 * SLICE);
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
                push(&mut order, *rank, *rank as u64);
            }
            let (mut given, mut turns) = ([0; RANKS], [0_u64; RANKS]);
            // Bytes that others are given between two turns of a rank: the most, and where its last
            // turn ended.
            let (mut gap, mut ended) = ([0; RANKS], [0; RANKS]);
            let mut total = 0_u64;
            for bytes in records {
                let rank = order.ranks().find(|rank| waits(&order, *rank)).unwrap();
                order.served(rank, 0, bytes);
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
    fn with(priority: u8, paths: PathSet) -> Treatment {
        Treatment {
            priority,
            paths,
            ..StreamClass::Bulk.into()
        }
    }

    #[test]
    fn a_pass_takes_each_stream_once_by_priority() {
        let mut order = Order::default();
        for (n, priority) in [0, 7, 3, 7, 0].into_iter().enumerate() {
            order.push(&with(priority, PathSet::ALL), 5, StreamId(n as u64));
        }
        let mut pass = order.pass(PathSet::ALL, 5);
        let mut taken = Vec::new();
        while let Some(id) = order.pop(&mut pass) {
            taken.push(id.0);
            let priority = [0, 7, 3, 7, 0][id.0 as usize];
            // Given nothing, it waits again.
            order.push(&with(priority, PathSet::ALL), 5, id);
        }
        assert_eq!(taken, [1, 3, 2, 0, 4]);
    }

    #[test]
    fn streams_of_a_group_without_a_path_do_not_wait() {
        let number = |n| crate::PathNumber::new(n).unwrap();
        let one = PathSet::of([number(1)]).unwrap();
        let mut order = Order::default();
        order.enter(one);
        order.push(&with(0, one), 2, StreamId(0));
        assert!(order.is_empty() && order.ids().next().is_none() && !order.has_short_exchanges());
        assert_eq!(order.sets(|_| true), [PathSet::ALL]);
        assert!(!order.set_carrying(PathSet::of([number(2)])));
        assert!(order.set_carrying(PathSet::of([number(1), number(2)])));
        assert!(order.ids().eq([StreamId(0)]) && order.has_short_exchanges());
        assert_eq!(order.sets(|_| true), [one, PathSet::ALL]);
        let on = |path| order.has_short_exchanges_on(path);
        assert!(on(Some(number(1))) && !on(Some(number(2))) && !on(None));
        assert!(order.set_carrying(None) && order.is_empty());
        order.leave(one);
        assert!(!order.has_sets());
    }

    proptest! {
        /// Whatever the priorities, sets and ranks of streams: none waits longer than the shares of
        /// its rank and its priority say.
        #[test]
        fn no_priority_starves(
            streams in proptest::collection::vec((0..=7u8, 0..3u64, 4..6usize), 2..=12),
            records in proptest::collection::vec(1..=SLICE, 8_000..9_000),
        ) {
            let number = |n| crate::PathNumber::new(n).unwrap();
            let mut order = Order::default();
            order.set_carrying(PathSet::of((0..3).map(number)));
            let treatments: Vec<_> = streams
                .iter()
                .map(|(priority, path, _)| with(*priority, PathSet::of([number(*path)]).unwrap()))
                .collect();
            for (n, treatment) in treatments.iter().enumerate() {
                order.enter(treatment.paths);
                order.push(treatment, streams[n].2, StreamId(n as u64));
            }
            let (mut total, mut ended, mut gap) = (0, [0; 12], [0; 12]);
            for bytes in records {
                let paths = order.sets(|_| true)[0];
                let mut ranks = order.ranks();
                let rank = ranks.find(|rank| order.group(paths).unwrap().waits_in(*rank)).unwrap();
                let mut pass = order.pass(paths, rank);
                let id = order.pop(&mut pass).unwrap();
                let n = id.0 as usize;
                order.push(&treatments[n], rank, id);
                order.served(rank, treatments[n].priority, bytes);
                gap[n] = gap[n].max(total - ended[n]);
                total += bytes;
                ended[n] = total;
            }
            for n in 0..streams.len() {
                let gap = gap[n].max(total - ended[n]);
                let most = (SHARE + 1) * (SHARE + 1) * SLICE * streams.len() as u64;
                prop_assert!(gap <= most, "{n}: {gap} of {total}, {streams:?}");
            }
        }
    }
}
