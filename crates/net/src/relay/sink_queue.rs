//! What a sink has in flight or unsent, kept within a bound.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use mpbond_units::{QueueBound, Timestamp};
use tokio::time::{Instant, Sleep};

use super::hop::Hop;
use crate::tcp;

/// Interval of looks at a sink that has reached its bound: it has bytes for several of these.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Interval of looks at a full socket.
const LOOK_AT_FULL: Duration = Duration::from_millis(50);
/// Looks in a row that find the same queue, after which the peer takes nothing: there is no bound
/// then, so that an event of the socket, and no timer, tells that it goes on.
const STUCK_LOOKS: u32 = 20;

/// The queue of a TCP connection that is a sink. No event of the socket tells that it has become
/// shorter, hence the timer.
#[derive(Debug)]
pub(super) struct SinkQueue {
    /// Without it there is no bound.
    is_wanted: Arc<AtomicBool>,
    bound: QueueBound,
    start: Instant,
    /// Bytes that were queued at the last look, and looks since it was another number.
    queued: u64,
    same: u32,
    /// Nothing is written until the timer ends.
    rests: bool,
    timer: Pin<Box<Sleep>>,
}

impl SinkQueue {
    pub(super) fn new(is_wanted: Arc<AtomicBool>) -> Self {
        Self {
            is_wanted,
            bound: QueueBound::default(),
            start: Instant::now(),
            queued: 0,
            same: 0,
            rests: false,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Whether the bound was reached, or the socket full, and it is too early to look again.
    pub(super) fn rests(&self) -> bool {
        self.rests
    }

    /// Whether it is time to look again.
    pub(super) fn poll_again(&mut self, cx: &mut Context<'_>) -> bool {
        let is_time = self.rests && matches!(self.timer.as_mut().poll(cx), Poll::Ready(()));
        self.rests &= !is_time;
        is_time
    }

    /// The bound is reached.
    pub(super) fn note_at_bound(&mut self) {
        self.rest(LOOK_AGAIN);
    }

    /// The socket takes no more. Its event comes when half of what it has is sent, which is too
    /// seldom for its rate.
    pub(super) fn note_full(&mut self) {
        if self.is_wanted.load(Relaxed) && !self.is_stuck() {
            self.rest(LOOK_AT_FULL);
        }
    }

    fn rest(&mut self, time: Duration) {
        self.rests = true;
        self.timer.as_mut().reset(Instant::now() + time);
    }

    fn is_stuck(&self) -> bool {
        self.same >= STUCK_LOOKS
    }

    /// Bytes that may be written.
    pub(super) fn room_bytes(&mut self, sink: &impl Hop) -> io::Result<u64> {
        if !self.is_wanted.load(Relaxed) {
            return Ok(u64::MAX);
        }
        let queued = tcp::send_queue_bytes(sink)?;
        self.same = match queued == self.queued {
            true => self.same.saturating_add(1),
            false => 0,
        };
        self.queued = queued;
        let now = Timestamp::ZERO + self.start.elapsed();
        if self.bound.is_due(now)
            && let Some(info) = sink.tcp_info()?
            && let Some(acked) = info.bytes_acked
        {
            let arrived = acked + info.sacked_bytes;
            self.bound.look(now, arrived, queued, info.min_rtt);
        }
        let bound = self.bound.bytes().filter(|_| !self.is_stuck());
        Ok(bound.map_or(u64::MAX, |bytes| bytes.saturating_sub(queued)))
    }
}
