//! Contents of the lab's files: a pseudo-random stream that differs at every offset, so that lost,
//! duplicated or reordered bytes change the digest. Producing it costs little more than a copy.

use sha2::{Digest, Sha256};

/// Size of the block that is generated once and repeated.
const BLOCK_BYTES: usize = 1 << 20;
/// Distance of the file offsets that are written over the block.
const STAMP_EVERY: usize = 4096;

/// The stream of a seed.
#[derive(Clone)]
pub struct Content {
    block: std::sync::Arc<[u8]>,
}

impl Content {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        while block.len() < BLOCK_BYTES {
            block.extend_from_slice(&splitmix(&mut state).to_le_bytes());
        }
        Self {
            block: block.into(),
        }
    }

    /// `length` bytes from `offset`, or as many as remain of the block of `offset`.
    pub fn piece(&self, offset: u64, length: u64) -> Vec<u8> {
        let start = (offset % BLOCK_BYTES as u64) as usize;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let end = start.saturating_add(length).min(BLOCK_BYTES);
        let mut bytes = self.block[start..end].to_vec();
        // An offset may begin before the piece or end after it.
        let first = start / STAMP_EVERY * STAMP_EVERY;
        for at in (first..end).step_by(STAMP_EVERY) {
            let stamp = (offset - start as u64 + at as u64).to_be_bytes();
            for (i, byte) in stamp.into_iter().enumerate() {
                let place = (at + i).checked_sub(start);
                if let Some(byte_there) = place.and_then(|p| bytes.get_mut(p)) {
                    *byte_there = byte;
                }
            }
        }
        bytes
    }

    /// The first `length` bytes, in pieces of up to a mebibyte.
    pub fn pieces(&self, length: u64) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        (0..length)
            .step_by(BLOCK_BYTES)
            .map(move |offset| self.piece(offset, length - offset))
    }

    /// SHA-256 of the first `length` bytes, as hexadecimal digits.
    pub fn sha256(&self, length: u64) -> String {
        let mut digest = Sha256::new();
        for piece in self.pieces(length) {
            digest.update(&piece);
        }
        hex(&digest.finalize())
    }
}

/// Hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// SplitMix64 (Steele, Lea and Flood), for bytes that do not compress.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_up_wherever_they_are_cut() {
        let content = Content::new(7);
        let length = (2 * BLOCK_BYTES + 12_345) as u64;
        let whole = content.pieces(length).flatten().collect::<Vec<u8>>();
        assert_eq!(whole.len() as u64, length);
        let mut cut = Vec::new();
        while (cut.len() as u64) < length {
            let left = length - cut.len() as u64;
            cut.extend(content.piece(cut.len() as u64, left.min(4099)));
        }
        assert!(whole == cut);
        assert_eq!(content.sha256(length), hex(&Sha256::digest(&whole)));
    }

    #[test]
    fn no_two_pages_are_alike() {
        let content = Content::new(7);
        let a = content.piece(0, 4096);
        let b = content.piece(BLOCK_BYTES as u64, 4096);
        assert_ne!(a, b);
        assert_eq!(a[8..], b[8..], "the block repeats between the stamps");
        assert_ne!(Content::new(8).piece(0, 4096), a);
    }
}
