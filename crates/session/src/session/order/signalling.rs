//! Streams with control frames to write.

use std::collections::{BTreeMap, BTreeSet};

use crate::StreamId;

/// Streams with control frames to write, each once and in turn. A peer may have each of them stand
/// here, and have any removed: maps bound the work.
#[derive(Debug, Default)]
pub(in crate::session) struct Signalling {
    queue: BTreeMap<u64, StreamId>,
    places: BTreeMap<StreamId, u64>,
    /// Those that came with an OPEN to write.
    opens: BTreeSet<StreamId>,
    next: u64,
}

impl Signalling {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a stream, unless it waits already.
    pub(in crate::session) fn push(&mut self, id: StreamId, has_open: bool) {
        if has_open {
            self.opens.insert(id);
        }
        if let std::collections::btree_map::Entry::Vacant(place) = self.places.entry(id) {
            place.insert(self.next);
            self.queue.insert(self.next, id);
            self.next += 1;
        }
    }

    /// Takes out the stream that waits longest.
    pub(in crate::session) fn pop(&mut self) -> Option<StreamId> {
        let (_, id) = self.queue.pop_first()?;
        self.places.remove(&id);
        self.opens.remove(&id);
        Some(id)
    }

    /// Takes a stream out. Returns whether it waited.
    pub(in crate::session) fn remove(&mut self, id: StreamId) -> bool {
        let place = self.places.remove(&id);
        self.opens.remove(&id);
        place.is_some_and(|place| self.queue.remove(&place).is_some())
    }

    /// Those that came with an OPEN to write. Another group may have had it written meanwhile.
    pub(in crate::session) fn opens(&self) -> impl Iterator<Item = StreamId> {
        self.opens.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_wait_once_and_in_turn() {
        let mut all = Signalling::default();
        let [a, b, c] = [3, 1, 2].map(StreamId);
        for id in [a, b, a, c] {
            all.push(id, false);
        }
        all.push(c, true);
        assert_eq!(all.opens().collect::<Vec<_>>(), [c]);
        assert!(all.remove(b) && !all.remove(b));
        all.push(b, true);
        assert_eq!([all.pop(), all.pop()], [Some(a), Some(c)]);
        assert_eq!(all.opens().collect::<Vec<_>>(), [b]);
        assert_eq!([all.pop(), all.pop()], [Some(b), None]);
        assert!(all.is_empty() && all.opens().next().is_none());
    }
}
