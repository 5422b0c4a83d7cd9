//! Records of a subflow that are not acknowledged, and their frames.

use std::collections::VecDeque;
use std::ops::Range;

use mpbond_units::Timestamp;

use crate::{StreamId, SubflowId};

/// A frame whose record is not acknowledged: what is lost with a subflow is sent again from these.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SentFrame {
    Data {
        stream: StreamId,
        range: Range<u64>,
        fin: bool,
        /// Given to another subflow as well since: the copy here is redundant.
        recalled: bool,
        /// A hedge: another subflow was given it before.
        hedge: bool,
    },
    Open(StreamId),
    Connected(StreamId),
    Class(StreamId),
    Chunk {
        stream: StreamId,
        end: u64,
    },
    Reset(StreamId),
    Stop(StreamId),
    MaxData,
    MaxStreamData(StreamId),
    MaxStreams,
    Priority(SubflowId),
    Admit(SubflowId),
    Cut(SubflowId),
    GoAway,
    Ping,
}

impl SentFrame {
    /// The stream whose paths alone may carry the frame, if it is not free to go anywhere.
    fn bound_to_paths_of(&self) -> Option<StreamId> {
        match self {
            Self::Data { stream: id, .. }
            | Self::Open(id)
            | Self::Connected(id)
            | Self::Chunk { stream: id, .. }
            | Self::MaxStreamData(id) => Some(*id),
            Self::Class(_)
            | Self::Reset(_)
            | Self::Stop(_)
            | Self::MaxData
            | Self::MaxStreams
            | Self::Priority(_)
            | Self::Admit(_)
            | Self::Cut(_)
            | Self::GoAway
            | Self::Ping => None,
        }
    }
}

/// What becomes of the frame that reaches the end of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastFrame {
    /// It is taken whole: the budget may be exceeded.
    Whole,
    /// It is cut in two.
    Cut,
}

/// Frames that a subflow owes at most before new data waits for an acknowledgement: a window of
/// usual records has three thousand. Work for each is done when the subflow fails.
const MAX_FRAMES: usize = 8_192;

#[derive(Debug)]
struct SentRecord {
    /// Ciphertext octets from the start of the TLS stream to this record's end.
    end: u64,
    at: Timestamp,
    /// When it was expected to arrive.
    due: Timestamp,
    frames: u32,
}

/// Records of a subflow that are not acknowledged, and their frames.
#[derive(Debug, Default)]
pub(crate) struct SentQueue {
    records: VecDeque<SentRecord>,
    frames: VecDeque<SentFrame>,
    /// Stream bytes among the frames.
    pub(crate) data_bytes: u64,
    /// Those of them that another subflow has been given as well.
    pub(crate) recalled_bytes: u64,
    /// Those that are hedges, and not recalled.
    hedge_bytes: u64,
}

impl SentQueue {
    pub(crate) fn push(
        &mut self,
        end: u64,
        at: Timestamp,
        due: Timestamp,
        frames: &mut Vec<SentFrame>,
    ) {
        if frames.is_empty() {
            return;
        }
        for f in frames.iter() {
            if let SentFrame::Data {
                range,
                recalled,
                hedge,
                ..
            } = f
            {
                let bytes = range.end - range.start;
                self.data_bytes += bytes;
                self.recalled_bytes += bytes * u64::from(*recalled);
                self.hedge_bytes += bytes * u64::from(*hedge && !*recalled);
            }
        }
        self.records.push_back(SentRecord {
            end,
            at,
            due,
            frames: frames.len() as u32,
        });
        self.frames.extend(frames.drain(..));
    }

    /// Removes the frames that a count of `count` octets acknowledges.
    pub(crate) fn pop_acked(&mut self, count: u64, mut each: impl FnMut(SentFrame)) {
        while let Some(r) = self.records.front()
            && r.end <= count
        {
            for _ in 0..r.frames {
                if let Some(f) = self.frames.pop_front() {
                    self.forget(&f);
                    each(f);
                }
            }
            self.records.pop_front();
        }
    }

    fn forget(&mut self, f: &SentFrame) {
        if let SentFrame::Data {
            range,
            recalled,
            hedge,
            ..
        } = f
        {
            let bytes = range.end - range.start;
            self.data_bytes -= bytes;
            self.recalled_bytes -= bytes * u64::from(*recalled);
            self.hedge_bytes -= bytes * u64::from(*hedge && !*recalled);
        }
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = SentFrame> + '_ {
        self.records.clear();
        self.data_bytes = 0;
        self.recalled_bytes = 0;
        self.hedge_bytes = 0;
        self.frames.drain(..)
    }

    /// When the youngest record was written, and when it was expected to arrive.
    pub(crate) fn youngest(&self) -> Option<(Timestamp, Timestamp)> {
        self.records.back().map(|r| (r.at, r.due))
    }

