//! Test content: each byte follows from a seed and its offset.

/// A sequence of bytes, generated at one end and checked at the other.
#[derive(Clone, Debug)]
pub struct Pattern {
    seed: u64,
    offset: u64,
}

impl Pattern {
    pub fn new(seed: u64) -> Self {
        Self { seed, offset: 0 }
    }

    /// The next bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        let mut rest = out;
        while !rest.is_empty() {
            let at = (self.offset % 8) as usize;
            let word = self.word();
            let n = rest.len().min(8 - at);
            rest[..n].copy_from_slice(&word[at..at + n]);
            self.offset += n as u64;
            rest = &mut rest[n..];
        }
    }

    /// Whether these are the next bytes.
    pub fn check(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = (self.offset % 8) as usize;
            let word = self.word();
            let n = rest.len().min(8 - at);
            if rest[..n] != word[at..at + n] {
                return false;
            }
            self.offset += n as u64;
            rest = &rest[n..];
        }
        true
    }

    /// The eight bytes that the offset lies in (splitmix64).
    fn word(&self) -> [u8; 8] {
        let mut x = self
            .seed
            .wrapping_add((self.offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)).to_le_bytes()
    }
}
