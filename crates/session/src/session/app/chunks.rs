//! Ends of the application's chunks, and CHUNK frames, which tell a proxy of them.

use mpbond_units::Timestamp;

use crate::session::Session;
use crate::session::error::SubflowError;
use crate::session::streams::Streams;
use crate::subflow::SentFrame;
use crate::wire::Frame;
use crate::{CloseCode, StreamId};

impl Session {
    /// An application data chunk ends with the last byte written; schedulers hurry it up as a
    /// whole (MPBond section 4.4).
    pub fn mark_chunk_end(&mut self, id: StreamId) {
        if let Some(s) = self.streams.get(id) {
            let written = s.send.buffer.end();
            self.mark_chunk_end_at(id, written);
        }
    }

    /// The same, before the byte at `end`, which need not have been written. A mark in bytes that
    /// subflows were given already changes nothing, and neither does one of more than 64 that wait.
    pub fn mark_chunk_end_at(&mut self, id: StreamId, end: u64) {
        if let Some(s) = self.streams.get_mut(id) {
            s.send.buffer.mark_chunk_end(end);
            self.streams.update(id);
        }
    }

    /// Client: the same of the bytes that the peer sends, by a frame to it. A server does nothing.
    pub fn mark_peer_chunk_end(&mut self, id: StreamId, end: u64) {
        if self.identity.client {
            self.streams.tell_chunk_end(id, end);
        }
    }

    /// Server: the client has told the end of a chunk.
    pub(in crate::session) fn take_chunk(
        &mut self,
        now: Timestamp,
        id: StreamId,
        end: u64,
    ) -> Result<(), SubflowError> {
        if self.identity.client {
            return Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "only a primary tells ends of chunks",
            ));
        }
        if let Some(s) = self.known(now, id)? {
            s.send.buffer.mark_chunk_end(end);
            self.streams.update(id);
        }
        Ok(())
    }

    /// CHUNK frames of one stream.
    pub(in crate::session) fn put_chunks(
        &mut self,
        id: StreamId,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        let Some(s) = self.streams.get_mut(id) else {
            return;
        };
        while let Some(end) = s.recv.chunk_ends_to_tell.pop() {
            Frame::Chunk { stream: id, end }.encode(out);
            frames.push(SentFrame::Chunk { stream: id, end });
        }
    }
}

impl Streams {
    /// The peer is to learn that a chunk ends here, unless its bytes were read.
    pub(in crate::session) fn tell_chunk_end(&mut self, id: StreamId, end: u64) {
        if let Some(s) = self.get_mut(id)
            && end > s.recv.buffer.read_offset()
        {
            s.recv.chunk_ends_to_tell.insert(end);
            self.signal(id);
        }
    }
}
