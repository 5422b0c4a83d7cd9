//! Change of an open stream's class: CLASS frames.

use mpbond_units::Timestamp;

use super::Session;
use super::error::SubflowError;
use super::streams::Streams;
use crate::subflow::SentFrame;
use crate::wire::Frame;
use crate::{CloseCode, StreamClass, StreamId};

impl Session {
    /// Client: changes the class of an open stream, and tells the peer. At a server it does
    /// nothing: the client knows its applications.
    pub fn set_class(&mut self, id: StreamId, class: StreamClass) {
        if !self.identity.client {
            return;
        }
        let Some(s) = self.streams.get_mut(id).filter(|s| s.class != class) else {
            return;
        };
        // An OPEN that was never written has the class when it is. One that is to be written again
        // may have arrived already, and is skipped there.
        let told = s.opening.written;
        if told {
            s.class_change.number += 1;
        }
        self.streams.reclass(id, class);
        if told {
            self.streams.signal_class(id);
        }
    }

    /// Server: the client has changed the class of a stream.
    pub(super) fn take_class(
        &mut self,
        now: Timestamp,
        id: StreamId,
        change: u64,
        class: StreamClass,
    ) -> Result<(), SubflowError> {
        if self.identity.client {
            return Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "only a primary changes the class of a stream",
            ));
        }
        if let Some(s) = self.known(now, id)?
            && s.class_change.number < change
        {
            s.class_change.number = change;
            self.streams.reclass(id, class);
        }
        Ok(())
    }

    /// CLASS of one stream, if it is to be written.
    pub(super) fn put_class(
        &mut self,
        id: StreamId,
        out: &mut Vec<u8>,
        frames: &mut Vec<SentFrame>,
    ) {
        if let Some(s) = self.streams.get_mut(id)
            && std::mem::take(&mut s.class_change.wanted)
        {
            Frame::Class {
                stream: id,
                change: s.class_change.number,
                class: s.class,
            }
            .encode(out);
            frames.push(SentFrame::Class(id));
        }
    }
}

impl Streams {
    /// CLASS of the stream is to be written.
    pub(super) fn signal_class(&mut self, id: StreamId) {
        if let Some(s) = self.get_mut(id) {
            s.class_change.wanted = true;
            self.signal(id);
        }
    }
}
