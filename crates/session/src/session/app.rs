//! What the application does with streams.

use std::time::Duration;

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::{Event, OpenError, Read, Session};
use crate::stream::{STALLED_WINDOW_BYTES, Stream};
use crate::subflow::Signal;
use crate::wire::Destination;
use crate::{ResetCode, StreamClass, StreamId};

/// An application that leaves readable bytes alone for so long has stalled.
const STALL_AFTER: Duration = Duration::from_secs(1);

/// Every stream may keep this much to send, however many there are.
const LEAST_SEND_BUFFER: u64 = 64 << 10;

impl Session {
    /// Client: opens a stream. Bytes may be written at once; they travel with the OPEN.
    ///
    /// # Errors
    /// [`OpenError::Limit`] at the peer's limit, [`OpenError::Closed`] when the session is over.
    pub fn open(
        &mut self,
        now: Timestamp,
        destination: Destination,
        class: StreamClass,
    ) -> Result<StreamId, OpenError> {
        if self.lost || self.going_away {
            return Err(OpenError::Closed);
        }
        // Before MP_OK the peer's limits are unknown; it grants at least one stream.
        if self.established && self.next_stream >= self.peer.max_streams {
            return Err(OpenError::Limit);
        }
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        let mut s = Stream::new(class, Some(destination), now, self.new_stream_window());
        s.open_wanted = true;
        s.open_owed = true;
        s.announced = true;
        s.max_send = self.peer.max_stream_data;
        self.streams.insert(id, s);
        self.stats.streams_total += 1;
        self.asks = 0;
        self.signal(id);
        Ok(id)
    }

    /// What a new stream may send to us before it hears more. All windows together never exceed
    /// what the session may hold, so that applications that stop reading leave something to others.
    pub(super) fn new_stream_window(&self) -> u64 {
        self.config
            .initial_stream_window_bytes
            .min(self.ungranted() / 4)
            .max(STALLED_WINDOW_BYTES)
    }

    /// What of the memory for arriving bytes no stream has been granted.
    fn ungranted(&self) -> u64 {
        let windows = self.streams.values();
        let granted: u64 = windows.map(|s| s.granted - s.recv.read_offset()).sum();
        self.receive_memory().saturating_sub(granted)
    }

    fn receive_memory(&self) -> u64 {
        self.config.receive_window_bytes + self.config.stalled_memory_bytes
    }

    /// What every stream of the peer may send before it hears anything, as the hello says.
    pub(super) fn hello_stream_window(&self) -> u64 {
        self.config
            .initial_stream_window_bytes
            .min(self.receive_memory() / 32)
    }

    /// How many bytes the stream takes now. When it is zero, [`Event::StreamWritable`] will tell.
    /// Reading the application faster than this would only fill memory.
    pub fn send_budget(&mut self, id: StreamId) -> u64 {
        let budget = self.budget(id);
        if budget == 0 && self.streams.contains_key(&id) && !self.blocked.contains(&id) {
            self.blocked.push(id);
        }
        budget
    }

    fn budget(&self, id: StreamId) -> u64 {
        let Some(s) = self.streams.get(&id).filter(|s| s.writable()) else {
            return 0;
        };
        // A stream whose peer does not read gets no more of our memory than one frame or so.
        let ahead = s.max_send.max(s.send.next()) + LEAST_SEND_BUFFER;
        let window = ahead.saturating_sub(s.send.end());
        let free = self.config.send_memory_bytes.saturating_sub(self.held);
        let least = LEAST_SEND_BUFFER.saturating_sub(s.send.held_bytes());
        // Nobody takes all that is free while others wait for theirs.
        let sharers = self.ready[0].len() + self.ready[1].len() + self.blocked.len();
        let fair = if sharers > 1 {
            free / sharers as u64
        } else {
            free
        };
        window.min(fair.max(least))
    }

