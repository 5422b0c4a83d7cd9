//! Memory for bytes to send: how many a stream takes now, and streams that wait to be written to.

use super::Streams;
use crate::StreamId;

/// Bytes that a stream may keep to send, however much others keep: a few records.
const LEAST_SEND_BUFFER: u64 = 64 << 10;

/// Bytes that all streams may keep to send by that rule if they come at once: beyond a thousand
/// streams, each may keep less. What others keep takes nothing from one that comes: 16,384 that
/// come one by one and are not read keep 241 MiB, the sum of these parts.
const LEAST_OF_ALL: u64 = 64 << 20;

/// What is left of the memory for all streams.
struct Left {
    free: u64,
    /// Number of streams among which it is shared.
    sharers: usize,
}

impl Left {
    /// The part of one stream in what is free.
    fn share(&self) -> u64 {
        self.free / self.sharers.max(1) as u64
    }
}

/// Bytes that each of so many streams may keep to send, however much others keep.
fn least_of(streams: usize) -> u64 {
    LEAST_SEND_BUFFER.min(LEAST_OF_ALL / streams.max(1) as u64)
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
        let least = least_of(self.table.len()).saturating_sub(buffer.held_bytes());
        if !self.ready.is_open(s.treatment.paths) {
            return window.min(least);
        }
        // No stream takes all that is free while others wait for their part.
        window.min(left.share().max(least))
    }

    /// The stream's application waits until it may write.
    pub(in crate::session) fn block(&mut self, id: StreamId) {
        if let Some(s) = self.table.get_mut(&id)
            && let Some(group) = self.ready.group(s.treatment.paths)
        {
            s.listed.blocked = true;
            group.blocked.insert(id);
        }
    }

    /// Calls `each` for every stream whose application may write again: of those that have been
    /// updated, since their own bytes or windows let them, and of all others, where each has a part
    /// in what is free.
    pub(in crate::session) fn unblock(&mut self, memory: u64, mut each: impl FnMut(StreamId)) {
        let touched = std::mem::take(&mut self.touched);
        if touched.is_empty() && self.ready.all().all(|group| group.blocked.is_empty()) {
            return;
        }
        // The sums are over all groups: they are not taken again for each stream.
        let mut left = self.left(memory);
        for id in touched {
            let Some(listed) = self.table.get_mut(&id).map(|s| &mut s.listed) else {
                continue;
            };
            listed.touched = false;
            if !listed.blocked {
                continue;
            }
            match self.budget_of(id, &left) > 0 {
                true => self.wake(id, &mut left, &mut each),
                // It may wait for its part now, and no longer for its window.
                false => self.block(id),
            }
        }
        let mut left = self.left(memory);
        for n in 0..self.ready.groups() {
            while left.share() > 0
                && let Some(group) = self.ready.nth_mut(n).filter(|group| group.is_open())
                && let Some(id) = group.blocked.pop_first()
            {
                left.sharers -= 1;
                // Without a part it waits for its own window, of which an update tells.
                if self.budget_of(id, &left) > 0 {
                    self.wake(id, &mut left, &mut each);
                }
            }
        }
    }

    fn wake(&mut self, id: StreamId, left: &mut Left, each: &mut impl FnMut(StreamId)) {
        if let Some(s) = self.table.get_mut(&id) {
            s.listed.blocked = false;
            if let Some(group) = self.ready.group(s.treatment.paths) {
                left.sharers -= usize::from(group.blocked.remove(&id) && group.is_open());
            }
        }
        each(id);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mpbond_units::Timestamp;

    use proptest::prelude::*;

    use super::super::tests::{streams, take as take_bytes};
    use super::*;
    use crate::signal::SignalState;
    use crate::stream::Stream;
    use crate::treatment::Treatment;
    use crate::{PathNumber, PathSet, ResetCode, StreamClass};

    /// A stream whose window is no bound.
    fn writable() -> Stream {
        let mut s = Stream::new(StreamClass::Bulk, None, Timestamp::ZERO, 1_000);
        s.send.max_offset = 1 << 40;
        s
    }

    /// Gives a subflow all that a stream has.
    fn take(streams: &mut Streams, id: StreamId) {
        let s = streams.get_mut(id).unwrap();
        s.send.buffer.take_new(u64::MAX, u64::MAX);
        streams.update(id);
    }

    #[test]
    fn beyond_a_thousand_streams_each_may_keep_less() {
        // Nothing is left of the memory for all.
        for (count, each) in [
            (1, 65_536),
            (1_024, 65_536),
            (4_096, 16_384),
            (16_384, 4_096),
        ] {
            let all = streams(count);
            assert_eq!(all.budget(StreamId(0), 0), each, "{count}");
        }
    }

    /// Bytes that so many streams keep at most by that rule: the one that came as the nth has last
    /// written when there were n of them or more.
    fn most_of(streams: usize) -> u64 {
        (1..=streams).map(least_of).sum()
    }

    /// Streams come one after the other, each of which takes all that it may, and none is read.
    #[test]
    fn streams_that_came_before_take_nothing_from_one_that_comes() {
        let mut all = streams(0);
        let bytes = Bytes::from(vec![0; 64 << 10]);
        for n in 1..=16_384 {
            let id = all.open(writable());
            let budget = all.budget(id, 0);
            let least = if n <= 1_024 { 64 << 10 } else { (64 << 20) / n };
            assert_eq!(budget, least, "{n}");
            all.write(id, bytes.slice(..budget as usize));
        }
        assert_eq!(all.held(), most_of(16_384));
        assert_eq!(all.held() >> 20, 241);
    }

    /// What may happen to one of the streams.
    #[derive(Clone, Debug)]
    enum Step {
        Open(u64),
        Write(u64),
        Acked(u64),
        /// The path of so many streams goes, and comes.
        Path(bool),
        Move(u64, bool),
        Close(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let of = any::<u64>;
        prop_oneof![
            4 => (1..2_000u64).prop_map(Step::Open),
            8 => of().prop_map(Step::Write),
            2 => of().prop_map(Step::Acked),
            1 => any::<bool>().prop_map(Step::Path),
            2 => (of(), any::<bool>()).prop_map(|(from, there)| Step::Move(from, there)),
            1 => of().prop_map(Step::Close),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn sixteen_thousand_streams_keep_no_more_than_the_bound(
            steps in proptest::collection::vec(step(), 20..60),
            memory in prop_oneof![Just(0u64), 0..16u64 << 20],
        ) {
            let elsewhere = PathSet::of(PathNumber::new(1)).unwrap();
            let mut all = streams(1);
            let bytes = Bytes::from(vec![0; 1 << 20]);
            for step in steps {
                // Of a random stream on, each second one.
                let part = |all: &Streams, from: u64| -> Vec<_> {
                    let ids = all.ids();
                    ids.into_iter().skip(from as usize % all.len().max(1)).step_by(2).collect()
                };
                match step {
                    Step::Open(count) => {
                        for _ in 0..count.min(16_384 - all.len() as u64) {
                            all.open(writable());
                        }
                    }
                    Step::Write(from) => {
                        for id in part(&all, from) {
                            let budget = all.budget(id, memory).min(bytes.len() as u64);
                            all.write(id, bytes.slice(..budget as usize));
                        }
                    }
                    Step::Acked(from) => {
                        for id in part(&all, from) {
                            take(&mut all, id);
                            let end = all.get(id).unwrap().send.buffer.next();
                            all.acked(id, 0..end, false);
                        }
                    }
                    Step::Path(is_there) => {
                        all.ready.set_carrying(is_there.then_some(elsewhere));
                    }
                    Step::Move(from, is_there) => {
                        let paths = if is_there { elsewhere } else { PathSet::ALL };
                        for id in part(&all, from) {
                            all.treat(id, Treatment { paths, ..StreamClass::Bulk.into() });
                        }
                    }
                    Step::Close(from) => {
                        for id in part(&all, from) {
                            all.reset(id, ResetCode::Cancelled);
                            let s = all.get_mut(id).unwrap();
                            s.send.reset.as_mut().unwrap().state = SignalState::Acked;
                            s.recv.end_read = true;
                            s.recv.reset = Some(ResetCode::Cancelled);
                            prop_assert!(all.remove_if_done(id).is_some());
                        }
                    }
                }
                let most = 2 * memory + most_of(all.len());
                prop_assert!(all.held() <= most, "{} of {most}", all.held());
            }
            all.check_sums();
        }
    }

    /// A stream whose own window stops its application does not wait for memory.
    #[test]
    fn a_stream_that_waits_for_its_window_is_looked_at_when_it_moves() {
        let mut all = streams(2);
        let (a, b) = (StreamId(0), StreamId(1));
        let memory = 8 << 20;
        let budget = all.budget(a, memory);
        all.write(a, Bytes::from(vec![0; budget as usize]));
        assert_eq!(budget, 1_000_000 + (64 << 10));
        let mut woken = Vec::new();
        for id in [a, b] {
            all.block(id);
        }
        all.unblock(memory, |id| woken.push(id));
        assert_eq!(woken, [b]);
        let group = all.ready.group(PathSet::ALL).unwrap();
        assert!(group.blocked.is_empty());
        all.get_mut(a).unwrap().send.max_offset += 10;
        all.update(a);
        all.unblock(memory, |id| woken.push(id));
        assert_eq!(woken, [b, a]);
    }

    /// A peer repeats bytes or windows, and sends no ACK for long.
    #[test]
    fn a_stream_that_waits_is_listed_once_however_often_it_is_updated() {
        let mut all = streams(3);
        let memory = 8 << 20;
        let (a, b) = (StreamId(0), StreamId(1));
        for id in [a, b] {
            let budget = all.budget(id, memory);
            all.write(id, Bytes::from(vec![0; budget as usize]));
            all.block(id);
        }
        let mut woken = Vec::new();
        all.unblock(memory, |id| woken.push(id));
        for _ in 0..1_000 {
            all.update(a);
            all.update(b);
        }
        assert_eq!(all.touched, [a, b]);
        all.get_mut(a).unwrap().send.max_offset += 10;
        all.unblock(memory, |id| woken.push(id));
        assert_eq!((&woken[..], &all.touched[..]), (&[a][..], &[][..]));
        all.update(b);
        assert_eq!(all.touched, [b]);
        all.check_sums();
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
            // Each may have a little, however much the others hold.
            let budget = all.budget(id, memory);
            assert_eq!(budget, if id == a { 0 } else { 64 << 10 });
            all.write(id, Bytes::from(vec![0; budget as usize]));
            all.block(id);
            all.block(id);
        }
        all.unblock(memory, |id| woken.push(id));
        assert_eq!(woken, []);
        take_bytes(&mut all, a, 300_000);
        all.acked(a, 0..200_000, false);
        all.unblock(memory, |id| woken.push(id));
        assert_eq!(woken.len(), 3);
    }
}
