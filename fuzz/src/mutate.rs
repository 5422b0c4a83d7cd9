//! Deterministic mutations of inputs.

/// Generator of mutations, deterministic for a seed.
pub struct Mutations(u64);

impl Mutations {
    /// A generator with this seed; every value is valid.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// xorshift64* (Vigna 2016): short, and of sufficient quality for mutations.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound.max(1)
    }

    /// Returns `input` with one to four mutations, which may insert pieces of `other`.
    pub fn of(&mut self, input: &[u8], other: &[u8], most_octets: usize) -> Vec<u8> {
        let mut out = input.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(out.len());
            let to = (at + self.below(16) + 1).min(out.len());
            match self.below(7) {
                0 => {
                    let bit = self.below(8);
                    out.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << bit);
                }
                1 => {
                    let odd = [0, 1, 0x7f, 0x80, 0xff, b'\n', b'"', b'-'];
                    let octet = odd[self.below(odd.len())];
                    out.iter_mut().skip(at).take(1).for_each(|b| *b = octet);
                }
                2 => {
                    out.drain(at..to);
                }
                3 => {
                    let piece = out.get(at..to).unwrap_or_default().to_vec();
                    out.splice(at..at, piece);
                }
                4 => out.truncate(at),
                5 => {
                    let from = self.below(other.len());
                    let piece = other.get(from..(from + 16).min(other.len()));
                    out.splice(at..to, piece.unwrap_or_default().iter().copied());
                }
                _ => {
                    let length = self.below(8) + 1;
                    let octets = (0..length).map(|_| self.next() as u8).collect::<Vec<_>>();
                    out.splice(at..at, octets);
                }
            }
        }
        out.truncate(most_octets);
        out
    }
}