    pub(super) fn wake_writers(&mut self) {
        let mut i = 0;
        while i < self.blocked.len() {
            let id = self.blocked[i];
            if self.budget(id) > 0 {
                self.blocked.swap_remove(i);
                self.events.push_back(Event::StreamWritable(id));
            } else {
                i += 1;
            }
        }
    }

    /// Gives the stream bytes to send. They are taken whole, also beyond
    /// [`send_budget`](Self::send_budget); dropped when the sending half is over.
    pub fn write(&mut self, id: StreamId, bytes: Bytes) {
        if self.held == 0 {
            self.idle_mark = (self.stats.bytes_out, self.stats.reinjected_bytes_out);
        }
        if let Some(s) = self.streams.get_mut(&id).filter(|s| s.writable()) {
            self.held += bytes.len() as u64;
            s.write(bytes);
            s.wrote_last = true;
            self.touch(id);
        }
    }

    /// An application data chunk ends with the last byte written; schedulers hurry it up as a
    /// whole (MPBond paper, section 4.4).
    pub fn mark_chunk_end(&mut self, id: StreamId) {
        if let Some(s) = self.streams.get_mut(&id) {
            s.send.mark_chunk_end();
            self.touch(id);
        }
    }

    /// Client: what the application has written on a stream of which the peer has acknowledged and
    /// answered nothing, not even that it is open. It may have arrived all the same.
    pub fn unheard(&self, id: StreamId) -> Option<Vec<u8>> {
        let s = self.streams.get(&id)?;
        if !s.open_owed || s.recv.highest() > 0 || s.recv.fin().is_some() || s.reset_in.is_some() {
            return None;
        }
        let mut written = Vec::new();
        s.send.unheard()?.for_each(|b| written.extend_from_slice(b));
        Some(written)
    }

