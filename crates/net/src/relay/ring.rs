//! The user-space buffer of one direction of a relay.

use std::collections::VecDeque;

/// Block size: the maximum of one read(2).
const BLOCK_BYTES: usize = 64 * 1024;

/// A FIFO buffer in blocks.
///
/// Grows by blocks as the sink falls behind and frees them, all but one, as it catches up.
#[derive(Debug, Default)]
pub(super) struct Ring {
    blocks: VecDeque<Block>,
    spare: Option<Block>,
    bytes: u64,
}

#[derive(Debug)]
struct Block {
    buf: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Block {
    fn new() -> Self {
        Self {
            buf: vec![0; BLOCK_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }
}

impl Ring {
    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Free space for the next read: at least one byte, at most one block.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let full = self.blocks.back().is_none_or(|b| b.end == b.buf.len());
        if full {
            let block = self.spare.take().unwrap_or_else(Block::new);
            self.blocks.push_back(block);
        }
        match self.blocks.back_mut() {
            Some(b) => b.buf.get_mut(b.end..).unwrap_or_default(),
            None => &mut [],
        }
    }

    /// Commits the first `n` bytes of [`Ring::room`].
    pub(super) fn filled(&mut self, n: usize) {
        if let Some(b) = self.blocks.back_mut() {
            b.end = (b.end + n).min(b.buf.len());
            self.bytes += n as u64;
        }
    }

    /// The next bytes to write; empty if there are none.
    pub(super) fn front(&self) -> &[u8] {
        self.blocks
            .front()
            .and_then(|b| b.buf.get(b.start..b.end))
            .unwrap_or_default()
    }

    /// Removes the first `n` bytes of [`Ring::front`].
    pub(super) fn consume(&mut self, n: usize) {
        let Some(b) = self.blocks.front_mut() else {
            return;
        };
        b.start += n;
        self.bytes -= n as u64;
        if b.start == b.end
            && let Some(mut empty) = self.blocks.pop_front()
        {
            empty.start = 0;
            empty.end = 0;
            self.spare = Some(empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(
            steps in proptest::collection::vec((any::<bool>(), 1_usize..90_000), 1..60),
        ) {
            let mut ring = Ring::default();
            let (mut written, mut read) = (0_u64, 0_u64);
            for (fill, size) in steps {
                if fill {
                    let room = ring.room();
                    prop_assert!(!room.is_empty());
                    let n = size.min(room.len());
                    for (i, byte) in room[..n].iter_mut().enumerate() {
                        *byte = ((written as usize + i) % 251) as u8;
                    }
                    ring.filled(n);
                    written += n as u64;
                } else {
                    let front = ring.front();
                    let n = size.min(front.len());
                    for (i, byte) in front[..n].iter().enumerate() {
                        prop_assert_eq!(*byte, ((read as usize + i) % 251) as u8);
                    }
                    ring.consume(n);
                    read += n as u64;
                }
                prop_assert_eq!(ring.bytes(), written - read);
                prop_assert_eq!(ring.front().is_empty(), written == read);
            }
        }
    }
}
