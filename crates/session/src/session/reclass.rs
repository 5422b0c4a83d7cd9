//! Change of an open stream's treatment: CLASS frames.

use mpbond_units::Timestamp;

use super::Session;
use super::error::{SubflowError, TreatmentError};
use super::streams::Streams;
use crate::subflow::SentFrame;
use crate::treatment::Treatment;
use crate::wire::Frame;
use crate::{CloseCode, StreamClass, StreamId};

impl Session {
    /// Client: changes the class of an open stream; its priority and paths stay. See
    /// [`set_treatment`](Self::set_treatment).
    pub fn set_class(&mut self, id: StreamId, class: StreamClass) {
        if let Some(s) = self.streams.get(id) {
            let treatment = s.treatment;
            self.change(id, Treatment { class, ..treatment });
        }
    }

    /// Client: changes the treatment of an open stream, and tells the peer. At a server it does
    /// nothing: the client knows its applications.
    ///
    /// # Errors
    /// The peer does not [keep paths](Self::keeps_paths); the stream's treatment has not changed.
    pub fn set_treatment(
        &mut self,
        id: StreamId,
        treatment: Treatment,
    ) -> Result<(), TreatmentError> {
        self.check_paths(treatment.paths)?;
        self.change(id, treatment.bounded());
        Ok(())
    }

    fn change(&mut self, id: StreamId, treatment: Treatment) {
        if !self.identity.client {
            return;
        }
        let stream = self.streams.get_mut(id);
        let Some(s) = stream.filter(|s| s.treatment != treatment) else {
            return;
        };
        // An OPEN that was never written has the treatment when it is. One that is to be written
        // again may have arrived already, and is skipped there.
        let told = s.opening.written;
        if told {
            s.treatment_change.number += 1;
        }
        self.streams.treat(id, treatment);
        if told {
            self.streams.signal_class(id);
        }
    }

    /// Server: the client has changed the treatment of a stream.
    pub(super) fn take_class(
        &mut self,
        now: Timestamp,
        id: StreamId,
        change: u64,
        treatment: Treatment,
    ) -> Result<(), SubflowError> {
        if self.identity.client {
            return Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "only a primary changes the class of a stream",
            ));
        }
        if let Some(s) = self.known(now, id)?
            && s.treatment_change.number < change
        {
            s.treatment_change.number = change;
            self.streams.treat(id, treatment);
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
            && std::mem::take(&mut s.treatment_change.wanted)
        {
            Frame::Class {
                stream: id,
                change: s.treatment_change.number,
                treatment: s.treatment,
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
            s.treatment_change.wanted = true;
            self.signal(id);
        }
    }
}
