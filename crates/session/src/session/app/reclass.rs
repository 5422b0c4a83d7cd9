//! Change of an open stream's treatment: CLASS frames.

use mpbond_units::Timestamp;

use crate::session::Session;
use crate::session::error::{SubflowError, TreatmentError};
use crate::session::streams::Streams;
use crate::session::timer::Timer;
use crate::subflow::{SentFrame, Subflow};
use crate::treatment::Treatment;
use crate::wire::Frame;
use crate::{CloseCode, PathSet, StreamClass, StreamId};

/// Maximum number of sets of paths that the streams of a client have at a time: each record looks
/// at all of them.
const MAX_SETS: usize = 32;

/// Maximum number at a server. Frames that take streams out of a set may be overtaken by those that
/// put others into new ones.
const MAX_SETS_OF_PEER: usize = 4 * MAX_SETS;

impl Session {
    /// Client: changes the class of an open stream; its priority and paths stay. See
    /// [`set_treatment`](Self::set_treatment).
    pub fn set_class(&mut self, id: StreamId, class: StreamClass) {
        if let Some(s) = self.streams.get(id) {
            let treatment = s.treatment;
            self.change(id, Treatment { class, ..treatment });
        }
    }

    /// The paths that may carry a stream, while it is open.
    pub fn paths_of(&self, id: StreamId) -> Option<PathSet> {
        self.streams.get(id).map(|s| s.treatment.paths)
    }

    /// Client: changes the paths of an open stream; its class and priority stay. See
    /// [`set_treatment`](Self::set_treatment).
    ///
    /// # Errors
    /// As [`set_treatment`](Self::set_treatment).
    pub fn set_paths(&mut self, id: StreamId, paths: PathSet) -> Result<(), TreatmentError> {
        match self.streams.get(id).map(|s| s.treatment) {
            Some(treatment) => self.set_treatment(id, Treatment { paths, ..treatment }),
            None => Ok(()),
        }
    }

    /// Client: changes the treatment of an open stream, and tells the peer. At a server it does
    /// nothing: the client knows its applications.
    ///
    /// # Errors
    /// The peer does not [obey paths](Self::obeys_paths), or streams have too many sets of them;
    /// the stream's treatment has not changed.
    pub fn set_treatment(
        &mut self,
        id: StreamId,
        treatment: Treatment,
    ) -> Result<(), TreatmentError> {
        if !self.identity.client {
            return Ok(());
        }
        let now = self
            .streams
            .get(id)
            .map_or(PathSet::ALL, |s| s.treatment.paths);
        self.check_paths(now, treatment.paths)?;
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
    pub(in crate::session) fn take_class(
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
            self.take_treatment(id, treatment)?;
            if let Some(s) = self.streams.get_mut(id) {
                s.treatment_change.number = change;
            }
        }
        Ok(())
    }

    /// Server: gives a stream the treatment that the client wants for it.
    ///
    /// # Errors
    /// Too many sets of paths.
    pub(in crate::session) fn take_treatment(
        &mut self,
        id: StreamId,
        mut treatment: Treatment,
    ) -> Result<(), SubflowError> {
        if !self.config.obeys_paths {
            treatment.paths = PathSet::ALL;
        }
        let now = self
            .streams
            .get(id)
            .map_or(PathSet::ALL, |s| s.treatment.paths);
        if self.streams.ready.sets_with(now, treatment.paths) > MAX_SETS_OF_PEER {
            return Err(SubflowError::ours(
                CloseCode::TooMuch,
                format!("more than {MAX_SETS_OF_PEER} sets of paths"),
            ));
        }
        self.streams.treat(id, treatment);
        Ok(())
    }

    /// Whether a stream of the set `from` can have the set `to`.
    ///
    /// # Errors
    /// The session cannot restrict streams to these paths.
    pub(super) fn check_paths(&self, from: PathSet, to: PathSet) -> Result<(), TreatmentError> {
        if to.is_all() {
            return Ok(());
        }
        if !self.obeys_paths() {
            return Err(TreatmentError::NoPathSets);
        }
        if self.streams.ready.sets_with(from, to) > MAX_SETS {
            return Err(TreatmentError::TooManySets);
        }
        Ok(())
    }

    /// A subflow has come, has gone, may carry data since now, has failed potentially or recovered.
    /// One that has failed is of use only where all have.
    pub(in crate::session) fn paths_changed(&mut self) {
        let any_works = self.subflows.iter().any(Subflow::works);
        let is_of_use = |s: &&Subflow| if any_works { s.works() } else { s.carries() };
        let paths = self.subflows.iter().filter(is_of_use);
        let carrying = PathSet::of(paths.filter_map(|s| s.path));
        if self.streams.held_open() == 0 {
            // Bytes of parked streams may be under way now.
            self.reinjection.transfer_begins(&self.stats);
        }
        if self.streams.ready.set_carrying(carrying) {
            self.timers.stop(Timer::Schedule);
            self.wake_writers();
        }
    }

    /// CLASS of one stream, if it is to be written.
    pub(in crate::session) fn put_class(
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
    /// CLASS of the stream is to be written, on any path: while its own are gone, the peer has to
    /// learn all the same which ones it may use no longer.
    pub(in crate::session) fn signal_class(&mut self, id: StreamId) {
        if let Some(s) = self.get_mut(id) {
            s.treatment_change.wanted = true;
            self.signal_on(PathSet::ALL, id);
        }
    }
}
