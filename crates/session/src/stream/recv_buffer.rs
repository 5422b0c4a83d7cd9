//! Bytes of a stream from their arrival to the application's read.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

/// Most separate pieces that one stream may wait with. An honest sender stripes in frames of
/// kilobytes, so that even a full 8 MiB window makes some thousand; a peer that sends every other
/// byte must not make us keep a tree node for each.
const MAX_PIECES: usize = 16_384;

/// Pieces smaller than this are copied together rather than kept apart.
const SMALL_BYTES: usize = 1_024;

/// Where reassembly of a piece failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecvError {
    /// More pieces than we keep.
    TooFragmented,
    /// Bytes beyond the end, or a second, other end.
    FinalSize,
}

/// Bytes of a stream from their arrival, in any order, to the application's read.
#[derive(Debug, Default)]
pub(crate) struct RecvBuffer {
    pieces: BTreeMap<u64, Bytes>,
    /// The application has everything below.
    read: u64,
    /// End of the highest byte that arrived or was announced.
    highest: u64,
    /// Where the stream ends, once known.
    fin: Option<u64>,
    /// Bytes waiting in `pieces`.
    waiting_bytes: u64,
}

impl RecvBuffer {
    /// Takes a piece; returns how many of its bytes had arrived before.
    pub(crate) fn insert(
        &mut self,
        offset: u64,
        bytes: Bytes,
        fin: bool,
    ) -> Result<u64, RecvError> {
        let end = offset + bytes.len() as u64;
        if let Some(f) = self.fin
            && (end > f || (fin && end != f))
        {
            return Err(RecvError::FinalSize);
        }
        if fin {
            if self.highest > end {
                return Err(RecvError::FinalSize);
            }
            self.fin = Some(end);
        }
        self.highest = self.highest.max(end);
        let len = bytes.len() as u64;
        let new = self.insert_bytes(offset, bytes);
        if self.pieces.len() > MAX_PIECES {
            return Err(RecvError::TooFragmented);
        }
        Ok(len - new)
    }

    /// Fills the gaps that `bytes` covers; returns how many bytes were new.
    fn insert_bytes(&mut self, mut offset: u64, mut bytes: Bytes) -> u64 {
        let end = offset + bytes.len() as u64;
        if offset < self.read {
            let skip = (self.read - offset).min(bytes.len() as u64);
            let _ = bytes.split_to(skip as usize);
            offset += skip;
        }
        let mut new = 0;
        // Start behind a piece that begins before us and reaches into us.
        if let Some((at, piece)) = self.pieces.range(..=offset).next_back() {
            let piece_end = at + piece.len() as u64;
            if piece_end > offset {
                let skip = (piece_end - offset).min(bytes.len() as u64);
                let _ = bytes.split_to(skip as usize);
                offset += skip;
            }
        }
        while offset < end {
            let next = self
                .pieces
                .range(offset..)
                .next()
                .map(|(at, p)| (*at, p.len() as u64));
            let gap_end = next.map_or(end, |(at, _)| at.min(end));
            let part = bytes.split_to((gap_end - offset) as usize);
            if !part.is_empty() {
                new += part.len() as u64;
                self.put(offset, part);
            }
            offset = gap_end;
            if let Some((at, len)) = next.filter(|(at, _)| *at == offset && offset < end) {
                let skip = len.min(end - at);
                let _ = bytes.split_to(skip as usize);
                offset += skip;
            }
        }
        self.waiting_bytes += new;
        new
    }

    fn put(&mut self, offset: u64, part: Bytes) {
        if part.len() < SMALL_BYTES
            && let Some((at, before)) = self.pieces.range_mut(..offset).next_back()
            && at + before.len() as u64 == offset
            && before.len() < 4 * SMALL_BYTES
        {
            let mut joined = BytesMut::with_capacity(before.len() + part.len());
            joined.extend_from_slice(before);
            joined.extend_from_slice(&part);
            *before = joined.freeze();
            return;
        }
        self.pieces.insert(offset, part);
    }

