//! Streams: ordered bytes both ways, each way ended by FIN, RESET or STOP.

mod chunk_ends;
mod halves;
mod recv_buffer;
mod send_buffer;

use mpbond_units::Timestamp;

use halves::{RecvHalf, SendHalf};
pub(crate) use recv_buffer::RecvError;

use crate::copies::{Cause, Copies};
use crate::session::Place;
use crate::stats::{StreamShare, StreamStats};
use crate::treatment::Treatment;
use crate::wire::Destination;
use crate::{StreamId, SubflowId};

/// Window of a stalled stream.
pub(crate) const STALLED_WINDOW_BYTES: u64 = 64 << 10;

/// Most subflows of which a stream keeps its share; the oldest are forgotten. Joining anew for days
/// must not fill memory.
const MAX_SHARES: usize = 256;

/// A stream at one end.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) treatment: Treatment,
    pub(crate) treatment_change: TreatmentChange,
    /// Bytes given to subflows since the count last restarted: at a request or, for an interactive
    /// stream, when bytes began to wait (`session::order`).
    pub(crate) served: u64,
    /// Restarts of that count.
    pub(crate) restarts: u32,
    pub(crate) destination: Option<Destination>,
    pub(crate) opening: Opening,
    pub(crate) send: SendHalf,
    pub(crate) recv: RecvHalf,
    /// Bytes were written since bytes last came.
    pub(crate) wrote_last: bool,
    pub(crate) listed: Listed,
    pub(crate) counters: Counters,
}

/// State of a stream's OPEN.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Client: OPEN is to be written (or to be written again).
    pub(crate) wanted: bool,
    /// Client: OPEN was written, at least once.
    pub(crate) written: bool,
    /// Client: OPEN has not arrived yet, as far as is known. Until then the stream may not be
    /// forgotten, or a server that has seen only its RESET and STOP would keep it for ever.
    pub(crate) unacked: bool,
    /// The application knows the stream. Server: OPEN has arrived.
    pub(crate) announced: bool,
    /// OPEN asks for CONNECTED, which has not come (client) or was not sent (server).
    pub(crate) unconfirmed: bool,
    /// Server: CONNECTED is to be written (or to be written again).
    pub(crate) connected_wanted: bool,
}

/// Changes of a stream's treatment since its OPEN.
#[derive(Debug, Default)]
pub(crate) struct TreatmentChange {
    /// Number of the last change; none is zero.
    pub(crate) number: u64,
    /// Client: CLASS is to be written (or to be written again).
    pub(crate) wanted: bool,
}

/// A stream's part in the sums and queues of all streams.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Place in the queue of streams with something to send. One that is being served keeps its
    /// last.
    pub(crate) queued: Option<Place>,
    /// Unscheduled bytes, those to be sent again included.
    pub(crate) unscheduled: u64,
    /// Bytes to be sent again.
    pub(crate) retransmit: u64,
    /// Bytes that subflows were given, from the first one on that has not arrived.
    pub(crate) outstanding: u64,
    /// Bytes that are known to follow the unscheduled ones.
    pub(crate) declared: u64,
    /// Counts among the streams that await an answer.
    pub(crate) awaits: bool,
    /// Stands among those of which only the end waits to be sent.
    pub(crate) is_end: bool,
    /// Its application waits until it may write.
    pub(crate) blocked: bool,
    /// Something has happened to it since the waiting applications were last looked at.
    pub(crate) touched: bool,
    /// Bytes that the peer was granted and the application has not read.
    pub(crate) granted: u64,
    /// Bytes that have arrived, while the stream is stalled.
    pub(crate) stalled: u64,
    /// Shares of subflows.
    pub(crate) shares: usize,
}

/// Counters of a stream.
#[derive(Debug)]
pub(crate) struct Counters {
    opened: Timestamp,
    first_in: Option<Timestamp>,
    unique_in: u64,
    redundant_in: u64,
    copies_out: Copies,
    shares: Vec<StreamShare>,
}

impl Counters {
    fn new(now: Timestamp) -> Self {
        Self {
            opened: now,
            first_in: None,
            unique_in: 0,
            redundant_in: 0,
            copies_out: Copies::default(),
            shares: Vec::new(),
        }
    }

