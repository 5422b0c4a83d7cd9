//! Sending direction of a channel: octets until they are acknowledged, and frames to be sent again.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::Timestamp;

use crate::frame::{Header, Kind, MAX_RANGES, Range, Refused};
use crate::ring::Ring;
use crate::round_trip::RoundTrip;

/// A frame is lost when one is acknowledged that was sent this many frames later (RFC 9002, section
/// 6.1.1): links keep the order of frames, apart from a few that pass on another queue.
const REORDERED_FRAMES: u64 = 3;
/// Octets of the peer's window that a frame takes at least: short frames fill a socket's buffer
/// sooner than their octets do. What is written meanwhile shares a frame.
const FRAME_BYTES: u32 = 1 << 10;
/// Maximum number of frames that are not acknowledged: those of the largest window.
const MAX_SEGMENTS: usize = 1024;
/// Time-outs in succession, without anything newly acknowledged, after which the peer counts as
/// unable to receive, although frames of it arrive.
const MAX_TIMEOUTS: u32 = 8;
/// Frames over which loss is counted, and the most of them that may be lost: 1 %. More than that
/// is a loss of the link if it happens at least at so many times.
const LOSS_FRAMES: u64 = 2_000;
const MOST_LOST: u64 = LOSS_FRAMES / 100;
const LEAST_TIMES_LOST: u64 = 3;

/// Octets of the stream that went out as one frame.
#[derive(Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// The end of the stream, which takes the last offset.
    is_fin: bool,
    /// Number in the order of sending, new at each transmission.
    number: u64,
    sent_at: Timestamp,
    /// It was sent more than once: its acknowledgement does not show which transmission arrived
    /// (Karn's algorithm).
    is_repeated: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Sent and not acknowledged.
    UnderWay,
    /// To be sent again.
    Lost,
    /// Arrived beyond a gap.
    Arrived,
}

/// A frame to be sent; its payload is at these offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) bytes: u16,
}

/// Octets and frames of the sending direction.
pub(crate) struct Sender {
    ring: Ring,
    /// All octets before it are acknowledged.
    acked: u64,
    /// First octet that was never sent.
    next: u64,
    /// End of what was written.
    written: u64,
    /// First octet for which there is no credit.
    limit: u64,
    is_finished: bool,
    segments: VecDeque<Segment>,
    /// Number of the next frame.
    number: u64,
    /// Highest number of a frame that is known to have arrived.
    arrived: u64,
    round_trip: RoundTrip,
    /// Beginning of the wait for an acknowledgement; `None` when nothing is under way.
    waits_since: Option<Timestamp>,
    /// Time-outs since something was newly acknowledged.
    timeouts: u32,
    /// Of the last time-out: end of the frame that it sent again, and number of the last frame
    /// before it.
    tried: Option<(u64, u64)>,
    /// No frame that is to be sent again ends before this offset; `None` when there is none.
    lost_from: Option<u64>,
    /// Largest credit, as the size of the peer's window.
    window: u32,
    counts: Counts,
    /// The number of frames at which the present span of [`LOSS_FRAMES`] began.
    span_from: u64,
    /// Frames that were found lost in it, and the times at which: losses of one window count as one
    /// time. An outage of a tenth of a second loses a window, and says nothing of what follows.
    lost: u64,
    times_lost: u64,
    /// Number of the last frame sent when a loss was found last.
    lost_until: u64,
    /// Number of the last frame before the MTU shrank: the own interface may have refused those up
    /// to it.
    shrunk_at: u64,
    is_lossy: bool,
}

/// Frames with octets of a stream that an end has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames sent, those sent again included.
    pub frames: u64,
    /// Frames sent again.
    pub repeated: u64,
    /// Time-outs.
    pub timeouts: u64,
}

