//! Bytes of a stream from the application's write to their acknowledgement.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::chunk_ends::ChunkEnds;
use crate::SubflowId;
use crate::copies::Cause;
use crate::range_set::RangeSet;

/// Pieces smaller than this are joined with the one before. Each costs a hundred octets beside its
/// bytes, and time for each byte that is sent again: an application may write byte by byte.
const SMALL_BYTES: usize = 1_024;

/// Bytes of a stream from the application's write to their acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    /// Written and not yet acknowledged from the front on, each with its offset.
    chunks: VecDeque<(u64, Bytes)>,
    /// Everything below is acknowledged.
    base: u64,
    /// End of what was written.
    end: u64,
    /// Never given to any subflow from here on.
    next: u64,
    /// Acknowledged above `base`.
    acked: RangeSet,
    /// Recalled or lost: to be sent again, with the subflow that carries them already.
    retransmit: Vec<Retransmission>,
    retransmit_bytes: u64,
    /// Marks of the application, none of them passed.
    chunk_ends: ChunkEnds,
}

#[derive(Debug)]
struct Retransmission {
    range: Range<u64>,
    origin: Option<SubflowId>,
    cause: Cause,
}

impl SendBuffer {
    pub(crate) fn write(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let at = self.end;
        self.end += bytes.len() as u64;
        if let Some((_, last)) = self.chunks.back_mut()
            && last.len().max(bytes.len()) < SMALL_BYTES
        {
            let mut joined = BytesMut::with_capacity(last.len() + bytes.len());
            joined.extend_from_slice(last);
            joined.extend_from_slice(&bytes);
            *last = joined.freeze();
            return;
        }
        self.chunks.push_back((at, bytes));
    }

    /// Copies the bytes held, so that they keep no larger blocks.
    pub(crate) fn leave_blocks(&mut self) {
        for (at, bytes) in &mut self.chunks {
            let acked = self.base.saturating_sub(*at);
            *bytes = Bytes::copy_from_slice(&bytes[acked as usize..]);
            *at += acked;
        }
    }

    /// A chunk ends here, perhaps beyond what was written.
    pub(crate) fn mark_chunk_end(&mut self, end: u64) {
        if end > self.next {
            self.chunk_ends.insert(end);
        }
    }

