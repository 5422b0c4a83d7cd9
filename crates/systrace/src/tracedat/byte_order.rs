//! Byte order of the recording machine.

/// Byte order of the recording machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteOrder {
    big: bool,
}

impl ByteOrder {
    pub(super) fn new(big: bool) -> Self {
        Self { big }
    }

    /// Value of the first `N` bytes; 0 if there are fewer. Callers check the length first where 0
    /// would be misleading.
    fn number<const N: usize>(self, bytes: &[u8]) -> u64 {
        let mut a = [0u8; N];
        if let Some(b) = bytes.get(..N) {
            a.copy_from_slice(b);
        }
        let fold = |acc: u64, b: &u8| acc << 8 | u64::from(*b);
        if self.big {
            a.iter().fold(0, fold)
        } else {
            a.iter().rev().fold(0, fold)
        }
    }

    pub(super) fn u16(self, bytes: &[u8]) -> u16 {
        self.number::<2>(bytes) as u16
    }

    pub(super) fn u32(self, bytes: &[u8]) -> u32 {
        self.number::<4>(bytes) as u32
    }

    pub(super) fn u64(self, bytes: &[u8]) -> u64 {
        self.number::<8>(bytes)
    }

    /// An unsigned integer of 1, 2, 4 or 8 bytes.
    pub(super) fn sized(self, bytes: &[u8]) -> u64 {
        match bytes.len() {
            1 => self.number::<1>(bytes),
            2 => self.number::<2>(bytes),
            4 => self.number::<4>(bytes),
            8 => self.number::<8>(bytes),
            _ => 0,
        }
    }

    /// Splits the header word of an entry into type and length, and time delta.
    pub(super) fn entry(self, word: u32) -> (u32, u64) {
        if self.big {
            (word >> 27, u64::from(word & 0x07ff_ffff))
        } else {
            (word & 31, u64::from(word >> 5))
        }
    }
}
