//! The sending and the receiving half of a stream.

use mpbond_units::Timestamp;

use super::chunk_ends::ChunkEnds;
use super::recv_buffer::RecvBuffer;
use super::send_buffer::SendBuffer;
use crate::signal::{Signal, SignalState};
use crate::{ResetCode, SubflowId};

/// Sending half of a stream.
#[derive(Debug, Default)]
pub(crate) struct SendHalf {
    pub(crate) buffer: SendBuffer,
    /// The application has finished writing.
    pub(crate) finished: bool,
    /// FIN is to be written (or to be written again).
    pub(crate) fin_wanted: bool,
    pub(crate) fin_acked: bool,
    /// The peer's window: offsets below may be sent.
    pub(crate) max_offset: u64,
    pub(crate) reset: Option<Signal>,
    /// Redundant scheduling: end of the bytes that each subflow has carried.
    copied: Vec<(SubflowId, u64)>,
}

impl SendHalf {
    /// The application may write.
    pub(crate) fn is_writable(&self) -> bool {
        !self.finished && self.reset.is_none()
    }

    /// Nothing more will be sent and everything sent has arrived.
    pub(super) fn is_done(&self) -> bool {
        match self.reset {
            Some(s) => s.state == SignalState::Acked,
            None => self.has_arrived(),
        }
    }

    /// All bytes and FIN have arrived.
    fn has_arrived(&self) -> bool {
        self.fin_acked && self.buffer.all_acked()
    }

    /// The application can give nothing up any more: it has done so, or all has arrived.
    pub(crate) fn is_over(&self) -> bool {
        self.reset.is_some() || self.has_arrived()
    }

    /// New bytes could be sent, as far as the stream's own window goes.
    pub(crate) fn has_new(&self) -> bool {
        self.buffer.next() < self.buffer.end().min(self.max_offset)
    }

    /// FIN can go out: all bytes have been scheduled.
    pub(crate) fn fin_ready(&self) -> bool {
        self.fin_wanted && self.buffer.next() == self.buffer.end()
    }

    /// All that waits to be sent is a FIN without bytes.
    pub(crate) fn is_end(&self) -> bool {
        self.reset.is_none() && self.fin_ready() && self.buffer.retransmit_bytes() == 0
    }

    /// Something could be sent on some subflow.
    pub(crate) fn is_sendable(&self) -> bool {
        self.reset.is_none()
            && (self.buffer.retransmit_bytes() > 0 || self.fin_ready() || self.has_new())
    }

    /// Something could be sent on `on` right now, with so much credit of the session's window.
    pub(crate) fn is_sendable_on(&self, on: SubflowId, credit: u64) -> bool {
        self.reset.is_none()
            && (self.buffer.has_retransmission_for(on)
                || self.fin_ready()
                || (credit > 0 && self.has_new()))
    }

    /// Whether a frame that ends at `end` ends the stream.
    pub(crate) fn ends_at(&self, end: u64) -> bool {
        self.finished && end == self.buffer.end() && self.buffer.next() == self.buffer.end()
    }

    /// Redundant scheduling: end of the bytes that a subflow has carried.
    pub(crate) fn copied_to(&self, on: SubflowId) -> u64 {
        let found = self.copied.iter().find(|(c, _)| *c == on);
        found.map_or(0, |(_, at)| *at)
    }

    pub(crate) fn note_copied(&mut self, on: SubflowId, end: u64) {
        match self.copied.iter_mut().find(|(c, _)| *c == on) {
            Some((_, at)) => *at = end,
            None => self.copied.push((on, end)),
        }
    }

    /// The session is over.
    pub(super) fn lose(&mut self) {
        if !self.is_done() {
            self.buffer.clear();
            self.reset = Some(Signal {
                code: ResetCode::SessionLost,
                state: SignalState::Acked,
            });
        }
    }

    /// A subflow is gone.
    pub(crate) fn forget_subflow(&mut self, gone: SubflowId) {
        self.buffer.forget_origin(gone);
        self.copied.retain(|(c, _)| *c != gone);
    }
}

/// Receiving half of a stream.
#[derive(Debug)]
pub(crate) struct RecvHalf {
    pub(crate) buffer: RecvBuffer,
    /// Our window: how far beyond what was read the peer may send.
    pub(crate) window: u64,
    /// Offsets below were granted.
    pub(crate) granted: u64,
    /// MAX_STREAM_DATA is to be written.
    pub(crate) grant_wanted: bool,
    /// Client: ends of chunks in what the peer sends, of which it is to be told.
    pub(crate) chunk_ends_to_tell: ChunkEnds,
    /// Read offset at the last growth of the window.
    pub(crate) grown_at: u64,
    /// When the application last read, or when unread bytes began to wait.
    pub(crate) read_at: Timestamp,
    /// Unread bytes have waited too long; they do not count against the session's window.
    pub(crate) stalled: bool,
    pub(crate) reset: Option<ResetCode>,
    pub(crate) stop: Option<Signal>,
    /// The application has learned how the half ended.
    pub(crate) end_read: bool,
}

impl RecvHalf {
    pub(super) fn new(now: Timestamp, window: u64) -> Self {
        Self {
            buffer: RecvBuffer::default(),
            window,
            granted: window,
            grant_wanted: false,
            chunk_ends_to_tell: ChunkEnds::default(),
            grown_at: 0,
            read_at: now,
            stalled: false,
            reset: None,
            stop: None,
            end_read: false,
        }
    }

    /// Everything the peer will ever send has been counted: a stream may not be forgotten before,
    /// or the two ends would disagree on what the session's window has been used for.
    pub(super) fn is_done(&self) -> bool {
        self.end_read && (self.reset.is_some() || self.buffer.finished())
    }

    /// The peer may still send, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.end_read && self.reset.is_none() && self.buffer.fin().is_none()
    }

    /// All bytes and FIN have arrived.
    fn has_arrived(&self) -> bool {
        let arrived = self.buffer.read_offset() + self.buffer.waiting_bytes();
        self.reset.is_none() && self.buffer.fin() == Some(arrived)
    }

    /// The session is over. Without an application nobody will read what has arrived.
    pub(super) fn lose(&mut self, has_application: bool) {
        self.end_read |= !has_application;
        if !(self.has_arrived() && has_application) && self.reset.is_none() {
            self.reset = Some(ResetCode::SessionLost);
        }
    }

    /// The application has something to read, be it the end.
    pub(crate) fn is_readable(&self) -> bool {
        self.buffer.readable() || self.buffer.finished() || self.reset.is_some()
    }
}