impl Sender {
    /// A sender that keeps at most `capacity` octets and has no credit yet.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            ring: Ring::new(capacity),
            acked: 0,
            next: 0,
            written: 0,
            limit: 0,
            is_finished: false,
            segments: VecDeque::new(),
            number: 0,
            arrived: 0,
            round_trip: RoundTrip::default(),
            waits_since: None,
            timeouts: 0,
            tried: None,
            lost_from: None,
            window: 0,
            counts: Counts::default(),
            span_from: 0,
            lost: 0,
            times_lost: 0,
            lost_until: 0,
            shrunk_at: 0,
            is_lossy: false,
        }
    }

    /// Takes octets to be sent, and returns their number: 0 when its memory is used up.
    pub(crate) fn write(&mut self, octets: &[u8]) -> usize {
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let count = octets.len().min(room);
        self.ring
            .put(self.written, octets.get(..count).unwrap_or_default());
        self.written += count as u64;
        count
    }

    /// Number of octets that it takes at present.
    pub(crate) fn room(&self) -> u64 {
        match self.is_finished {
            true => 0,
            false => self.ring.capacity() - self.written.saturating_sub(self.acked),
        }
    }

    /// Ends the stream after the octets that were written.
    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether the peer has everything, the end of the stream included.
    pub(crate) fn is_done(&self) -> bool {
        self.is_finished && self.acked > self.written
    }

    /// Whether frames are under way or lost.
    pub(crate) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Whether octets wait for credit and nothing is under way that would bring it.
    pub(crate) fn is_blocked(&self) -> bool {
        self.segments.is_empty() && self.next < self.written && self.limit <= self.next
    }

    /// Whether the peer does not receive, although frames of it may arrive.
    pub(crate) fn is_stalled(&self) -> bool {
        self.timeouts >= MAX_TIMEOUTS
    }

    /// Whether more than 20 of at most 2000 frames were lost, at three times or more.
    pub(crate) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// Octets that were never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.next)
    }

    /// Octets that the peer has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.acked)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.round_trip.timeout()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Instant at which [`handle_timeout`](Self::handle_timeout) is due. The time is doubled once:
    /// four transmissions fit into the silence after which the channel is given up.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let wait = self.timeout() * if self.timeouts == 0 { 1 } else { 2 };
        Some(self.waits_since? + wait)
    }

    /// Marks the first frame that is not acknowledged to be sent again. Its acknowledgement shows
    /// whether others are missing, too. If the peer was only slow, a single frame is sent in vain.
    /// Returns whether there was a time-out.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) -> bool {
        if self.deadline().is_none_or(|at| now < at) {
            return false;
        }
        self.timeouts += 1;
        self.counts.timeouts += 1;
        self.waits_since = Some(now);
        let mut open = (self.segments.iter_mut()).filter(|s| s.state != State::Arrived);
        if let Some(first) = open.next() {
            // It counts as lost when others arrive without it, not while the peer may be slow.
            first.state = State::Lost;
            self.lost_from = Some(first.start);
            self.tried = Some((first.end, self.number));
        }
        true
    }

    /// Applies what a frame acknowledges.
    pub(crate) fn handle_ack(&mut self, now: Timestamp, header: &Header) -> Result<(), Refused> {
        let sent = self.segments.back().map_or(self.acked, |last| last.end);
        if header.acked > sent {
            return Err(Refused::Acknowledgement);
        }
        let ranges = header.ranges.iter().flatten();
        if ranges
            .clone()
            .any(|r| header.acked + u64::from(r.end) > sent)
        {
            return Err(Refused::Acknowledgement);
        }
        // The limit never shrinks; an acknowledgement that was overtaken has a lower one.
        self.limit = self.limit.max(header.acked + u64::from(header.credit));
        self.window = self.window.max(header.credit);
        let mut is_new = self.handle_acked(now, header.acked);
        is_new |= self.handle_ranges(header.acked, &header.ranges);
        if is_new {
            self.after_progress(now, header);
        }
        Ok(())
    }

    /// Forgets frames before `acked`; returns whether there were any.
    fn handle_acked(&mut self, now: Timestamp, acked: u64) -> bool {
        if acked <= self.acked {
            return false;
        }
        self.acked = acked;
        while let Some(first) = self.segments.front_mut() {
            if first.end > acked {
                first.start = first.start.max(acked);
                break;
            }
            let Some(first) = self.segments.pop_front() else {
                break;
            };
            if !first.is_repeated {
                self.arrived = self.arrived.max(first.number);
                // Of several, the last one counts most.
                if first.state == State::UnderWay && first.end == acked {
                    self.round_trip.sample(now.since(first.sent_at));
                }
            }
        }
        true
    }

    /// Marks frames within the ranges; returns whether there are any that were not marked.
    fn handle_ranges(&mut self, acked: u64, ranges: &[Option<Range>; MAX_RANGES]) -> bool {
        let mut is_new = false;
        for range in ranges.iter().flatten() {
            let start = acked + u64::from(range.start.get());
            let end = acked + u64::from(range.end);
            let from = self.segments.partition_point(|s| s.start < start);
            let within = self.segments.range_mut(from..);
            for segment in within.take_while(|s| s.end <= end) {
                if segment.state != State::Arrived {
                    segment.state = State::Arrived;
                    is_new = true;
                    if !segment.is_repeated {
                        self.arrived = self.arrived.max(segment.number);
                    }
                }
            }
        }
        is_new
    }

    /// Finds lost frames after something was newly acknowledged.
    fn after_progress(&mut self, now: Timestamp, header: &Header) {
        // Only the frame of the time-out arrived: those sent before it did not. Had the peer just
        // been slow, its acknowledgement would reach further (compare F-RTO, RFC 5682).
        let tried = self.tried.take().filter(|(end, _)| *end == header.acked);
        let lost = self.arrived.saturating_sub(REORDERED_FRAMES);
        let lost = lost.max(tried.map_or(0, |(_, number)| number));
        let (count, last) = self.lose(|segment| segment.number <= lost);
        self.lost += count;
        if last > self.lost_until {
            self.times_lost += 1;
            self.lost_until = self.number;
        }
        self.is_lossy |= self.lost > MOST_LOST && self.times_lost >= LEAST_TIMES_LOST;
        self.timeouts = 0;
        self.waits_since = self.has_segments().then_some(now);
    }

    /// Marks those of the frames under way to be sent again; returns how many of them the link has
    /// lost, and the number of the last one.
    fn lose(&mut self, which: impl Fn(&Segment) -> bool) -> (u64, u64) {
        let (mut count, mut last) = (0, 0);
        for segment in &mut self.segments {
            if segment.state == State::UnderWay && which(segment) {
                segment.state = State::Lost;
                if segment.number > self.shrunk_at {
                    count += 1;
                    last = last.max(segment.number);
                }
                let from = self.lost_from.unwrap_or(segment.start);
                self.lost_from = Some(from.min(segment.start));
            }
        }
        (count, last)
    }

    /// The next frame to be sent, with at most `max_payload` octets; `None` when there is nothing
    /// or no credit. It counts as sent.
    pub(crate) fn poll(&mut self, now: Timestamp, max_payload: u16) -> Option<Transmission> {
        let next = self
            .repeat(now, max_payload)
            .or_else(|| self.fresh(now, max_payload))?;
        self.counts.frames += 1;
        if self.counts.frames - self.span_from >= LOSS_FRAMES {
            self.span_from = self.counts.frames;
            (self.lost, self.times_lost) = (0, 0);
        }
        self.waits_since.get_or_insert(now);
        Some(next)
    }

    fn repeat(&mut self, now: Timestamp, max_payload: u16) -> Option<Transmission> {
        let from = self.lost_from?;
        let mut at = self.segments.partition_point(|s| s.end <= from);
        let mut rest = self.segments.range(at..);
        let Some(found) = rest.position(|s| s.state == State::Lost) else {
            self.lost_from = None;
            return None;
        };
        at += found;
        self.number += 1;
        let segment = self.segments.get_mut(at)?;
        let (start, end, is_fin) = (segment.start, segment.end, segment.is_fin);
        // The MTU has shrunk since: the rest becomes a frame of its own.
        let longest = start + u64::from(max_payload);
        if end > longest && !is_fin {
            let rest = Segment {
                start: longest,
                end,
                is_fin: false,
                number: segment.number,
                sent_at: segment.sent_at,
                is_repeated: true,
                state: State::Lost,
            };
            segment.end = longest;
            self.segments.insert(at + 1, rest);
        }
        let segment = self.segments.get_mut(at)?;
        segment.number = self.number;
        segment.sent_at = now;
        segment.is_repeated = true;
        segment.state = State::UnderWay;
        self.lost_from = Some(segment.end);
        self.counts.repeated += 1;
        Some(transmission(segment))
    }

    fn fresh(&mut self, now: Timestamp, max_payload: u16) -> Option<Transmission> {
        let most = usize::try_from(self.window / FRAME_BYTES).unwrap_or(MAX_SEGMENTS);
        if self.segments.len() >= most.clamp(1, MAX_SEGMENTS) {
            return None;
        }
        let most = self.next + u64::from(max_payload);
        let end = self.written.min(self.limit).min(most);
        // The rest of the credit waits for more, which what is under way brings.
        if end < most && end < self.written && self.has_segments() {
            return None;
        }
        let (end, is_fin) = match end.saturating_sub(self.next) {
            0 if self.is_finished && self.next == self.written => (self.next + 1, true),
            0 => return None,
            _ => (end, false),
        };
        self.number += 1;
        let segment = Segment {
            start: self.next,
            end,
            is_fin,
            number: self.number,
            sent_at: now,
            is_repeated: false,
            state: State::UnderWay,
        };
        self.next = end;
        let next = transmission(&segment);
        self.segments.push_back(segment);
        Some(next)
    }

    /// Marks frames with more octets to be sent again: they do not pass any more.
    pub(crate) fn shrink(&mut self, max_payload: u16) {
        self.shrunk_at = self.number;
        self.lose(|segment| segment.end - segment.start > u64::from(max_payload));
    }

    /// Copies the payload of a frame into all of `into`.
    pub(crate) fn payload(&self, offset: u64, into: &mut [u8]) {
        self.ring.get(offset, into);
    }
}

