//! Streams: bytes between applications' connections and the session.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Weak;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use mpbond_session::{Read, ResetCode, StreamId};
use mpbond_units::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tracing::debug;

use super::answer::Answer;
use super::fair_queue::CALL;
use super::inner::{Inner, with};
use super::stream_io::{Sink, StreamIo};
use crate::memory;

/// Pause before a stream that waits for memory looks again.
const MEMORY_AGAIN: Duration = Duration::from_millis(100);

/// Octets of an application that one read(2) may take.
const BLOCK_BYTES: usize = 256 << 10;

/// Reads that bring less are copied out, so that they do not pin a block.
const COPY_BELOW: usize = 4 << 10;

/// Octets that may wait here for an application's socket: at least one write(2)'s worth. The rest
/// stays in the session, where it counts against the stream's window.
const PENDING_BYTES: usize = 256 << 10;

impl Inner {
    /// Hands arrived bytes to the application, as far as its socket takes them.
    pub(super) fn deliver(&mut self, id: StreamId) {
        let mut cx = Context::from_waker(Waker::noop());
        let Some(io) = self.streams.get(&id) else {
            // Its destination is not reached yet, or its client waits for that.
            return self.hear(id);
        };
        if io.blocked {
            return;
        }
        self.pump_out(id, &mut cx);
        if let Some(io) = self.streams.get_mut(&id)
            && (io.blocked || io.sink != Sink::Open || io.socket.is_none())
            && let Some(w) = io.waker.take()
        {
            self.wake.push(w);
        }
    }

    /// A stream without a connection has bytes, or has ended.
    fn hear(&mut self, id: StreamId) {
        if !self.asked.contains_key(&id) {
            return self.note_given_up(id);
        }
        match self.session.reset_code(id) {
            Some(code) => {
                self.refuse(id, code);
                self.account.give_back(memory::STREAM);
                self.answer(id, Answer::Refused(code));
            }
            // The destination has spoken.
            None => self.answer(id, Answer::Connected),
        }
    }

    /// Session to socket.
    fn pump_out(&mut self, id: StreamId, cx: &mut Context<'_>) {
        let now = self.clock.now();
        self.pump_out_uncounted(now, id, cx);
        self.bytes_moved(now, id);
    }

    /// Updates the sum of bytes that wait for sockets, and the class of the stream where that of
    /// its application's traffic has changed.
    fn bytes_moved(&mut self, now: Timestamp, id: StreamId) {
        let Some(io) = self.streams.get_mut(&id) else {
            return;
        };
        self.pending = self.pending + io.pending_bytes as u64 - io.counted_bytes as u64;
        io.counted_bytes = io.pending_bytes;
        if let Some(class) = io.socket.as_mut().and_then(|socket| socket.class(now)) {
            self.session.set_class(id, class);
        }
    }

    fn pump_out_uncounted(&mut self, now: Timestamp, id: StreamId, cx: &mut Context<'_>) {
        loop {
            let Some(io) = self.streams.get_mut(&id) else {
                return;
            };
            let mut ended = false;
            while io.pending_bytes < PENDING_BYTES && io.sink == Sink::Open {
                match self.session.read(now, id) {
                    Read::Data(bytes) => {
                        io.pending_bytes += bytes.len();
                        io.pending.push_back(bytes);
                    }
                    Read::Fin => io.sink = Sink::Finishing,
                    Read::Reset(code) => {
                        debug!(stream = %id, %code, "the far end reset the stream");
                        self.session.reset(now, id, code);
                        io.abort(Some(code));
                        return;
                    }
                    Read::Pending => {
                        ended = true;
                        break;
                    }
                }
            }
            let waited = io.pending_bytes;
            let written = io.poll_write(cx);
            if io.pending_bytes < waited {
                io.taken_at = now;
            }
            match written {
                Poll::Ready(Ok(())) => io.blocked = false,
                Poll::Pending => {
                    io.blocked = true;
                    return;
                }
                Poll::Ready(Err(e)) => return self.app_failed(id, &e),
            }
            if io.sink == Sink::Finishing {
                if let Some(socket) = &mut io.socket
                    && let Poll::Ready(Err(e)) = Pin::new(socket).poll_shutdown(cx)
                {
                    debug!(stream = %id, error = %e, "cannot finish an application's connection");
                }
                io.sink = Sink::Finished;
            }
            if ended || io.sink == Sink::Finished {
                return;
            }
        }
    }

