//! Traffic of one flow: chunks at the server, and their order at the watch.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use super::carried::Carried;
use super::setup::Traffic;
use super::{CHUNK_BYTES, Path};

#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) bytes: u64,
    pub(super) due: Timestamp,
    pub(super) arrived: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Flow {
    traffic: Traffic,
    pub(super) chunks: Vec<Chunk>,
    /// Chunks that are due and not assigned to a path.
    pending: VecDeque<usize>,
    /// Chunks assigned to each path and not written to its connection.
    pub(super) backlog: [VecDeque<usize>; 2],
    pub(super) carried: [Carried; 2],
    /// First chunk that was not delivered in order.
    pub(super) frontier: usize,
    made_bytes: u64,
    start: Timestamp,
    next_due: Timestamp,
}

impl Flow {
    pub(super) fn new(traffic: Traffic, start: Timestamp) -> Self {
        Self {
            traffic,
            chunks: Vec::new(),
            pending: VecDeque::new(),
            backlog: <[VecDeque<usize>; 2]>::default(),
            carried: <[Carried; 2]>::default(),
            frontier: 0,
            made_bytes: 0,
            start,
            next_due: start,
        }
    }

    /// Makes the chunks that are due by `now`.
    pub(super) fn produce(&mut self, now: Timestamp, until: Timestamp) {
        while self.next_due <= now && self.next_due < until {
            let Some((bytes, every)) = self.chunks_at(self.next_due) else {
                return;
            };
            let mut left = bytes;
            while left > 0 {
                let size = left.min(CHUNK_BYTES);
                self.make(size, self.next_due);
                left -= size;
            }
            self.next_due += every;
        }
    }

    /// Size and interval of the chunks at an instant, where they are due at intervals.
    fn chunks_at(&self, at: Timestamp) -> Option<(u64, Duration)> {
        match self.traffic {
            Traffic::Bulk { .. } => None,
            Traffic::Chunks { bytes, every } => Some((bytes, every)),
            Traffic::InTurn {
                bytes,
                every: [first, second],
                phase,
            } => {
                let turn = at.since(self.start).as_nanos() / phase.as_nanos().max(1);
                let is_first = turn.is_multiple_of(2);
                Some((bytes, if is_first { first } else { second }))
            }
        }
    }

    /// Rate of the chunks at an instant, where they are due at intervals.
    pub(super) fn rate_at(&self, at: Timestamp) -> Option<BitRate> {
        let (bytes, every) = self.chunks_at(at)?;
        Some(BitRate::over(bytes, every))
    }

    fn make(&mut self, bytes: u64, due: Timestamp) {
        self.pending.push_back(self.chunks.len());
        self.made_bytes += bytes;
        self.chunks.push(Chunk {
            bytes,
            due,
            arrived: None,
        });
    }

    /// Takes the next chunk to be assigned to a path.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<usize> {
        if let Traffic::Bulk { bytes } = self.traffic
            && self.pending.is_empty()
            && now >= self.next_due
        {
            let left = bytes.map_or(CHUNK_BYTES, |b| b.saturating_sub(self.made_bytes));
            if left > 0 {
                self.make(left.min(CHUNK_BYTES), now);
            }
        }
        self.pending.pop_front()
    }

    /// Time of the next chunk.
    pub(super) fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        let at_intervals = !matches!(self.traffic, Traffic::Bulk { .. });
        let more = at_intervals || self.next_due > now;
        more.then_some(self.next_due)
    }

    /// Whether a flow of limited size was delivered whole.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.traffic, Traffic::Bulk { bytes: Some(total) }
            if self.made_bytes == total && self.frontier == self.chunks.len())
    }

    /// Sends all that is in flight on `from` again on `to`, before new data.
    pub(super) fn reinject(&mut self, from: Path, to: Path) {
        let stuck = std::mem::take(&mut self.backlog[from.index()]);
        let flying: Vec<usize> = self.carried[from.index()].in_flight().collect();
        let waiting = flying.into_iter().chain(stuck);
        let again = waiting.filter(|chunk| self.chunks[*chunk].arrived.is_none());
        let again: Vec<usize> = again.collect();
        for chunk in again.into_iter().rev() {
            if !self.backlog[to.index()].contains(&chunk) {
                self.backlog[to.index()].push_front(chunk);
            }
        }
    }
}
