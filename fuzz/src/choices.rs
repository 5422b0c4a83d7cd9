//! Structured decisions drawn from fuzzer input.

/// Source of decisions from a fuzzer's octets; yields zeros when they are used up.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// A source with these octets.
    pub fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// Whether all octets are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One octet.
    pub fn octet(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `bound`, which is at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.octet()) % bound.max(1)
    }

    /// Two octets.
    pub fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    /// A number of any size; small numbers, powers of two and their neighbours are likely.
    pub fn number(&mut self) -> u64 {
        let kind = self.octet();
        match kind >> 6 {
            0 => u64::from(kind),
            1 => u64::from(kind & 0x3f) << 8 | u64::from(self.octet()),
            2 => (1_u64 << (kind & 0x3f)).wrapping_add_signed(i64::from(self.octet() as i8)),
            _ => u64::from_be_bytes(std::array::from_fn(|_| self.octet())),
        }
    }

    /// At most `most` octets, unmodified.
    pub fn octets(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All remaining octets.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
