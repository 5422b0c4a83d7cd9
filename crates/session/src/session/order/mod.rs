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
//! higher priority are served first, and an eighth goes by the turns alone. Each group counts for
//! itself what others are given before it on its paths; groups that wait behind share an eighth.

mod group;
mod rank;
mod signalling;

use std::cmp::Ordering;

use crate::treatment::Treatment;
use crate::{PathNumber, PathSet, StreamId};
use group::Turn;
pub(super) use group::{Group, Pass};
pub(super) use rank::{
    RANKS, TRANSFER, behind, is_delay_sensitive, is_part, is_short_exchange, rank,
};

/// Place of a stream in the queue of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    paths: PathSet,
    rank: usize,
    turn: Turn,
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
    /// Whether a stream had a priority yet.
    has_priorities: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            groups: vec![Group::new(PathSet::ALL, true)],
            carrying: None,
            turn: 0,
            has_priorities: false,
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
            true => self.sets(&|_| true).first().copied(),
            false => None,
        }
        .unwrap_or(PathSet::ALL)
    }

    /// Sets of paths whose streams wait in a rank that `takes`, in the order in which they are
    /// served, then that of all paths.
    pub(super) fn sets(&self, takes: &dyn Fn(usize) -> bool) -> Vec<PathSet> {
        let mut sets = self.due_sets(takes);
        for rank in (0..RANKS).filter(|rank| takes(*rank)) {
            let place = |group: &Group| match group.oldest_first(rank) {
                true => group.oldest(rank).map(Turn::without_priority),
                false => group.first(rank),
            };
            let waiting = self.open().filter(|group| group.waits_in(rank));
            let mut waiting: Vec<_> = waiting
                .map(|group| (!group.oldest_first(rank), place(group), group.paths))
                .collect();
            // No two have the same turn.
            waiting.sort_unstable_by_key(|(later, place, _)| (*later, *place));
            for (_, _, paths) in waiting {
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

    /// Sets of paths of which a rank that `takes` has its turn before others, the one whose stream
    /// waits longest first.
    pub(super) fn due_sets(&self, takes: &dyn Fn(usize) -> bool) -> Vec<PathSet> {
        let due = |group| Some((self.due(group).filter(|rank| takes(*rank))?, group));
        let mut due: Vec<_> = self.open().filter_map(due).collect();
        due.sort_unstable_by_key(|(rank, group)| group.first(*rank).map(Turn::number));
        due.iter().map(|(_, group)| group.paths).collect()
    }

    // ---- turns ----------------------------------------------------------------------------

    /// Ranks of a group in the order in which the next record is filled from them.
    pub(super) fn ranks(&self, paths: PathSet) -> impl Iterator<Item = usize> + use<> {
        self.due_of(paths).into_iter().chain(0..RANKS)
    }

    /// The rank of a group that has its turn before those that others wait in, if one has.
    fn due(&self, group: &Group) -> Option<usize> {
        if !group.ahead.is_enough() {
            return None;
        }
        let waiting = self.open_beside(group.paths);
        let first = waiting.fold(0, |ranks, group| ranks | group.waiting());
        let behind = || (0..RANKS).filter(|r| group.waits_in(*r) && first & ((1 << r) - 1) != 0);
        // From the last one up, then again from the last one.
        let next = behind().rfind(|rank| *rank < group.last_behind);
        next.or_else(|| behind().next_back())
    }

    /// The rank of these paths that has its turn before others, if one has.
    pub(super) fn due_of(&self, paths: PathSet) -> Option<usize> {
        let group = self.open().find(|group| group.paths == paths)?;
        self.due(group)
    }

    fn waiting(&self) -> impl Iterator<Item = usize> + use<> {
        let ranks = self.waiting_ranks();
        (0..RANKS).filter(move |rank| ranks >> rank & 1 != 0)
    }

    /// Ranks in which streams wait: bit n for rank n.
    fn waiting_ranks(&self) -> u8 {
        self.open().fold(0, |ranks, group| ranks | group.waiting())
    }

    /// A stream of these paths, priority and rank was given bytes on a path. It is in its queue
    /// again.
    ///
    /// Each group counts for itself what others are given on its paths: streams whose path takes
    /// nothing keep no other ones from their turns.
    pub(super) fn served(
        &mut self,
        (paths, priority): (PathSet, u8),
        on: Option<PathNumber>,
        rank: usize,
        bytes: u64,
    ) {
        let was_due = self.due_of(paths) == Some(rank);
        let waits_behind = |group: &Group| u32::from(group.waiting()) >> (rank + 1) != 0;
        let waiting = self.open_on(on);
        let waiting = waiting.fold(0, |ranks, group| ranks | group.waiting());
        let is_behind = waiting & ((1 << rank) - 1) != 0;
        let has_sets = self.has_sets();
        let sharers = self.open_on(on).filter(|group| waits_behind(group)).count();
        for group in self.open_on_mut(on) {
            let (is_it, has_behind) = (group.paths == paths, waits_behind(group));
            // Beside other sets it may be served without a turn: what goes first waits for a path.
            let is_turn = is_it && is_behind && (group.ahead.is_enough() || !has_sets);
            let bytes = (bytes, sharers);
            group.ahead.served(bytes, is_it, is_turn, has_behind);
            if is_it && (is_behind || was_due) {
                group.last_behind = rank;
            }
        }
        if self.has_priorities {
            let is = |turn: Option<Turn>, than| {
                turn.is_some_and(|t| t.priority().cmp(&priority) == than)
            };
            let waits_behind = |group: &Group| is(group.last(rank), Ordering::Less);
            let is_ahead = |group: &Group| is(group.first(rank), Ordering::Greater);
            let is_behind = self.open_on(on).any(is_ahead);
            let sharers = self.open_on(on).filter(|group| waits_behind(group)).count();
            for group in self.open_on_mut(on) {
                let (is_it, has_behind) = (group.paths == paths, waits_behind(group));
                let ahead = &mut group.ahead_in_rank[rank];
                let is_turn = is_it && is_behind && ahead.is_enough();
                ahead.served((bytes, sharers), is_it, is_turn, has_behind);
            }
        }
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
            oldest_first: {
                let mut groups = self.groups.iter();
                let group = groups.find(|group| group.paths == paths);
                group.is_some_and(|group| group.oldest_first(rank))
            },
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

    /// The first rank that `takes` in which a stream of these paths waits.
    pub(super) fn first_of(&self, paths: PathSet, takes: &dyn Fn(usize) -> bool) -> Option<usize> {
        let group = self.open().find(|group| group.paths == paths)?;
        (0..RANKS).find(|rank| group.waits_in(*rank) && takes(*rank))
    }

    /// Whether a stream of a delay-sensitive class waits that shares a path with this set.
    pub(super) fn has_delay_sensitive(&self, paths: PathSet) -> bool {
        let ranks = self.open_beside(paths);
        let ranks = ranks.fold(0, |ranks, group| ranks | group.waiting());
        (0..RANKS).any(|rank| ranks >> rank & 1 != 0 && is_delay_sensitive(rank))
    }

    /// Whether streams of ranks before this one wait.
    pub(super) fn waits_before(&self, rank: usize) -> bool {
        self.waiting().next().is_some_and(|first| first < rank)
    }

    /// Whether streams of ranks before this one wait that a subflow of this path may carry.
    pub(super) fn waits_before_on(&self, rank: usize, path: Option<PathNumber>) -> bool {
        self.open_on(path)
            .any(|group| (0..rank).any(|rank| group.waits_in(rank)))
    }

    /// Whether streams of this rank or of one behind it wait.
    pub(super) fn waits_from(&self, rank: usize) -> bool {
        self.waiting().any(|waiting| waiting >= rank)
    }

    /// Whether a stream of this rank, or of one behind it, has its turn before others.
    pub(super) fn is_due_from(&self, rank: usize) -> bool {
        self.open()
            .any(|group| self.due(group).is_some_and(|due| due >= rank))
    }

    /// Number of streams.
    pub(super) fn len(&self) -> usize {
        self.open().map(|group| group.len_through(RANKS - 1)).sum()
    }

    /// Number of streams in this rank and those before it that share a path with this set.
    pub(super) fn len_beside(&self, paths: PathSet, rank: usize) -> usize {
        let groups = self.open_beside(paths);
        groups.map(|group| group.len_through(rank)).sum()
    }

    /// All streams, in the order in which they are served but for shares.
    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> {
        (0..RANKS).flat_map(|rank| self.open().flat_map(move |group| group.ids_in(rank)))
    }
}

#[cfg(test)]
mod tests;
