//! Memory of blocks that their slices keep.
//!
//! A read fills a block, and what it brought is passed on as slices of it, without a copy. One
//! slice that waits keeps the whole block, also when all others are gone. [`KeptBlocks`] tells how
//! much memory that is, so that slices can be copied where it is far more than they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

/// Bytes of all blocks that are no longer read into, and are kept by slices. Clones share the
/// number.
#[derive(Clone, Debug, Default)]
pub struct KeptBlocks(Arc<AtomicU64>);

impl KeptBlocks {
    /// Their size in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A block that is read into. Once this is dropped, the block is among the kept ones as long as one
/// of its slices is in use.
#[derive(Debug)]
pub struct Block {
    shared: Arc<Shared>,
    bytes: usize,
}

/// State that a block shares with its slices; dropped with the last of them.
#[derive(Debug)]
struct Shared {
    kept: KeptBlocks,
    /// Bytes by which the block raises [`KeptBlocks::bytes`].
    counted: AtomicU64,
}

struct Slice {
    bytes: Bytes,
    _block: Arc<Shared>,
}

impl Block {
    /// A block of so many bytes.
    pub fn new(kept: &KeptBlocks, bytes: usize) -> Self {
        let shared = Shared {
            kept: kept.clone(),
            counted: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            bytes,
        }
    }

    /// A slice of the block, which keeps it.
    pub fn slice(&self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Slice {
            bytes,
            _block: Arc::clone(&self.shared),
        })
    }

    /// From now on another block of so many bytes is read into.
    pub fn replace(&mut self, bytes: usize) {
        *self = Self::new(&self.shared.kept, bytes);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = self.bytes as u64;
        self.shared.kept.0.fetch_add(bytes, Relaxed);
        self.shared.counted.store(bytes, Relaxed);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.kept.0.fetch_sub(*self.counted.get_mut(), Relaxed);
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_from_its_replacement_until_its_last_slice_is_gone() {
        let kept = KeptBlocks::default();
        let mut block = Block::new(&kept, 1_000);
        let first = block.slice(Bytes::from_static(b"one"));
        let part = first.slice(1..2);
        assert_eq!((&*first, &*part), (&b"one"[..], &b"n"[..]));
        assert_eq!(kept.bytes(), 0, "it is read into");
        block.replace(500);
        assert_eq!(kept.bytes(), 1_000);
        let second = block.slice(Bytes::from_static(b"two"));
        drop(block);
        drop(first);
        assert_eq!(kept.bytes(), 1_500);
        drop(part);
        assert_eq!(kept.bytes(), 500);
        drop(second);
        assert_eq!(kept.bytes(), 0);
        drop(Block::new(&kept, 700));
        assert_eq!(kept.bytes(), 0, "without a slice");
    }
}
