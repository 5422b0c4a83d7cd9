//! Memory for bytes to send: how many a stream takes now, and streams that wait to be written to.

use super::{Group, Streams};
use crate::StreamId;

/// Bytes that a stream may keep to send, however much others keep: a few records.
const LEAST_SEND_BUFFER: u64 = 64 << 10;

/// Bytes that all streams may keep to send by that rule: beyond a thousand streams, each may keep
/// less.
const LEAST_OF_ALL: u64 = 64 << 20;

/// What is left of the memory for all streams.
struct Left {
    free: u64,
    /// Number of streams among which it is shared.
    sharers: usize,
}

impl Streams {
    /// Number of bytes that a stream takes now, of `memory` for all streams.
    pub(in crate::session) fn budget(&self, id: StreamId, memory: u64) -> u64 {
        self.budget_of(id, &self.left(memory))
    }

    fn left(&self, memory: u64) -> Left {
        // Parked streams keep what they have: all of them as much again, at most.
        let unparked = memory.saturating_sub(self.held_open());
        let free = unparked.min(memory.saturating_mul(2).saturating_sub(self.held));
        let blocked = self.ready.open().map(|group| group.blocked.len());
        let sharers = self.ready.len() + blocked.sum::<usize>();
        Left { free, sharers }
    }

    fn budget_of(&self, id: StreamId, left: &Left) -> u64 {
        let Some(s) = self.get(id).filter(|s| s.send.is_writable()) else {
            return 0;
        };
        let buffer = &s.send.buffer;
        // A stream whose peer does not read gets no more of our memory than one frame or so.
        let ahead = s.send.max_offset.max(buffer.next()) + LEAST_SEND_BUFFER;
        let window = ahead.saturating_sub(buffer.end());
        let least = LEAST_SEND_BUFFER.min(LEAST_OF_ALL / self.table.len().max(1) as u64);
        let least = least.saturating_sub(buffer.held_bytes());
        if !self.ready.is_open(s.treatment.paths) {
            return window.min(least);
        }
        // No stream takes all that is free while others wait for their part.
        let fair = left.free / left.sharers.max(1) as u64;
        window.min(fair.max(least))
    }

    /// The stream's application waits until it may write.
    pub(in crate::session) fn block(&mut self, id: StreamId) {
        if let Some(s) = self.table.get(&id)
            && let Some(group) = self.ready.group(s.treatment.paths)
            && !group.blocked.contains(&id)
        {
            group.blocked.push(id);
        }
    }

    /// Calls `each` for every stream whose application may write again.
    pub(in crate::session) fn unblock(&mut self, memory: u64, mut each: impl FnMut(StreamId)) {
        if self.ready.all().all(|group| group.blocked.is_empty()) {
            return;
        }
        // The sums are over all groups: they are not taken again for each stream.
        let mut left = self.left(memory);
        for n in 0..self.ready.groups() {
            let is_open = self.ready.nth(n).is_some_and(Group::is_open);
            let mut i = 0;
            while let Some(id) = self
                .ready
                .nth(n)
                .and_then(|group| group.blocked.get(i).copied())
            {
                if self.budget_of(id, &left) > 0 {
                    self.ready
                        .nth_mut(n)
                        .map(|group| group.blocked.swap_remove(i));
                    left.sharers -= usize::from(is_open);
                    each(id);
                } else {
                    i += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::tests::{streams, take};
    use super::*;

    #[test]
    fn beyond_a_thousand_streams_each_may_keep_less() {
        // Nothing is left of the memory for all.
        for (count, each) in [(1, 65_536), (1_024, 65_536), (4_096, 16_384)] {
            let all = streams(count);
            assert_eq!(all.budget(StreamId(0), 0), each, "{count}");
        }
    }

    #[test]
    fn writers_that_wait_share_what_is_free() {
        let mut all = streams(3);
        let memory = 300_000;
        let a = StreamId(0);
        assert_eq!(all.budget(a, memory), 300_000);
        all.write(a, Bytes::from(vec![0; 300_000]));
        let mut woken = Vec::new();
        for id in all.ids() {
            all.block(id);
            all.block(id);
        }
        // Each may have a little, however much the others hold.
        all.unblock(memory, |id| woken.push(id));
        woken.sort_unstable();
        assert_eq!(woken, [StreamId(1), StreamId(2)]);
        take(&mut all, a, 300_000);
        all.acked(a, 0..200_000, false);
        all.unblock(memory, |id| woken.push(id));
        assert_eq!(woken.len(), 3);
    }
}
