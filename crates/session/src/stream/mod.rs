//! Streams: ordered bytes both ways, each way ended by FIN, RESET or STOP.

mod recv;
mod send;

use bytes::Bytes;
use mpbond_units::Timestamp;

pub(crate) use recv::{RecvBuffer, RecvError};
pub(crate) use send::SendBuffer;

use crate::stats::{StreamShare, StreamStats};
use crate::subflow::{Signal, SignalState};
use crate::wire::Destination;
use crate::{ResetCode, StreamClass, StreamId, SubflowId};

/// What a stalled stream's window falls to.
pub(crate) const STALLED_WINDOW_BYTES: u64 = 64 << 10;

/// Subflows that a stream tells its shares of; the oldest are forgotten. Whoever joins anew for days
/// must not fill memory.
const MAX_SHARES: usize = 256;

/// A stream at one end.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) class: StreamClass,
    pub(crate) destination: Option<Destination>,
    /// Client: OPEN is still to be written (or to be written again).
    pub(crate) open_wanted: bool,
    /// Client: OPEN has not arrived yet, as far as is known. Until then the stream may not be
    /// forgotten, or a server that has seen only its RESET and STOP would keep it for ever.
    pub(crate) open_owed: bool,
    /// Server: OPEN has arrived.
    pub(crate) announced: bool,

    pub(crate) send: SendBuffer,
    /// The application has finished writing.
    pub(crate) finish: bool,
    /// FIN is to be written (or to be written again).
    pub(crate) fin_wanted: bool,
    pub(crate) fin_acked: bool,
    /// The peer's window: offsets below may be sent.
    pub(crate) max_send: u64,
    pub(crate) reset_out: Option<Signal>,

    pub(crate) recv: RecvBuffer,
    /// Our window: how far beyond what was read the peer may send.
    pub(crate) window: u64,
    /// Offsets below were granted.
    pub(crate) granted: u64,
    pub(crate) grant_wanted: bool,
    /// Read offset at the last growth of the window.
    pub(crate) grown_at: u64,
    /// When the application last read, or when unread bytes began to wait.
    pub(crate) read_at: Timestamp,
    /// Unread bytes have waited too long; they do not count against the session's window.
    pub(crate) stalled: bool,
    pub(crate) reset_in: Option<ResetCode>,
    pub(crate) stop_out: Option<Signal>,
    /// The application has learned how the receiving half ended.
    pub(crate) end_read: bool,

    /// Bytes were written since bytes last came.
    pub(crate) wrote_last: bool,
    /// Counts among the streams that await an answer.
    pub(crate) awaits: bool,

    /// Stands in the queue of streams with something to send.
    pub(crate) queued: bool,
    /// What it contributes to the session's sum of unscheduled bytes.
    pub(crate) backlog: u64,
    /// And of bytes to be sent again.
    pub(crate) again: u64,
    /// Redundant scheduling: how far each subflow has carried it.
    pub(crate) copied: Vec<(SubflowId, u64)>,

    pub(crate) opened: Timestamp,
    pub(crate) first_in: Option<Timestamp>,
    pub(crate) unique_in: u64,
    pub(crate) redundant_in: u64,
    pub(crate) redundant_out: u64,
    pub(crate) shares: Vec<StreamShare>,
}

impl Stream {
    pub(crate) fn new(
        class: StreamClass,
        destination: Option<Destination>,
        now: Timestamp,
        window: u64,
    ) -> Self {
        Self {
            class,
            destination,
            open_wanted: false,
            open_owed: false,
            announced: false,
            send: SendBuffer::default(),
            finish: false,
            fin_wanted: false,
            fin_acked: false,
            max_send: 0,
            reset_out: None,
            recv: RecvBuffer::default(),
            window,
            granted: window,
            grant_wanted: false,
            grown_at: 0,
            read_at: now,
            stalled: false,
            reset_in: None,
            stop_out: None,
            end_read: false,
            wrote_last: false,
            awaits: false,
            queued: false,
            backlog: 0,
            again: 0,
            copied: Vec::new(),
            opened: now,
            first_in: None,
            unique_in: 0,
            redundant_in: 0,
            redundant_out: 0,
            shares: Vec::new(),
        }
    }

    pub(crate) fn share(&mut self, subflow: SubflowId) -> &mut StreamShare {
        let i = match self.shares.iter().position(|s| s.subflow == subflow) {
            Some(i) => i,
            None => {
                if self.shares.len() >= MAX_SHARES {
                    self.shares.remove(0);
                }
                self.shares.push(StreamShare {
                    subflow,
                    bytes_in: 0,
                    bytes_out: 0,
                    last_in: None,
                    last_out: None,
                });
                self.shares.len() - 1
            }
        };
        &mut self.shares[i]
    }

    /// Nothing more will be sent and everything sent has arrived.
    fn send_done(&self) -> bool {
        match self.reset_out {
            Some(s) => s.state == SignalState::Acked,
            None => self.fin_acked && self.send.all_acked(),
        }
    }

    /// Everything the peer will ever send has been counted: a stream may not be forgotten before,
    /// or the two ends would disagree on what the session's window has been used for.
    fn recv_done(&self) -> bool {
        self.end_read && (self.reset_in.is_some() || self.recv.finished())
    }

    /// Both halves are over and the application knows.
    pub(crate) fn done(&self) -> bool {
        !self.open_owed && self.send_done() && self.recv_done()
    }

    /// The sending half still takes bytes.
    pub(crate) fn writable(&self) -> bool {
        !self.finish && self.reset_out.is_none()
    }

    /// Something could be sent on `on` right now, as far as the stream is concerned.
    pub(crate) fn sendable_on(&self, on: SubflowId, credit: u64) -> bool {
        if self.reset_out.is_some() {
            return false;
        }
        self.send.has_again_for(on)
            || self.fin_ready()
            || (credit > 0 && self.send.next() < self.send.end().min(self.max_send))
    }

    /// Something could be sent on some subflow.
    pub(crate) fn sendable(&self) -> bool {
        self.reset_out.is_none()
            && (self.send.again_bytes() > 0
                || self.fin_ready()
                || self.send.next() < self.send.end().min(self.max_send))
    }

    /// FIN can go out: all bytes have been scheduled.
    pub(crate) fn fin_ready(&self) -> bool {
        self.fin_wanted && self.send.next() == self.send.end()
    }

    /// The peer owes an answer, as far as can be told: something was asked since bytes last came, or
    /// all has been asked and the end has not come.
    pub(crate) fn awaits_answer(&self) -> bool {
        let open = !self.end_read && self.reset_in.is_none() && self.recv.fin().is_none();
        open && (self.finish || self.wrote_last)
    }

    pub(crate) fn write(&mut self, bytes: Bytes) {
        self.send.write(bytes);
    }

    pub(crate) fn stats(&self, id: StreamId, closed: Option<Timestamp>) -> StreamStats {
        StreamStats {
            id,
            destination: self.destination.clone(),
            class: self.class,
            opened: self.opened,
            first_in: self.first_in,
            closed,
            bytes_in: self.unique_in,
            bytes_out: self.send.next(),
            redundant_bytes_in: self.redundant_in,
            redundant_bytes_out: self.redundant_out,
            subflows: self.shares.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_subflows_long_gone_are_forgotten() {
        let mut s = Stream::new(StreamClass::Bulk, None, Timestamp::ZERO, 0);
        for n in 0..10_000 {
            s.share(SubflowId(n)).bytes_in += 1;
        }
        assert_eq!(s.shares.len(), MAX_SHARES);
        assert_eq!(s.shares.last().map(|s| s.subflow), Some(SubflowId(9_999)));
    }
}
