//! The application's side: opening, writing, reading and ending streams; [`chunks`] for ends of its
//! chunks, [`reclass`] for changes of a stream's treatment.

mod chunks;
mod reclass;

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::Session;
use super::error::OpenError;
use super::event::{Event, Read};
use super::flow::Flow;
use super::timer::Timer;
use crate::signal::Signal;
use crate::stream::{STALLED_WINDOW_BYTES, Stream};
use crate::treatment::Treatment;
use crate::wire::{Destination, FrameType};
use crate::{PathSet, ResetCode, StreamId};

impl Session {
    /// Client: opens a stream. Bytes may be written at once; they travel with the OPEN.
    ///
    /// # Errors
    /// [`OpenError::Limit`] at the peer's limit, [`OpenError::Closed`] when the session is over,
    /// [`OpenError::Treatment`] where the peer does not [obey paths](Self::obeys_paths),
    /// or streams have too many sets of them.
    pub fn open(
        &mut self,
        now: Timestamp,
        destination: Destination,
        treatment: impl Into<Treatment>,
    ) -> Result<StreamId, OpenError> {
        self.open_as(now, destination, treatment.into(), false)
    }

    /// Client: opens a stream, and asks whether its destination is reached:
    /// [`Event::StreamConnected`] is the answer, or the end of the stream. Needs a peer that
    /// [`confirms`](Self::confirms).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_confirmed(
        &mut self,
        now: Timestamp,
        destination: Destination,
        treatment: impl Into<Treatment>,
    ) -> Result<StreamId, OpenError> {
        self.open_as(now, destination, treatment.into(), true)
    }

    /// Client: whether the peer is known to answer [`open_confirmed`](Self::open_confirmed).
    pub fn confirms(&self) -> bool {
        let peer = self.identity.peer.as_ref();
        peer.is_some_and(|p| p.frame_types.contains(FrameType::CONNECTED))
    }

    /// Client: whether the peer is known to obey sets of paths.
    pub fn obeys_paths(&self) -> bool {
        let peer = self.identity.peer.as_ref();
        peer.is_some_and(|p| p.obeys_paths)
    }

    /// Server: the destination of a stream is reached. The client is told if it has asked.
    pub fn connected(&mut self, id: StreamId) {
        if let Some(s) = self.streams.get_mut(id)
            && std::mem::take(&mut s.opening.unconfirmed)
        {
            s.opening.connected_wanted = true;
            self.streams.signal(id);
        }
    }

    /// Reason for which the peer has given its half of a stream up; `None` while it has not.
    pub fn reset_code(&self, id: StreamId) -> Option<ResetCode> {
        self.streams.get(id)?.recv.reset
    }

    /// Whether a stream is reset both ways: by its peer, which has sent RESET and STOP, or by the
    /// end of the session. Nothing of it will be carried any more.
    pub fn is_given_up(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|s| s.recv.reset.is_some() && s.send.reset.is_some())
    }

    fn open_as(
        &mut self,
        now: Timestamp,
        destination: Destination,
        treatment: Treatment,
        confirmed: bool,
    ) -> Result<StreamId, OpenError> {
        if self.identity.lost || self.identity.going_away {
            return Err(OpenError::Closed);
        }
        if self.streams_left() == 0 {
            return Err(OpenError::Limit);
        }
        self.check_paths(PathSet::ALL, treatment.paths)
            .map_err(OpenError::Treatment)?;
        let window = self.flow.new_stream_window(&self.streams);
        let mut s = Stream::new(treatment.bounded(), Some(destination), now, window);
        s.opening.unconfirmed = confirmed;
        s.opening.wanted = true;
        s.opening.unacked = true;
        s.opening.announced = true;
        s.send.max_offset = self.flow.peer.max_stream_data;
        let id = self.streams.open(s);
        self.stats.streams_total += 1;
        self.liveness.reset();
        self.streams.signal(id);
        Ok(id)
    }

    /// Client: number of streams that may be opened now. [`Event::StreamsAllowed`] follows when the
    /// peer raises it.
    pub fn streams_left(&self) -> u64 {
        if self.identity.lost || self.identity.going_away {
            return 0;
        }
        // Before MP_OK the peer's limits are unknown; it grants at least one stream.
        let limit = match self.identity.established {
            true => self.flow.peer.max_streams,
            false => self.config.max_streams,
        };
        limit.saturating_sub(self.streams.next())
    }

    /// Number of bytes that the stream takes now. When it is zero, [`Event::StreamWritable`]
    /// follows once it no longer is. Reading the application faster than this only fills memory.
    pub fn send_budget(&mut self, id: StreamId) -> u64 {
        let budget = self.streams.budget(id, self.config.send_memory_bytes);
        if budget == 0 {
            self.streams.block(id);
        }
        budget
    }

    /// Queues bytes of a stream to be sent. They are taken whole, also beyond
    /// [`send_budget`](Self::send_budget), and dropped when the sending half is over.
    pub fn write(&mut self, id: StreamId, bytes: Bytes) {
        if self.streams.held_open() == 0 {
            self.reinjection.transfer_begins(&self.stats);
        }
        self.reinjection.on_written();
        if self.identity.client {
            self.streams.asked(id);
        }
        self.streams.write(id, bytes);
    }

    /// Client: whether the peer has acknowledged and answered nothing of a stream, not even its
    /// OPEN. The bytes written may have arrived all the same.
    pub fn is_unheard(&self, id: StreamId) -> bool {
        self.streams.get(id).is_some_and(Stream::is_unheard)
    }

    /// Client: a copy of the bytes that the application has written on such a stream.
    pub fn unheard(&self, id: StreamId) -> Option<Vec<u8>> {
        let s = self.streams.get(id).filter(|s| s.is_unheard())?;
        let mut written = Vec::new();
        for bytes in s.send.buffer.chunks() {
            written.extend_from_slice(bytes);
        }
        Some(written)
    }

    /// Ends the sending half: all bytes written will arrive, then FIN.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(s) = self.streams.get_mut(id).filter(|s| s.send.is_writable()) {
            s.send.finished = true;
            s.send.fin_wanted = true;
            self.streams.update(id);
        }
    }

    /// Gives the sending half up: bytes that have not arrived may never arrive.
    pub fn reset(&mut self, now: Timestamp, id: StreamId, code: ResetCode) {
        if self.streams.reset(id, code) {
            self.close_if_done(now, id);
        }
    }

    /// Gives the receiving half up: the peer is asked to stop, arriving bytes are dropped.
    pub fn stop(&mut self, now: Timestamp, id: StreamId, code: ResetCode) {
        let Some(s) = self.streams.get_mut(id).filter(|s| !s.recv.end_read) else {
            return;
        };
        s.recv.end_read = true;
        s.recv.stop = Some(Signal::wanted(code));
        self.streams.signal_end(id);
        self.streams.update(id);
        self.flow.discard(id, &mut self.streams, &mut self.control);
        self.close_if_done(now, id);
    }

    /// Reads the next bytes in order. They count as consumed: the peer may send as many more.
    pub fn read(&mut self, now: Timestamp, id: StreamId) -> Read {
        let Some(s) = self.streams.get_mut(id).filter(|s| !s.recv.end_read) else {
            return Read::Pending;
        };
        let recv = &mut s.recv;
        if let Some(bytes) = recv.buffer.read() {
            self.flow.consumed(bytes.len() as u64);
            if recv.stalled {
                recv.stalled = false;
                recv.window = STALLED_WINDOW_BYTES;
                self.flow.unstalled();
            }
            recv.read_at = now;
            self.flow.grant(id, &mut self.streams, &mut self.control);
            return Read::Data(bytes);
        }
        let end = match recv.reset {
            Some(code) => Read::Reset(code),
            None if recv.buffer.finished() => Read::Fin,
            None => return Read::Pending,
        };
        recv.end_read = true;
        self.close_if_done(now, id);
        end
    }

    /// Sets the receive window: bytes that the peer may have on the way or unread here, at most
    /// those of the configuration. Called when memory becomes short or free. Windows that were
    /// granted stay granted.
    pub fn limit_receiving(&mut self, window_bytes: u64) {
        if !self.identity.client && self.subflows.is_empty() && self.flow.is_unused() {
            self.flow.limit_at_first(window_bytes);
        }
        let (streams, control) = (&self.streams, &mut self.control);
        self.flow.limit(window_bytes, streams, control);
    }

    /// The receive window, as [`limit_receiving`](Self::limit_receiving) has set it.
    pub fn receive_window_bytes(&self) -> u64 {
        self.flow.window()
    }

    /// Sends GO_AWAY: this end takes no new streams; open ones go on, also those that the peer
    /// opens before it has received the frame.
    pub fn go_away(&mut self, reason: &str) {
        self.identity.going_away = true;
        self.control.go_away = Some(reason.to_owned());
        self.control.go_away_wanted = true;
    }

    /// A stream has something to read since now, or its end.
    pub(super) fn note_readable(&mut self, now: Timestamp, id: StreamId) {
        if let Some(s) = self.streams.get_mut(id).filter(|s| !s.recv.stalled) {
            s.recv.read_at = s.recv.read_at.max(now);
        }
        if self.timers.get(Timer::Stall).is_none() {
            self.timers.set(Timer::Stall, Some(Flow::stalls_at(now)));
        }
        self.events.push_back(Event::StreamReadable(id));
    }
}