    /// Bytes held: written and not acknowledged from the front.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.end - self.base
    }

    /// Whether no byte is known to have arrived.
    pub(crate) fn is_unheard(&self) -> bool {
        self.base == 0 && self.acked.ranges() == 0
    }

    /// All bytes held, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Bytes> {
        self.chunks.iter().map(|(_, bytes)| bytes)
    }

    /// End of what was written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// First offset that was never scheduled.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that subflows were given, from the first one on that has not arrived: they count
    /// against the peer's window whatever of them has arrived, since they cannot be read.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        self.next - self.base
    }

    pub(crate) fn all_acked(&self) -> bool {
        self.base == self.end
    }

    /// Bytes to be sent again.
    pub(crate) fn retransmit_bytes(&self) -> u64 {
        self.retransmit_bytes
    }

    /// What was written of the current chunk and is left, or of everything where no end is marked.
    pub(crate) fn untransmitted(&self) -> u64 {
        let until = self.chunk_ends.first().unwrap_or(self.end).min(self.end);
        until - self.next + self.retransmit_bytes
    }

    /// What is known to follow the current chunk: up to the end of the last one, or of what was
    /// written.
    pub(crate) fn declared(&self) -> u64 {
        let (first, last) = (self.chunk_ends.first(), self.chunk_ends.last());
        let until = first.unwrap_or(self.end).min(self.end);
        last.unwrap_or(self.end).max(self.end) - until
    }

    /// Takes up to `max` new bytes, not beyond offset `limit` and not across a chunk's end.
    /// Returns their range and whether a chunk ends there.
    pub(crate) fn take_new(&mut self, max: u64, limit: u64) -> Option<(Range<u64>, bool)> {
        let mut end = self.end.min(limit).min(self.next.saturating_add(max));
        if let Some(mark) = self.chunk_ends.first() {
            end = end.min(mark);
        }
        if end <= self.next {
            return None;
        }
        let range = self.next..end;
        self.next = end;
        Some((range, self.chunk_ends.pop_at(end)))
    }

    /// Whether something is to be sent again that `on` does not carry already.
    pub(crate) fn has_retransmission_for(&self, on: SubflowId) -> bool {
        self.retransmit.iter().any(|a| a.origin != Some(on))
    }

    /// Takes up to `max` bytes that are to be sent again and that none of `carriers` has, among
    /// them the subflow that takes them now; the lowest offset first. Returns them, and why they
    /// are sent again.
    pub(crate) fn take_retransmission(
        &mut self,
        max: u64,
        carriers: &[SubflowId],
    ) -> Option<(Range<u64>, Cause)> {
        let has = |origin: Option<SubflowId>| origin.is_some_and(|o| carriers.contains(&o));
        let i = (0..self.retransmit.len())
            .filter(|&i| !has(self.retransmit[i].origin))
            .min_by_key(|&i| self.retransmit[i].range.start)?;
        let entry = &mut self.retransmit[i];
        let end = entry.range.end.min(entry.range.start.saturating_add(max));
        let (range, cause) = (entry.range.start..end, entry.cause);
        entry.range.start = end;
        if entry.range.is_empty() {
            self.retransmit.swap_remove(i);
        }
        self.retransmit_bytes -= range.end - range.start;
        (!range.is_empty()).then_some((range, cause))
    }

    /// Asks for `range` to be sent again, except what is acknowledged. `origin` is the subflow
    /// that still carries it, if any. Returns how many bytes that are.
    pub(crate) fn retransmit(
        &mut self,
        range: Range<u64>,
        origin: Option<SubflowId>,
        cause: Cause,
    ) -> u64 {
        let range = range.start.max(self.base)..range.end.min(self.next);
        if range.is_empty() {
            return 0;
        }
        let mut added = 0;
        for gap in self.acked.gaps(range) {
            added += gap.end - gap.start;
            let new = Retransmission {
                range: gap,
                origin,
                cause,
            };
            push_joined(&mut self.retransmit, new);
        }
        self.retransmit_bytes += added;
        added
    }

    /// A subflow is gone: what it carried alone may go anywhere.
    pub(crate) fn forget_origin(&mut self, gone: SubflowId) {
        for a in &mut self.retransmit {
            if a.origin == Some(gone) {
                a.origin = None;
            }
        }
    }

    /// Gives up retransmissions of bytes that `origin` carries, which has turned out to work: what
    /// has not been sent again is left to it. Returns those bytes, in order and joined.
    pub(crate) fn undo_recall(&mut self, origin: SubflowId) -> Vec<Range<u64>> {
        let mut left: Vec<Range<u64>> = Vec::new();
        self.retransmit.retain(|a| {
            let leave = a.origin == Some(origin);
            if leave {
                left.push(a.range.clone());
            }
            !leave
        });
        self.retransmit_bytes -= left.iter().map(|r| r.end - r.start).sum::<u64>();
        left.sort_unstable_by_key(|r| r.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(left.len());
        for r in left {
            match joined.last_mut() {
                Some(last) if last.end >= r.start => last.end = last.end.max(r.end),
                _ => joined.push(r),
            }
        }
        joined
    }

    /// Notes an acknowledgement; returns how many bytes could be let go from the front.
    pub(crate) fn ack(&mut self, range: Range<u64>) -> u64 {
        let range = range.start.max(self.base)..range.end.min(self.next);
        if range.is_empty() {
            return 0;
        }
        self.acked.insert(range.clone());
        self.drop_retransmissions(&range);
        let Some(front) = self.acked.first().filter(|r| r.start <= self.base) else {
            return 0;
        };
        let freed = front.end - self.base;
        self.base = front.end;
        self.acked.remove(0..self.base);
        while let Some((at, chunk)) = self.chunks.front() {
            if at + chunk.len() as u64 > self.base {
                break;
            }
            self.chunks.pop_front();
        }
        freed
    }

    fn drop_retransmissions(&mut self, acked: &Range<u64>) {
        if self.retransmit.is_empty() {
            return;
        }
        let mut split = Vec::new();
        for a in &mut self.retransmit {
            let r = a.range.clone();
            if acked.end <= r.start || r.end <= acked.start {
                continue;
            }
            a.range = r.start..acked.start.max(r.start);
            let tail = acked.end.min(r.end)..r.end;
            if !tail.is_empty() {
                split.push(Retransmission {
                    range: tail,
                    origin: a.origin,
                    cause: a.cause,
                });
            }
        }
        self.retransmit.extend(split);
        self.retransmit.retain(|a| !a.range.is_empty());
        self.retransmit_bytes = self
            .retransmit
            .iter()
            .map(|a| a.range.end - a.range.start)
            .sum();
    }

    /// Appends the bytes of `range`, which must lie between the acknowledged front and the end.
    pub(crate) fn copy(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let first = self
            .chunks
            .partition_point(|(at, c)| at + c.len() as u64 <= range.start);
        let mut at = range.start;
        for (start, chunk) in self.chunks.iter().skip(first) {
            if at >= range.end {
                break;
            }
            let from = (at - start) as usize;
            let to = chunk.len().min((range.end - start) as usize);
            out.extend_from_slice(&chunk[from..to]);
            at = start + to as u64;
        }
        debug_assert_eq!(at, range.end, "bytes asked for that are not held");
    }

    /// Unacknowledged parts of `range` that were scheduled: what a copy may carry.
    pub(crate) fn unacked(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let range = range.start.max(self.base)..range.end.min(self.next);
        self.acked.gaps(range)
    }

    /// Everything below is acknowledged.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Lets all bytes go; nothing will be sent any more.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.retransmit.clear();
        self.retransmit_bytes = 0;
        self.chunk_ends = ChunkEnds::default();
        // What was written and never scheduled does not count against the peer's window.
        self.base = self.next;
        self.end = self.next;
        self.acked = RangeSet::default();
    }
}

