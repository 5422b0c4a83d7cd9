//! Chunks of a flow on one path, with the instants at which they passed its stages.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Stage of a path (Wear OS paper, Figure 10). WiFi has the first and the last one only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Sent by the server's kernel (t_S).
    Sent,
    /// In order at the phone's kernel (t_IR).
    Received,
    /// Read by its proxy (t_A).
    Read,
    /// Handed to Bluetooth (t_BS).
    Handed,
    /// At the watch (t_BR).
    Arrived,
}

const STAGES: usize = 5;

#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) chunk: usize,
    end: u64,
    at: [Option<Timestamp>; STAGES],
}

impl Piece {
    pub(super) fn at(&self, stage: Stage) -> Option<Timestamp> {
        self.at[stage as usize]
    }

    /// Delay between consecutive stages: d1 to d4.
    pub(super) fn parts(&self) -> Option<[Duration; 4]> {
        let [s, ir, a, bs, br] = self.at;
        let (s, ir, a, bs, br) = (s?, ir?, a?, bs?, br?);
        Some([ir.since(s), a.since(ir), bs.since(a), br.since(bs)])
    }
}

#[derive(Debug, Default)]
pub(super) struct Carried {
    pieces: Vec<Piece>,
    assigned: u64,
    /// Bytes beyond each stage, and the first piece that is not.
    passed: [u64; STAGES],
    next: [usize; STAGES],
}

impl Carried {
    pub(super) fn assign(&mut self, chunk: usize, bytes: u64) {
        self.assigned += bytes;
        self.pieces.push(Piece {
            chunk,
            end: self.assigned,
            at: [None; STAGES],
        });
    }

    pub(super) fn passed(&self, stage: Stage) -> u64 {
        self.passed[stage as usize]
    }

    /// `total` bytes have passed a stage; returns the pieces that did so now.
    pub(super) fn pass(&mut self, now: Timestamp, stage: Stage, total: u64) -> &[Piece] {
        let stage = stage as usize;
        self.passed[stage] = total;
        let from = self.next[stage];
        let mut to = from;
        while let Some(piece) = self.pieces.get_mut(to).filter(|piece| piece.end <= total) {
            piece.at[stage] = Some(now);
            to += 1;
        }
        self.next[stage] = to;
        &self.pieces[from..to]
    }

    /// Chunks that have not arrived.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = usize> {
        let rest = &self.pieces[self.next[Stage::Arrived as usize]..];
        rest.iter().map(|piece| piece.chunk)
    }
}
