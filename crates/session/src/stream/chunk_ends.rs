//! Offsets of a stream at which the application's chunks end.

use std::collections::VecDeque;

/// Maximum number of marks that wait. They are hints, and come from the peer, too: further ones
/// are left out.
const MAX_ENDS: usize = 64;

/// Offsets of a stream at which the application's chunks end, ascending.
#[derive(Debug, Default)]
pub(crate) struct ChunkEnds(VecDeque<u64>);

impl ChunkEnds {
    /// Adds a mark, which may be beyond the bytes that were written.
    pub(crate) fn insert(&mut self, end: u64) {
        let at = self.0.partition_point(|e| *e < end);
        if self.0.len() < MAX_ENDS && self.0.get(at) != Some(&end) {
            self.0.insert(at, end);
        }
    }

    /// The next one.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.front().copied()
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<u64> {
        self.0.back().copied()
    }

    /// Takes the next one out.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        self.0.pop_front()
    }

    /// Takes the next one out if it is here.
    pub(crate) fn pop_at(&mut self, offset: u64) -> bool {
        self.0.pop_front_if(|end| *end == offset).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_sorted_once_each_and_bounded() {
        let mut ends = ChunkEnds::default();
        for end in [300, 100, 200, 100] {
            ends.insert(end);
        }
        assert!(!ends.pop_at(99));
        assert!(ends.pop_at(100));
        assert_eq!((ends.first(), ends.last()), (Some(200), Some(300)));
        for end in 0..100 {
            ends.insert(1_000 + end);
        }
        let taken = std::iter::from_fn(|| ends.pop()).count();
        assert_eq!(taken, MAX_ENDS);
    }
}