/// Adds bytes to be sent again; a small piece to the one before, if they touch.
fn push_joined(all: &mut Vec<Retransmission>, new: Retransmission) {
    let range = &new.range;
    let is_small = range.end - range.start < SMALL_BYTES as u64;
    let joins = |last: &Retransmission| {
        let touches = last.range.end == range.start || range.end == last.range.start;
        is_small && touches && last.origin == new.origin && last.cause == new.cause
    };
    match all.last_mut().filter(|last| joins(last)) {
        Some(last) => {
            last.range = last.range.start.min(range.start)..last.range.end.max(range.end);
        }
        None => all.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SubflowId = SubflowId(1);
    const B: SubflowId = SubflowId(2);

    fn filled() -> SendBuffer {
        let mut s = SendBuffer::default();
        s.write(Bytes::from_static(b"hello "));
        s.write(Bytes::from_static(b"wide world"));
        s
    }

    #[test]
    fn bytes_that_are_written_and_recalled_one_by_one_are_kept_together() {
        let mut s = SendBuffer::default();
        for n in 0..100_000_u32 {
            s.write(Bytes::from(vec![n as u8]));
        }
        assert!(s.chunks().count() < 200);
        s.write(Bytes::from(vec![1; SMALL_BYTES]));
        s.write(Bytes::from(vec![2; SMALL_BYTES]));
        assert!(s.take_new(u64::MAX, u64::MAX).is_some());
        for at in (0..100_000).rev() {
            assert_eq!(s.retransmit(at..at + 1, Some(A), Cause::Lost), 1);
        }
        assert_eq!((s.retransmit.len(), s.retransmit_bytes()), (1, 100_000));
        s.retransmit(100_000..101_024, Some(A), Cause::Lost);
        s.retransmit(100_000..100_001, Some(B), Cause::Lost);
        assert_eq!(s.retransmit.len(), 3);
        let mut out = Vec::new();
        s.copy(70_000..70_003, &mut out);
        assert_eq!(out, [70_000_u32, 70_001, 70_002].map(|n| n as u8));
    }

    #[test]
    fn bytes_that_leave_their_block_are_the_same() {
        let mut s = SendBuffer::default();
        let block = Bytes::from(vec![7; 4 * SMALL_BYTES]);
        s.write(block.slice(..3 * SMALL_BYTES));
        s.write(block.slice(..SMALL_BYTES));
        s.take_new(u64::MAX, u64::MAX);
        assert_eq!(s.ack(0..3_000), 3_000);
        s.leave_blocks();
        assert!(block.is_unique());
        let left: Vec<_> = s.chunks().map(Bytes::len).collect();
        assert_eq!(left, [72, SMALL_BYTES]);
        let mut out = Vec::new();
        s.copy(3_000..4_096, &mut out);
        assert_eq!(out, block[3_000..]);
        assert_eq!(s.ack(3_000..4_000), 1_000);
        s.copy(4_000..4_096, &mut out);
        assert_eq!(out.len(), 1_192);
    }

    #[test]
    fn new_bytes_stop_at_limits_and_chunk_ends() {
        let mut s = filled();
        assert_eq!(s.take_new(4, 100), Some((0..4, false)));
        assert_eq!(s.take_new(100, 6), Some((4..6, false)));
        assert_eq!(s.take_new(100, 6), None);
        s.mark_chunk_end(s.end());
        s.write(Bytes::from_static(b"!"));
        assert_eq!(s.untransmitted(), 10);
        assert_eq!(s.take_new(100, 100), Some((6..16, true)));
        assert_eq!(s.take_new(100, 100), Some((16..17, false)));
        let mut out = Vec::new();
        s.copy(3..9, &mut out);
        assert_eq!(out, b"lo wid");
    }

    #[test]
    fn acks_in_any_order_free_the_front() {
        let mut s = filled();
        s.take_new(100, 100);
        assert_eq!(s.ack(6..9), 0);
        assert_eq!(s.ack(0..2), 2);
        assert_eq!(s.ack(2..6), 7);
        assert_eq!(s.held_bytes(), 7);
        assert_eq!(s.ack(0..100), 7);
        assert!(s.all_acked());
    }

    #[test]
    fn retransmissions_skip_their_origin_and_what_was_acknowledged() {
        let mut s = filled();
        s.take_new(100, 100);
        s.ack(4..6);
        assert_eq!(s.retransmit(0..10, Some(A), Cause::Failed), 8);
        assert!(!s.has_retransmission_for(A));
        assert_eq!(s.take_retransmission(100, &[A]), None);
        assert_eq!(s.take_retransmission(2, &[B]), Some((0..2, Cause::Failed)));
        s.ack(2..4);
        assert_eq!(
            s.take_retransmission(100, &[B]),
            Some((6..10, Cause::Failed))
        );
        assert_eq!(s.take_retransmission(100, &[B]), None);
        assert_eq!(s.retransmit_bytes(), 0);
        s.retransmit(6..16, Some(A), Cause::Hedged);
        s.ack(8..9);
        assert_eq!(s.retransmit_bytes(), 9);
        s.forget_origin(A);
        assert_eq!(
            s.take_retransmission(100, &[A]),
            Some((6..8, Cause::Hedged))
        );
        assert_eq!(
            s.take_retransmission(100, &[A]),
            Some((9..16, Cause::Hedged))
        );
        assert_eq!(s.retransmit_bytes(), 0);
    }
}
