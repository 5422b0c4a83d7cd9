//! Sums over the receiving halves of all streams.

use super::Streams;
use crate::StreamId;
#[cfg(test)]
use crate::stream::Stream;

impl Streams {
    /// Brings the sums of receiving halves up to date after something happened to that of a stream.
    pub(in crate::session) fn update_receiving(&mut self, id: StreamId) {
        let Some(s) = self.table.get_mut(&id) else {
            return;
        };
        let granted = s.recv.granted.saturating_sub(s.recv.buffer.read_offset());
        let stalled = match s.recv.stalled {
            true => s.recv.buffer.waiting_bytes(),
            false => 0,
        };
        self.granted = self.granted - s.listed.granted + granted;
        self.stalled = self.stalled - s.listed.stalled + stalled;
        s.listed.granted = granted;
        s.listed.stalled = stalled;
    }

    /// Counts shares of subflows that have come to a stream.
    pub(in crate::session) fn update_shares(&mut self, id: StreamId) {
        if let Some(s) = self.table.get_mut(&id) {
            self.shares += s.uncounted_shares();
        }
    }

    /// Shares of subflows that streams keep.
    pub(in crate::session) fn shares(&self) -> usize {
        self.shares
    }

    /// Bytes that have arrived and wait in stalled streams.
    pub(in crate::session) fn stalled_bytes(&self) -> u64 {
        self.stalled
    }

    /// Bytes that the peer was granted and that were not read, over all streams.
    pub(in crate::session) fn granted_bytes(&self) -> u64 {
        self.granted
    }
}

#[cfg(test)]
impl Streams {
    /// Number of places that streams take whose waiting applications are to be looked at.
    pub(in crate::session) fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Compares sums and queues with what the streams say.
    pub(in crate::session) fn check_sums(&self) {
        let sum = |of: &dyn Fn(&Stream) -> u64| self.values().map(of).sum::<u64>();
        let granted = |s: &Stream| s.recv.granted.saturating_sub(s.recv.buffer.read_offset());
        let stalled = |s: &Stream| match s.recv.stalled {
            true => s.recv.buffer.waiting_bytes(),
            false => 0,
        };
        assert_eq!(self.granted, sum(&granted));
        assert_eq!(self.stalled, sum(&stalled));
        let shares = self.values().map(|s| s.counters.shares());
        assert_eq!(self.shares, shares.sum::<usize>());
        let ends = self.table.iter().filter(|(_, s)| s.send.is_end());
        let mut ends: Vec<_> = ends.map(|(id, _)| *id).collect();
        ends.sort_unstable();
        let mut listed: Vec<_> = self.ready.all().flat_map(|group| &group.ends).collect();
        listed.sort_unstable();
        assert!(listed.into_iter().eq(&ends), "{ends:?}");
        let blocked = self.ready.all().flat_map(|group| &group.blocked);
        let is_blocked = |id: &StreamId| self.get(*id).is_some_and(|s| s.listed.blocked);
        assert!(blocked.into_iter().all(is_blocked));
        let is_touched = |id: &StreamId| self.get(*id).is_none_or(|s| s.listed.touched);
        let touched = self.values().filter(|s| s.listed.touched).count();
        assert!(self.touched.iter().all(is_touched) && touched <= self.touched.len());
    }
}