fn transmission(segment: &Segment) -> Transmission {
    let bytes = u16::try_from(segment.end - segment.start).unwrap_or(u16::MAX);
    match segment.is_fin {
        true => Transmission {
            kind: Kind::Fin,
            offset: segment.start,
            bytes: 0,
        },
        false => Transmission {
            kind: Kind::Data,
            offset: segment.start,
            bytes,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const PAYLOAD: u16 = 1000;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn ack(acked: u64, credit: u32, beyond: &[(u64, u64)]) -> Header {
        let mut ranges = [None; MAX_RANGES];
        for (place, (start, end)) in ranges.iter_mut().zip(beyond) {
            let start = NonZeroU32::new((start - acked) as u32).unwrap();
            let end = (end - acked) as u32;
            *place = Some(Range { start, end });
        }
        Header {
            kind: Kind::Ack,
            channel: 1,
            offset: 0,
            acked,
            credit,
            ranges,
        }
    }

    /// A sender with credit that has sent `frames` frames at the instant 0.
    fn sent(frames: u64) -> Sender {
        let mut sender = Sender::new(1 << 20);
        sender.handle_ack(ms(0), &ack(0, 1 << 20, &[])).unwrap();
        let octets = vec![1; frames as usize * usize::from(PAYLOAD)];
        assert_eq!(sender.write(&octets), octets.len());
        assert_eq!(offsets(&mut sender, ms(0)).len(), frames as usize);
        sender
    }

    fn offsets(sender: &mut Sender, now: Timestamp) -> Vec<u64> {
        std::iter::from_fn(|| sender.poll(now, PAYLOAD))
            .map(|next| next.offset)
            .collect()
    }

    #[test]
    fn nothing_is_sent_without_credit_and_no_more_than_the_credit() {
        let mut sender = Sender::new(10_000);
        assert_eq!(sender.write(&[0; 20_000]), 10_000);
        assert_eq!(sender.poll(ms(0), PAYLOAD), None);
        assert!(sender.is_blocked());
        sender.handle_ack(ms(0), &ack(0, 1_500, &[])).unwrap();
        let mut size = || sender.poll(ms(0), PAYLOAD).map(|next| next.bytes);
        assert_eq!([size(), size()], [Some(1000), None]);
        // The rest of the credit, when nothing is under way that may bring more.
        sender.handle_ack(ms(0), &ack(1_000, 500, &[])).unwrap();
        let mut size = || sender.poll(ms(0), PAYLOAD).map(|next| next.bytes);
        assert_eq!([size(), size()], [Some(500), None]);
        // The end needs no credit.
        sender
            .handle_ack(ms(1), &ack(1_500, 10 << 10, &[]))
            .unwrap();
        offsets(&mut sender, ms(1));
        sender.finish();
        let fin = sender.poll(ms(1), PAYLOAD).unwrap();
        assert_eq!((fin.kind, fin.offset, fin.bytes), (Kind::Fin, 10_000, 0));
        sender.handle_ack(ms(1), &ack(10_001, 0, &[])).unwrap();
        assert!(sender.is_done() && sender.deadline().is_none());
    }

    #[test]
    fn a_frame_is_sent_again_when_one_sent_three_later_has_arrived() {
        let mut sender = sent(10);
        sender
            .handle_ack(ms(1), &ack(2_000, 1 << 20, &[(3_000, 5_000)]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(1)), []);
        sender
            .handle_ack(ms(1), &ack(2_000, 1 << 20, &[(3_000, 6_000)]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(1)), [2_000]);
        // Once only, until it may have arrived.
        sender
            .handle_ack(ms(2), &ack(2_000, 1 << 20, &[(3_000, 9_000)]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(2)), []);
        assert_eq!(sender.counts().repeated, 1);
    }

    #[test]
    fn a_frame_that_is_lost_again_is_found_by_later_ones() {
        let mut sender = sent(6);
        sender
            .handle_ack(ms(1), &ack(0, 1 << 20, &[(1_000, 6_000)]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(1)), [0]);
        sender.write(&[1; 3_000]);
        assert_eq!(offsets(&mut sender, ms(1)), [6_000, 7_000, 8_000]);
        sender
            .handle_ack(ms(2), &ack(0, 1 << 20, &[(1_000, 9_000)]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(2)), [0]);
    }

    #[test]
    fn a_timeout_sends_one_frame_and_its_acknowledgement_shows_the_others() {
        let mut sender = sent(5);
        assert_eq!(sender.deadline(), Some(ms(45)));
        sender.handle_timeout(ms(44));
        assert_eq!(offsets(&mut sender, ms(44)), []);
        sender.handle_timeout(ms(45));
        assert_eq!(offsets(&mut sender, ms(45)), [0]);
        assert_eq!(sender.deadline(), Some(ms(45 + 90)));
        sender
            .handle_ack(ms(46), &ack(1_000, 1 << 20, &[]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(46)), [1_000, 2_000, 3_000, 4_000]);
    }

    #[test]
    fn a_timeout_tells_nothing_of_frames_sent_after_the_one_sent_again() {
        let mut sender = sent(3);
        sender.handle_timeout(ms(45));
        sender.write(&[1; 2_000]);
        assert_eq!(offsets(&mut sender, ms(45)), [0, 3_000, 4_000]);
        sender
            .handle_ack(ms(46), &ack(1_000, 1 << 20, &[]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(46)), [1_000, 2_000]);
    }

    #[test]
    fn after_a_pause_of_the_peer_nothing_else_is_sent_again() {
        let mut sender = sent(5);
        sender.handle_timeout(ms(45));
        assert_eq!(offsets(&mut sender, ms(45)), [0]);
        sender
            .handle_ack(ms(46), &ack(3_000, 1 << 20, &[]))
            .unwrap();
        assert_eq!(offsets(&mut sender, ms(46)), []);
    }

    #[test]
    fn eight_timeouts_without_progress_are_a_stall() {
        let mut sender = sent(1);
        for n in 0..8 {
            assert!(!sender.is_stalled(), "{n}");
            let at = sender.deadline().unwrap();
            // Frames of the peer arrive.
            sender.handle_ack(at, &ack(0, 1 << 20, &[])).unwrap();
            sender.handle_timeout(at);
        }
        assert!(sender.is_stalled());
    }

    #[test]
    fn frames_shrink_with_the_mtu_when_they_are_sent_again() {
        let mut sender = sent(2);
        sender.shrink(400);
        let parts: Vec<_> = std::iter::from_fn(|| sender.poll(ms(1), 400))
            .map(|next| (next.offset, next.bytes))
            .collect();
        let second = [(1_000, 400), (1_400, 400), (1_800, 200)];
        assert_eq!(parts[..3], [(0, 400), (400, 400), (800, 200)]);
        assert_eq!(parts[3..], second);
        sender
            .handle_ack(ms(46), &ack(400, 1 << 20, &[(800, 1_000)]))
            .unwrap();
        sender
            .handle_ack(ms(46), &ack(2_000, 1 << 20, &[]))
            .unwrap();
        assert!(!sender.has_segments());
    }

    #[test]
    fn acknowledgements_of_what_was_not_sent_are_refused() {
        let mut sender = sent(2);
        for bad in [ack(2_001, 9, &[]), ack(1_000, 9, &[(1_500, 2_001)])] {
            assert_eq!(
                sender.handle_ack(ms(1), &bad),
                Err(Refused::Acknowledgement)
            );
        }
        // One that was overtaken changes nothing.
        sender.handle_ack(ms(1), &ack(2_000, 1 << 20, &[])).unwrap();
        sender.handle_ack(ms(1), &ack(1_000, 10, &[])).unwrap();
        assert_eq!((sender.acked, sender.limit), (2_000, 2_000 + (1 << 20)));
    }

    #[test]
    fn the_number_of_frames_under_way_is_bounded() {
        let mut sender = Sender::new(1 << 20);
        sender.handle_ack(ms(0), &ack(0, 1 << 20, &[])).unwrap();
        for _ in 0..10_000 {
            sender.write(&[0]);
            sender.poll(ms(0), PAYLOAD);
        }
        assert_eq!(sender.segments.len(), MAX_SEGMENTS);
        // Each takes 1 KiB of the window at least.
        let mut sender = Sender::new(1 << 20);
        sender.handle_ack(ms(0), &ack(0, 10 << 10, &[])).unwrap();
        for _ in 0..100 {
            sender.write(&[0]);
            sender.poll(ms(0), PAYLOAD);
        }
        assert_eq!(sender.segments.len(), 10);
        // The others share a frame.
        sender.handle_ack(ms(1), &ack(10, 10 << 10, &[])).unwrap();
        assert_eq!(sender.poll(ms(1), PAYLOAD).map(|next| next.bytes), Some(90));
    }
}
