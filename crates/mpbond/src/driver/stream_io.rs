//! An application's connection and the bytes that wait for it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use mpbond_session::ResetCode;
use mpbond_units::Timestamp;
use tokio::io::AsyncWrite;

use super::app_socket::AppSocket;

/// Pieces in one writev(2).
const IO_SLICES: usize = 64;

/// State of the direction towards the application.
#[derive(Debug, PartialEq)]
pub(super) enum Sink {
    /// Bytes may come.
    Open,
    /// All bytes are here; FIN follows when the socket has taken them.
    Finishing,
    /// FIN is written.
    Finished,
}

/// An application's connection.
pub(super) struct StreamIo {
    pub(super) socket: Option<Box<dyn AppSocket>>,
    /// Read from the session, not yet taken by the socket.
    pub(super) pending: VecDeque<Bytes>,
    pub(super) pending_bytes: usize,
    /// Part of these that the session's sum includes.
    pub(super) counted_bytes: usize,
    pub(super) sink: Sink,
    /// The socket takes no more; the task waits until it does.
    pub(super) blocked: bool,
    /// When the socket last took bytes.
    pub(super) taken_at: Timestamp,
    /// The application has finished writing, or the far end wants no more bytes.
    pub(super) read_over: bool,
    /// The session has forgotten the stream.
    pub(super) closed: bool,
    pub(super) waker: Option<Waker>,
}

impl StreamIo {
    pub(super) fn new(socket: Box<dyn AppSocket>) -> Self {
        Self {
            socket: Some(socket),
            pending: VecDeque::new(),
            pending_bytes: 0,
            counted_bytes: 0,
            sink: Sink::Open,
            blocked: false,
            taken_at: Timestamp::ZERO,
            read_over: false,
            closed: false,
            waker: None,
        }
    }

    /// Resets the application's connection, for this reason of the far end.
    pub(super) fn abort(&mut self, reason: Option<ResetCode>) {
        if let Some(socket) = self.socket.take() {
            socket.abort(reason);
        }
        self.pending.clear();
        self.pending_bytes = 0;
    }

    /// Copies the bytes that wait, so that they keep no larger blocks.
    pub(super) fn leave_blocks(&mut self) {
        for bytes in &mut self.pending {
            *bytes = Bytes::copy_from_slice(bytes);
        }
    }

    pub(super) fn done(&self) -> bool {
        self.socket.is_none() || (self.closed && self.pending.is_empty() && !self.waits_to_finish())
    }

    fn waits_to_finish(&self) -> bool {
        self.sink == Sink::Finishing
    }

    /// Writes what is pending; `Pending` when the socket takes no more.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(socket) = &mut self.socket else {
            return Poll::Ready(Ok(()));
        };
        while !self.pending.is_empty() {
            let mut slices = [IoSlice::new(&[]); IO_SLICES];
            let mut n = 0;
            for (slice, bytes) in slices.iter_mut().zip(&self.pending) {
                *slice = IoSlice::new(bytes);
                n += 1;
            }
            let taken = match Pin::new(&mut *socket).poll_write_vectored(cx, &slices[..n]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(taken)) => taken,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            };
            self.pending_bytes -= taken;
            let mut left = taken;
            while let Some(front) = self.pending.front_mut() {
                if front.len() > left {
                    front.advance(left);
                    break;
                }
                left -= front.len();
                self.pending.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}
