//! Reassembly of chunks that arrive in parallel, by offset. Pure.

use std::collections::BTreeMap;

/// Bytes received out of order.
#[derive(Default)]
pub(super) struct Assembler {
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
}

impl Assembler {
    /// Adds `bytes` at `offset`. No byte is added twice.
    pub fn put(&mut self, offset: u64, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.waiting.insert(offset, bytes);
        }
    }

    /// The next bytes in order, if they have arrived.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let bytes = self.waiting.remove(&self.next)?;
        self.next += bytes.len() as u64;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_of_arrival_gives_the_file() {
        let file: Vec<u8> = (0..100).collect();
        let cuts = [(0, 10), (10, 11), (11, 40), (40, 90), (90, 100)];
        // All orders of five pieces: number k in the factorial system picks one.
        for k in 0..120 {
            let (mut left, mut k) = (cuts.to_vec(), k);
            let mut assembler = Assembler::default();
            let mut got = Vec::new();
            while !left.is_empty() {
                let (from, to) = left.remove(k % left.len());
                k /= left.len() + 1;
                assembler.put(from as u64, file[from..to].to_vec());
                while let Some(bytes) = assembler.take() {
                    got.extend(bytes);
                }
                let whole_from_start = file.starts_with(&got);
                assert!(whole_from_start, "{got:?}");
            }
            assert_eq!(got, file);
            assert_eq!(assembler.take(), None);
        }
    }
}
