//! What a sink has in flight or unsent, kept within a bound.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use mpbond_units::{QueueBound, SenderState, Timestamp, most_unsent_bytes};
use socket2::SockRef;
use tokio::time::{Instant, Sleep};

use super::hop::Hop;
use super::messages::PipeMessages;
use super::options::RelayOptions;
use crate::tcp;

/// Interval of looks at a sink that has reached its bound: it has bytes for five of these.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The same beside messages: half of the 10 ms that wait in front of the link then.
const LOOK_AGAIN_SOON: Duration = Duration::from_millis(5);
/// Interval of looks at a full socket.
const LOOK_AT_FULL: Duration = Duration::from_millis(50);
/// Time in which the queue has not changed, after which the peer takes nothing: there is no bound
/// then, so that an event of the socket, and no timer, tells that it goes on.
const STUCK: Duration = Duration::from_millis(200);
/// Interval at which the limit of unsent bytes follows the delivery rate.
const TUNE_EVERY: Duration = Duration::from_millis(50);

/// The queue of a TCP connection that is a sink. No event of the socket tells that it has become
/// shorter, hence the timer.
#[derive(Debug)]
pub(super) struct SinkQueue {
    /// Without it there is a bound beside messages only.
    is_one_of_several: Arc<AtomicBool>,
    /// Messages over other connections of the pipe.
    messages: Option<Arc<PipeMessages>>,
    beside_messages: bool,
    /// Most bytes that the socket may have unsent, its present limit of these, and when that was
    /// compared with the rate last.
    most_unsent_bytes: u64,
    unsent_bytes: u64,
    tuned: Option<Timestamp>,
    bound: QueueBound,
    start: Instant,
    /// Bytes that were queued at the last look, and when it was another number, or none.
    queued: u64,
    changed: Timestamp,
    is_stuck: bool,
    /// Nothing is written until the timer ends.
    rests: bool,
    timer: Pin<Box<Sleep>>,
}

impl SinkQueue {
    pub(super) fn new(options: &RelayOptions) -> Self {
        let most_unsent_bytes = options.most_unsent_bytes();
        Self {
            is_one_of_several: Arc::clone(&options.is_one_of_several),
            messages: (!options.is_express).then(|| Arc::clone(&options.messages)),
            beside_messages: false,
            most_unsent_bytes,
            unsent_bytes: most_unsent_bytes,
            tuned: None,
            bound: QueueBound::default(),
            start: Instant::now(),
            queued: 0,
            changed: Timestamp::ZERO,
            is_stuck: false,
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
        self.bound.note_reached();
        self.rest(match self.beside_messages {
            true => LOOK_AGAIN_SOON,
            false => LOOK_AGAIN,
        });
    }

    /// The socket takes no more. Its event comes when half of what it has is sent, which is too
    /// seldom for its rate.
    pub(super) fn note_full(&mut self) {
        if self.is_wanted() && !self.is_stuck {
            self.rest(LOOK_AT_FULL);
        }
    }

    /// A full socket takes bytes again.
    pub(super) fn note_writable(&mut self) {
        self.rests = false;
    }

    fn is_wanted(&self) -> bool {
        self.beside_messages || self.is_one_of_several.load(Relaxed)
    }

    fn rest(&mut self, time: Duration) {
        self.rests = true;
        self.timer.as_mut().reset(Instant::now() + time);
    }

    /// Bytes that may be written.
    pub(super) fn room_bytes(&mut self, sink: &impl Hop) -> io::Result<u64> {
        let now = Timestamp::ZERO + self.start.elapsed();
        self.tune(now, sink)?;
        let messages = self.messages.as_ref();
        self.beside_messages = messages.is_some_and(|messages| messages.has_messages());
        if !self.is_wanted() {
            return Ok(u64::MAX);
        }
        self.bound.set_beside_messages(self.beside_messages);
        let queued = tcp::send_queue_bytes(sink)?;
        if queued != self.queued || queued == 0 {
            self.changed = now;
        }
        self.queued = queued;
        self.is_stuck = now.since(self.changed) >= STUCK;
        if self.bound.is_due(now)
            && let Some(info) = sink.tcp_info()?
            && let Some(acked) = info.bytes_acked
        {
            let state = SenderState {
                arrived_bytes: acked + info.sacked_bytes,
                queued_bytes: queued,
                min_rtt: info.min_rtt,
                segment_bytes: info.mss_bytes,
            };
            self.bound.look(now, state);
        }
        let room = self.bound.room_bytes(queued);
        Ok(room.filter(|_| !self.is_stuck).unwrap_or(u64::MAX))
    }

    /// Keeps what the socket has unsent as short as its rate allows.
    fn tune(&mut self, now: Timestamp, sink: &impl Hop) -> io::Result<()> {
        if self.tuned.is_some_and(|at| now.since(at) < TUNE_EVERY) {
            return Ok(());
        }
        self.tuned = Some(now);
        if let Some(info) = sink.tcp_info()? {
            let bytes = most_unsent_bytes(info.delivery_rate).min(self.most_unsent_bytes);
            if bytes != self.unsent_bytes {
                self.unsent_bytes = bytes;
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                SockRef::from(sink).set_tcp_notsent_lowat(bytes)?;
            }
        }
        Ok(())
    }
}