    /// Socket to session; `Pending` when there is nothing to read, or no room for it.
    fn pump_in(&mut self, id: StreamId, cx: &mut Context<'_>) -> Poll<()> {
        let mut worked = false;
        loop {
            if self.turn.is_over(cx.waker(), worked) {
                return Poll::Pending;
            }
            worked = true;
            let Some(io) = self.streams.get_mut(&id) else {
                return Poll::Ready(());
            };
            if io.read_over {
                return Poll::Ready(());
            }
            let Some(socket) = &mut io.socket else {
                return Poll::Ready(());
            };
            let budget = self.session.send_budget(id) as usize;
            if budget == 0 {
                return Poll::Pending;
            }
            if self.read.capacity() - self.read.len() < COPY_BELOW * 2
                && !self.read.try_reclaim(BLOCK_BYTES)
            {
                self.read = bytes::BytesMut::with_capacity(BLOCK_BYTES);
                self.block.replace(BLOCK_BYTES);
            }
            let room = (self.read.capacity() - self.read.len())
                .min(budget)
                .min(self.account.room() as usize);
            if room == 0 {
                self.starve(cx.waker());
                return Poll::Pending;
            }
            let mut limited = bytes::BufMut::limit(&mut self.read, room);
            let read = std::pin::pin!(socket.read_buf(&mut limited));
            match std::future::Future::poll(read, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    io.read_over = true;
                    self.session.finish(id);
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(n)) => {
                    self.turn.spend(CALL + n as u64);
                    let bytes = if n < COPY_BELOW {
                        let copy = Bytes::copy_from_slice(&self.read);
                        self.read.clear();
                        copy
                    } else {
                        self.block.slice(self.read.split_to(n).freeze())
                    };
                    self.session.write(id, bytes);
                    self.settle();
                }
                Poll::Ready(Err(e)) => {
                    self.app_failed(id, &e);
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Forgets an application's connection and the bytes that wait for it.
    pub(super) fn forget_stream(&mut self, id: StreamId) -> Option<StreamIo> {
        let io = self.streams.remove(&id)?;
        self.pending -= io.counted_bytes as u64;
        self.account.give_back(memory::STREAM);
        if self.streams.is_empty() {
            // An idle session keeps no buffers.
            self.read = bytes::BytesMut::new();
            self.block.replace(0);
            self.record = Vec::new();
            self.note_drained();
        }
        Some(io)
    }

    /// A stream waits for memory. Other sessions give it back without a notice: a task looks.
    fn starve(&mut self, waker: &Waker) {
        if !std::mem::replace(&mut self.memory_watched, true) {
            let shared = self.own.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(MEMORY_AGAIN).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let starved = {
                    let mut inner = shared.borrow_mut();
                    inner.memory_watched = false;
                    std::mem::take(&mut inner.starved)
                };
                starved.into_iter().for_each(Waker::wake);
            });
        }
        self.starved.push_back(waker.clone());
    }

    /// The application's connection broke: the far end sees a reset, too.
    fn app_failed(&mut self, id: StreamId, e: &io::Error) {
        debug!(stream = %id, error = %e, "an application's connection broke");
        let now = self.clock.now();
        let code = match e.kind() {
            io::ErrorKind::TimedOut => ResetCode::TimedOut,
            _ => ResetCode::ConnectionReset,
        };
        self.session.reset(now, id, code);
        self.session.stop(now, id, code);
        if let Some(io) = self.streams.get_mut(&id) {
            io.abort(None);
        }
    }
}

/// Moves an application's bytes both ways; ends with the stream.
pub(super) async fn run(shared: Weak<RefCell<Inner>>, id: StreamId) {
    poll_fn(|cx| {
        let Some(shared) = shared.upgrade() else {
            return Poll::Ready(());
        };
        with(&shared, |inner| {
            let _ = inner.pump_in(id, cx);
            inner.pump_out(id, cx);
            let Some(io) = inner.streams.get_mut(&id) else {
                return Poll::Ready(());
            };
            if io.done() {
                inner.forget_stream(id);
                return Poll::Ready(());
            }
            io.waker = Some(cx.waker().clone());
            Poll::Pending
        })
    })
    .await;
}