    /// Number of subflows of which it keeps the share.
    pub(crate) fn shares(&self) -> usize {
        self.shares.len()
    }

    fn share(&mut self, subflow: SubflowId) -> &mut StreamShare {
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

    /// `bytes` arrived on a subflow, `redundant` of them for the second time.
    pub(crate) fn received(&mut self, now: Timestamp, on: SubflowId, bytes: u64, redundant: u64) {
        self.first_in.get_or_insert(now);
        self.unique_in += bytes - redundant;
        self.redundant_in += redundant;
        let share = self.share(on);
        share.bytes_in += bytes;
        if redundant < bytes {
            share.last_in = Some(now);
        }
    }

    /// `bytes` were given to a subflow, copies if they have a cause.
    pub(crate) fn sent(&mut self, now: Timestamp, on: SubflowId, bytes: u64, copy: Option<Cause>) {
        let share = self.share(on);
        share.bytes_out += bytes;
        share.last_out = Some(now);
        if let Some(cause) = copy {
            self.copies_out.add(cause, bytes);
        }
    }
}

impl Stream {
    pub(crate) fn new(
        treatment: impl Into<Treatment>,
        destination: Option<Destination>,
        now: Timestamp,
        window: u64,
    ) -> Self {
        Self {
            treatment: treatment.into(),
            treatment_change: TreatmentChange::default(),
            served: 0,
            restarts: 0,
            destination,
            opening: Opening::default(),
            send: SendHalf::default(),
            recv: RecvHalf::new(now, window),
            wrote_last: false,
            listed: Listed::default(),
            counters: Counters::new(now),
        }
    }

    /// The count of bytes given restarts.
    pub(crate) fn restart_count(&mut self) {
        self.served = 0;
        self.restarts = self.restarts.wrapping_add(1);
    }

    /// Shares of subflows that have come since this was last called: none goes.
    pub(crate) fn uncounted_shares(&mut self) -> usize {
        let shares = self.counters.shares();
        shares - std::mem::replace(&mut self.listed.shares, shares)
    }

    /// Both halves are over and the application knows.
    pub(crate) fn is_done(&self) -> bool {
        !self.opening.unacked && self.send.is_done() && self.recv.is_done()
    }

    /// The peer owes an answer, as far as can be told: something was asked since bytes last came,
    /// or all has been asked and the end has not come.
    pub(crate) fn awaits_answer(&self) -> bool {
        let asked = self.send.finished || self.wrote_last || self.opening.unconfirmed;
        self.recv.is_open() && asked
    }

    /// The session is over: what has not arrived completely is reset.
    pub(crate) fn lose(&mut self) {
        self.opening.unacked = false;
        self.send.lose();
        self.recv.lose(self.opening.announced);
    }

    /// Whether the peer has neither acknowledged nor sent anything of it.
    pub(crate) fn is_unheard(&self) -> bool {
        let recv = &self.recv;
        self.opening.unacked
            && recv.buffer.highest() == 0
            && recv.buffer.fin().is_none()
            && recv.reset.is_none()
            && self.send.buffer.is_unheard()
    }

    pub(crate) fn stats(&self, id: StreamId, closed: Option<Timestamp>) -> StreamStats {
        StreamStats {
            id,
            destination: self.destination.clone(),
            class: self.treatment.class,
            priority: self.treatment.priority,
            paths: self.treatment.paths,
            opened: self.counters.opened,
            first_in: self.counters.first_in,
            closed,
            reset: self
                .recv
                .reset
                .or(self.send.reset.map(|signal| signal.code)),
            bytes_in: self.counters.unique_in,
            bytes_out: self.send.buffer.next(),
            redundant_bytes_in: self.counters.redundant_in,
            copies_out: self.counters.copies_out,
            subflows: self.counters.shares.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamClass;

    #[test]
    fn shares_of_subflows_long_gone_are_forgotten() {
        let mut s = Stream::new(StreamClass::Bulk, None, Timestamp::ZERO, 0);
        for n in 0..10_000 {
            s.counters.share(SubflowId(n)).bytes_in += 1;
        }
        assert_eq!(s.counters.shares.len(), MAX_SHARES);
        assert_eq!(
            s.counters.shares.last().map(|s| s.subflow),
            Some(SubflowId(9_999))
        );
    }
}