    /// When the oldest record was written.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.records.front().map(|r| r.at)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether so many frames are owed that no data is added.
    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= MAX_FRAMES
    }

    /// Stream bytes of which no other subflow was given a copy.
    pub(crate) fn useful_bytes(&self) -> u64 {
        self.data_bytes - self.recalled_bytes
    }

    /// Those of them that are no hedges themselves.
    pub(crate) fn unhedged_bytes(&self) -> u64 {
        self.useful_bytes() - self.hedge_bytes
    }

    /// Takes out all frames but data and PING that another subflow may carry, to be sent again
    /// there; `may` is asked with the stream whose paths count. A PING, which is never sent again,
    /// stays in the place of each.
    pub(crate) fn take_control_frames(
        &mut self,
        may: impl Fn(Option<StreamId>) -> bool,
    ) -> Vec<SentFrame> {
        let signals = self
            .frames
            .iter_mut()
            .filter(|f| !matches!(f, SentFrame::Data { .. } | SentFrame::Ping))
            .filter(|f| may(f.bound_to_paths_of()));
        signals
            .map(|f| std::mem::replace(f, SentFrame::Ping))
            .collect()
    }

    /// Marks data as recalled, the oldest first, until `budget` bytes are reached: a frame that has
    /// more is cut in two. `each` is also asked about frames that are recalled already, which come
    /// to nothing.
    pub(crate) fn recall_oldest(
        &mut self,
        budget: u64,
        mut each: impl FnMut(StreamId, &Range<u64>) -> bool,
    ) -> Vec<(StreamId, Range<u64>, bool)> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut at = 0;
        while bytes < budget
            && let Some(f) = self.frames.get(at)
        {
            if let SentFrame::Data {
                stream,
                range,
                recalled,
                ..
            } = f
                && each(*stream, range)
                && !*recalled
            {
                let middle = range.end.min(range.start + (budget - bytes));
                bytes += middle - range.start;
                let stream = *stream;
                self.cut_frame(at, middle);
                taken.extend(self.mark_recalled(at).map(|(r, fin)| (stream, r, fin)));
            }
            at += 1;
        }
        taken
    }

    /// Cuts a data frame in two, if `middle` is inside of it. Both are parts of its record.
    fn cut_frame(&mut self, at: usize, middle: u64) {
        let Some(SentFrame::Data {
            stream,
            range,
            fin,
            recalled,
            hedge,
        }) = self.frames.get_mut(at)
        else {
            return;
        };
        if middle <= range.start || range.end <= middle {
            return;
        }
        let second = SentFrame::Data {
            stream: *stream,
            range: middle..range.end,
            fin: std::mem::take(fin),
            recalled: *recalled,
            hedge: *hedge,
        };
        range.end = middle;
        self.frames.insert(at + 1, second);
        let mut before = 0;
        let record = self.records.iter_mut().find(|r| {
            before += r.frames as usize;
            at < before
        });
        if let Some(r) = record {
            r.frames += 1;
        }
    }

    /// Marks a data frame as recalled; returns its bytes, and whether the stream ends there.
    fn mark_recalled(&mut self, at: usize) -> Option<(Range<u64>, bool)> {
        let Some(SentFrame::Data {
            range,
            fin,
            recalled,
            hedge,
            ..
        }) = self.frames.get_mut(at)
        else {
            return None;
        };
        *recalled = true;
        self.recalled_bytes += range.end - range.start;
        self.hedge_bytes -= (range.end - range.start) * u64::from(*hedge);
        Some((range.clone(), *fin))
    }

    /// Data frames of `stream` that have any byte in `kept` are no longer recalled: that byte goes
    /// over this subflow alone.
    pub(crate) fn undo_recall(&mut self, stream: StreamId, kept: &[Range<u64>]) {
        let needed = |r: &Range<u64>| kept.iter().any(|k| k.start < r.end && r.start < k.end);
        for f in &mut self.frames {
            if let SentFrame::Data {
                stream: of,
                range,
                recalled,
                hedge,
                ..
            } = f
                && *recalled
                && *of == stream
                && needed(range)
            {
                *recalled = false;
                self.recalled_bytes -= range.end - range.start;
                self.hedge_bytes += (range.end - range.start) * u64::from(*hedge);
            }
        }
    }

    /// Marks data as recalled, the youngest first, until `budget` bytes are reached.
    pub(crate) fn recall(
        &mut self,
        budget: u64,
        last: LastFrame,
        hedges: bool,
        mut each: impl FnMut(StreamId, Range<u64>, bool) -> bool,
    ) -> u64 {
        let mut taken = 0;
        let mut at = self.frames.len();
        while taken < budget && at > 0 {
            at -= 1;
            if let SentFrame::Data {
                stream,
                range,
                fin,
                recalled: false,
                hedge,
            } = &self.frames[at]
                && (hedges || !*hedge)
            {
                let (end, mut bytes) = (range.end, range.end - range.start);
                if last == LastFrame::Cut {
                    bytes = bytes.min(budget - taken);
                }
                let middle = end - bytes;
                let cut = range.start < middle;
                if each(*stream, middle..end, *fin) {
                    self.cut_frame(at, middle);
                    self.mark_recalled(at + usize::from(cut));
                    taken += bytes;
                }
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(range: Range<u64>, fin: bool) -> SentFrame {
        SentFrame::Data {
            stream: StreamId(1),
            range,
            fin,
            recalled: false,
            hedge: false,
        }
    }

    #[test]
    fn frames_are_bounded_whatever_their_length() {
        let mut queue = SentQueue::default();
        for n in 0..MAX_FRAMES as u64 {
            assert!(!queue.is_full());
            let mut frames = vec![data(n..n + 1, false)];
            queue.push(n + 1, Timestamp::ZERO, Timestamp::ZERO, &mut frames);
        }
        assert!(queue.is_full());
        queue.pop_acked(1, drop);
        assert!(!queue.is_full());
    }

    /// Each part is acknowledged by itself, in order and with its own end.
    #[test]
    fn a_frame_is_cut_where_the_budget_ends() {
        let mut queue = SentQueue::default();
        queue.push(
            10,
            Timestamp::ZERO,
            Timestamp::ZERO,
            &mut vec![SentFrame::Ping, data(0..100, false)],
        );
        queue.push(
            20,
            Timestamp::ZERO,
            Timestamp::ZERO,
            &mut vec![data(100..300, true)],
        );
        let mut recalled = |budget| {
            let taken = queue.recall_oldest(budget, |_, _| true);
            taken
                .into_iter()
                .map(|(_, r, fin)| (r, fin))
                .collect::<Vec<_>>()
        };
        assert_eq!(recalled(40), [(0..40, false)]);
        assert_eq!(recalled(100), [(40..100, false), (100..140, false)]);
        assert_eq!(recalled(1_000), [(140..300, true)]);
        assert_eq!(recalled(1_000), []);
        assert_eq!((queue.data_bytes, queue.useful_bytes()), (300, 0));
        let mut first = Vec::new();
        queue.pop_acked(10, |f| first.push(f));
        assert_eq!(first.len(), 3, "{first:?}");
        assert_eq!((queue.data_bytes, queue.recalled_bytes), (200, 200));
        queue.pop_acked(20, |_| ());
        assert_eq!((queue.data_bytes, queue.recalled_bytes), (0, 0));
        assert!(queue.is_empty());
    }

    /// The youngest bytes are taken, with the end of the stream; the rest stays with its record.
    #[test]
    fn a_hedge_is_not_hedged_again() {
        let hedge = SentFrame::Data {
            stream: StreamId(1),
            range: 100..200,
            fin: false,
            recalled: false,
            hedge: true,
        };
        let mut queue = SentQueue::default();
        let now = Timestamp::from_millis(0);
        queue.push(300, now, now, &mut vec![data(0..100, false), hedge]);
        let bytes = |queue: &SentQueue| (queue.useful_bytes(), queue.unhedged_bytes());
        let recall = |queue: &mut SentQueue, hedges| {
            let mut taken = Vec::new();
            queue.recall(150, LastFrame::Cut, hedges, |_, range, _| {
                taken.push((range.start, range.end));
                true
            });
            taken
        };
        assert_eq!(bytes(&queue), (200, 100));
        assert_eq!(recall(&mut queue, false), [(0, 100)]);
        assert_eq!(bytes(&queue), (100, 0));
        assert_eq!(recall(&mut queue, true), [(100, 200)]);
        assert_eq!(bytes(&queue), (0, 0));
        queue.undo_recall(StreamId(1), std::slice::from_ref(&(0..200)));
        assert_eq!(bytes(&queue), (200, 100));
        queue.pop_acked(300, |_| ());
        assert_eq!(bytes(&queue), (0, 0));
    }

    #[test]
    fn the_last_frame_is_cut_or_taken_whole() {
        for (last, expected) in [
            (LastFrame::Cut, vec![(250..300, true), (240..250, false)]),
            (LastFrame::Whole, vec![(250..300, true), (100..250, false)]),
        ] {
            let mut queue = SentQueue::default();
            for (end, frame) in [(10, data(100..250, false)), (20, data(250..300, true))] {
                queue.push(end, Timestamp::ZERO, Timestamp::ZERO, &mut vec![frame]);
            }
            let mut taken = Vec::new();
            let bytes = queue.recall(60, last, true, |_, range, fin| {
                taken.push((range, fin));
                true
            });
            assert_eq!(taken, expected);
            assert_eq!((queue.data_bytes, queue.recalled_bytes), (200, bytes));
            queue.pop_acked(10, |_| ());
            assert_eq!((queue.data_bytes, queue.recalled_bytes), (50, 50));
        }
    }
}
