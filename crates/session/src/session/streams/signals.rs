//! Streams with control frames to write.

use super::Streams;
use crate::session::order::Group;
use crate::signal::{Signal, SignalState};
use crate::stream::Stream;
use crate::{PathNumber, PathSet, StreamId};

impl Streams {
    /// A control frame of the stream is to be written.
    pub(in crate::session) fn signal(&mut self, id: StreamId) {
        if let Some(s) = self.table.get(&id) {
            self.signal_on(s.treatment.paths, id);
        }
    }

    /// RESET or STOP of the stream is to be written, on any path: while its own are gone, an end
    /// that is through with it would keep its number, its set and its part of the window.
    pub(in crate::session) fn signal_end(&mut self, id: StreamId) {
        if self.contains(id) {
            self.signal_on(PathSet::ALL, id);
        }
    }

    /// A control frame of the stream is to be written on one of these paths.
    pub(in crate::session) fn signal_on(&mut self, paths: PathSet, id: StreamId) {
        let has_open = self.table.get(&id).is_some_and(|s| s.opening.wanted);
        if let Some(group) = self.ready.group(paths) {
            group.signalling.push(id, has_open);
        }
    }

    /// Whether a control frame of a stream is to be written that is not parked.
    pub(in crate::session) fn has_signals(&self) -> bool {
        self.ready.open().any(|group| !group.signalling.is_empty())
    }

    /// Paths of which some may carry a control frame that is to be written; `None` without any.
    pub(in crate::session) fn signalling_paths(&self) -> Option<PathSet> {
        let waiting = self
            .ready
            .open()
            .filter(|group| !group.signalling.is_empty());
        waiting.map(Group::paths).reduce(PathSet::union)
    }

    /// Whether a control frame is to be written that a subflow of this path may carry.
    pub(in crate::session) fn has_signals_on(&self, path: Option<PathNumber>) -> bool {
        let mut groups = self.ready.open_on(path);
        groups.any(|group| !group.signalling.is_empty())
    }

    /// Whether an OPEN is to be written.
    pub(in crate::session) fn has_opens(&self) -> bool {
        let opens = |id| self.get(id).is_some_and(|s| s.opening.wanted);
        let mut groups = self.ready.open();
        groups.any(|group| group.signalling.opens().any(opens))
    }

    /// Takes out a stream whose control frames a subflow of this path may carry.
    pub(in crate::session) fn pop_signalling(
        &mut self,
        path: Option<PathNumber>,
    ) -> Option<StreamId> {
        let mut groups = self.ready.open_on_mut(path);
        groups.find_map(|group| group.signalling.pop())
    }

    /// A RESET or STOP of the stream is to be sent again, if it is on its way.
    pub(in crate::session) fn retransmit_signal(
        &mut self,
        id: StreamId,
        slot: fn(&mut Stream) -> &mut Option<Signal>,
    ) {
        if let Some(s) = self.table.get_mut(&id)
            && let Some(signal) = slot(s)
            && signal.state == SignalState::Sent
        {
            signal.state = SignalState::Wanted;
            self.signal_end(id);
        }
    }
}