    /// Ends the sending half: all bytes written will arrive, then FIN.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(s) = self.streams.get_mut(&id).filter(|s| s.writable()) {
            s.finish = true;
            s.fin_wanted = true;
            self.touch(id);
        }
    }

    /// Gives the sending half up: bytes not yet arrived may never do.
    pub fn reset(&mut self, now: Timestamp, id: StreamId, code: ResetCode) {
        let Some(s) = self.streams.get_mut(&id) else {
            return;
        };
        let over = s.reset_out.is_some() || (s.fin_acked && s.send.all_acked());
        if over {
            return;
        }
        self.held -= s.send.held_bytes();
        s.send.clear();
        s.reset_out = Some(Signal::wanted(code));
        self.touch(id);
        self.signal(id);
        self.close_if_done(now, id);
    }

    /// Gives the receiving half up: the peer is asked to stop, arriving bytes are dropped.
    pub fn stop(&mut self, now: Timestamp, id: StreamId, code: ResetCode) {
        let Some(s) = self.streams.get_mut(&id) else {
            return;
        };
        if s.end_read {
            return;
        }
        s.end_read = true;
        s.stop_out = Some(Signal::wanted(code));
        self.signal(id);
        self.touch(id);
        self.discard_unread(id);
        self.close_if_done(now, id);
    }

    /// Reads the next bytes in order. They count as consumed: the peer may send as many more.
    pub fn read(&mut self, now: Timestamp, id: StreamId) -> Read {
        let Some(s) = self.streams.get_mut(&id) else {
            return Read::Pending;
        };
        if s.end_read {
            return Read::Pending;
        }
        if let Some(bytes) = s.recv.read() {
            self.read_data += bytes.len() as u64;
            self.pieces -= 1;
            if s.stalled {
                s.stalled = false;
                self.stalled_streams -= 1;
                s.window = STALLED_WINDOW_BYTES;
            }
            s.read_at = now;
            self.grant(id);
            return Read::Data(bytes);
        }
        if let Some(code) = s.reset_in {
            s.end_read = true;
            self.close_if_done(now, id);
            return Read::Reset(code);
        }
        if s.recv.finished() {
            s.end_read = true;
            self.close_if_done(now, id);
            return Read::Fin;
        }
        Read::Pending
    }

    /// Raises windows after bytes were consumed, a quarter of a window at a time.
    pub(super) fn grant(&mut self, id: StreamId) {
        self.grant_session();
        let cap = self.receive_window;
        let grows = self
            .streams
            .get(&id)
            .is_some_and(|s| s.recv.read_offset() - s.grown_at >= s.window / 2 && s.window < cap);
        let grows = grows
            && self
                .streams
                .get(&id)
                .is_some_and(|s| self.ungranted() / 4 >= s.window);
        let Some(s) = self.streams.get_mut(&id) else {
            return;
        };
        let read = s.recv.read_offset();
        if grows {
            s.window = (s.window * 2).min(cap);
            s.grown_at = read;
        }
        let grant = read + s.window;
        let over = s.recv.fin().is_some();
        if !over && grant >= s.granted + s.window / 4 {
            s.granted = grant;
            s.grant_wanted = true;
            self.signal(id);
        }
    }

    /// Memory is short, or is no longer: from now on the peer may have so many bytes on the way or
    /// unread here, and never more than the configuration says. What was granted stays granted.
    pub fn limit_receiving(&mut self, window_bytes: u64) {
        self.receive_window = window_bytes.min(self.config.receive_window_bytes);
        if !self.client && self.subflows.is_empty() && self.rx_data == 0 {
            // Nothing has been granted yet.
            self.granted_data = self.receive_window;
        }
        self.grant_session();
    }

    /// What [`limit_receiving`](Self::limit_receiving) has come to.
    pub fn receive_window_bytes(&self) -> u64 {
        self.receive_window
    }

    pub(super) fn grant_session(&mut self) {
        let stalled: u64 = if self.stalled_streams == 0 {
            0
        } else {
            let stalled = self.streams.values().filter(|s| s.stalled);
            stalled.map(|s| s.recv.waiting_bytes()).sum()
        };
        let window = self.receive_window;
        let most = self.config.stalled_memory_bytes.min(window * 3);
        let grant = self.read_data + window + stalled.min(most);
        if grant >= self.granted_data + window / 4 {
            self.granted_data = grant;
            self.max_data_wanted = true;
        }
    }

    /// Bytes that nobody will read count as read.
    pub(super) fn discard_unread(&mut self, id: StreamId) {
        let Some(s) = self.streams.get_mut(&id) else {
            return;
        };
        while let Some(bytes) = s.recv.read() {
            self.read_data += bytes.len() as u64;
            self.pieces -= 1;
        }
        self.grant(id);
    }

    /// Looks for streams whose application has stopped reading, so that what they hold does not
    /// starve the others. Returns when to look again.
    pub(super) fn check_stalls(&mut self, now: Timestamp) {
        let mut next: Option<Timestamp> = None;
        let mut found = false;
        for s in self.streams.values_mut() {
            if s.stalled || !s.recv.readable() {
                continue;
            }
            let at = s.read_at + STALL_AFTER;
            if at <= now {
                s.stalled = true;
                self.stalled_streams += 1;
                found = true;
            } else {
                next = Some(next.map_or(at, |n| n.min(at)));
            }
        }
        self.stall_check = next;
        if found {
            self.grant_session();
        }
    }

    pub(super) fn note_readable(&mut self, now: Timestamp, id: StreamId) {
        if let Some(s) = self.streams.get_mut(&id)
            && !s.stalled
        {
            s.read_at = s.read_at.max(now);
        }
        if self.stall_check.is_none() {
            self.stall_check = Some(now + STALL_AFTER);
        }
        self.events.push_back(Event::StreamReadable(id));
    }

    /// No new streams from the peer from now on, says GOAWAY; open ones go on.
    pub fn go_away(&mut self, reason: &str) {
        self.go_away = Some(reason.to_owned());
    }
}