    /// The next bytes in order, if they have arrived.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let entry = self.pieces.first_entry()?;
        if *entry.key() != self.read {
            return None;
        }
        let bytes = entry.remove();
        self.read += bytes.len() as u64;
        self.waiting_bytes -= bytes.len() as u64;
        Some(bytes)
    }

    /// Copies the bytes that wait, so that they keep no larger blocks.
    pub(crate) fn leave_blocks(&mut self) {
        for piece in self.pieces.values_mut() {
            *piece = Bytes::copy_from_slice(piece);
        }
    }

    /// Whether [`Self::read`] would give bytes.
    pub(crate) fn readable(&self) -> bool {
        self.pieces
            .first_key_value()
            .is_some_and(|(at, _)| *at == self.read)
    }

    /// All bytes up to the end have been read.
    pub(crate) fn finished(&self) -> bool {
        self.fin == Some(self.read)
    }

    pub(crate) fn read_offset(&self) -> u64 {
        self.read
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    pub(crate) fn fin(&self) -> Option<u64> {
        self.fin
    }

    /// In how many separate pieces bytes wait.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Gives everything up: the stream was reset at `final_offset`.
    pub(crate) fn abandon(&mut self, final_offset: u64) -> Result<(), RecvError> {
        if self.highest > final_offset || self.fin.is_some_and(|f| f != final_offset) {
            return Err(RecvError::FinalSize);
        }
        self.pieces.clear();
        self.waiting_bytes = 0;
        self.highest = final_offset;
        self.fin = Some(final_offset);
        self.read = final_offset;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_end_is_final() {
        let mut r = RecvBuffer::default();
        assert_eq!(r.insert(0, Bytes::from_static(b"abc"), true), Ok(0));
        assert_eq!(
            r.insert(3, Bytes::from_static(b"d"), false),
            Err(RecvError::FinalSize)
        );
        assert_eq!(
            r.insert(0, Bytes::from_static(b"ab"), true),
            Err(RecvError::FinalSize)
        );
        assert_eq!(r.insert(1, Bytes::from_static(b"bc"), true), Ok(2));
        assert!(!r.finished());
        assert_eq!(r.read().as_deref(), Some(&b"abc"[..]));
        assert!(r.finished());
        // An end below what has arrived is a lie.
        let mut r = RecvBuffer::default();
        r.insert(0, Bytes::from_static(b"abcd"), false).unwrap();
        assert_eq!(
            r.insert(0, Bytes::from_static(b"ab"), true),
            Err(RecvError::FinalSize)
        );
    }

    #[test]
    fn bytes_that_leave_their_block_are_the_same() {
        let mut r = RecvBuffer::default();
        let block = Bytes::from((0..=255).collect::<Vec<u8>>());
        r.insert(0, block.slice(3..5), false).unwrap();
        r.insert(4, block.slice(10..12), false).unwrap();
        r.leave_blocks();
        assert!(block.is_unique());
        assert_eq!(r.waiting_bytes(), 4);
        assert_eq!(r.read().as_deref(), Some(&[3, 4][..]));
        assert_eq!(r.read(), None);
        r.insert(2, Bytes::from_static(b"xy"), true).unwrap_err();
        r.insert(2, Bytes::from_static(b"xy"), false).unwrap();
        assert_eq!(r.read().as_deref(), Some(&b"xy"[..]));
        assert_eq!(r.read().as_deref(), Some(&[10, 11][..]));
    }

    #[test]
    fn fragments_are_bounded() {
        let mut r = RecvBuffer::default();
        let hit = (0..100_000u64)
            .map(|i| r.insert(i * 2 + 1, Bytes::from_static(b"x"), false))
            .position(|r| r == Err(RecvError::TooFragmented));
        assert_eq!(hit, Some(MAX_PIECES));
    }

    proptest! {
        /// Pieces in any order and overlap give every byte once, in order.
        #[test]
        fn reassembles(pieces in proptest::collection::vec((0..300u64, 1..80usize), 1..80)) {
            let source: Vec<u8> = (0..400u32).map(|i| i as u8 ^ (i >> 3) as u8).collect();
            let mut r = RecvBuffer::default();
            let mut seen = vec![false; 400];
            let mut got = Vec::new();
            for (i, (at, len)) in pieces.iter().enumerate() {
                let range = *at as usize..*at as usize + len;
                let dup = range.clone().filter(|&i| seen[i]).count() as u64;
                range.clone().for_each(|i| seen[i] = true);
                let bytes = Bytes::copy_from_slice(&source[range]);
                prop_assert_eq!(r.insert(*at, bytes, false), Ok(dup));
                if i % 3 == 0 {
                    while let Some(b) = r.read() { got.extend_from_slice(&b); }
                }
            }
            while let Some(b) = r.read() { got.extend_from_slice(&b); }
            let whole = seen.iter().take_while(|s| **s).count();
            prop_assert_eq!(&got[..], &source[..whole]);
            let waiting = seen.iter().filter(|s| **s).count() - whole;
            prop_assert_eq!(r.waiting_bytes(), waiting as u64);
        }
    }
}
