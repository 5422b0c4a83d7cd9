//! Octets of a stream between two offsets, in a buffer of fixed size.

use std::ops::Range;

/// A buffer in which the octet with offset `n` of a stream has the place `n` modulo the capacity.
/// The owner keeps account of the offsets whose octets it holds.
pub(crate) struct Ring {
    octets: Box<[u8]>,
}

impl Ring {
    /// A buffer for `capacity` octets, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            octets: vec![0; capacity.max(1)].into_boxed_slice(),
        }
    }

    /// Number of octets that it holds.
    pub(crate) fn capacity(&self) -> u64 {
        self.octets.len() as u64
    }

    /// Stores octets from `offset` on: at most its capacity, the rest is left out.
    pub(crate) fn put(&mut self, offset: u64, octets: &[u8]) {
        let (first, second) = self.places(offset, octets.len());
        let (before, after) = octets.split_at(first.len());
        for (place, part) in [(first, before), (second, after)] {
            if let Some(to) = self.octets.get_mut(place) {
                let part = part.get(..to.len()).unwrap_or_default();
                to.copy_from_slice(part);
            }
        }
    }

    /// Copies octets from `offset` on into all of `into`, which is at most its capacity long.
    pub(crate) fn get(&self, offset: u64, into: &mut [u8]) {
        let (first, second) = self.places(offset, into.len());
        let (before, after) = into.split_at_mut(first.len());
        for (place, part) in [(first, before), (second, after)] {
            if let Some(from) = self.octets.get(place)
                && let Some(to) = part.get_mut(..from.len())
            {
                to.copy_from_slice(from);
            }
        }
    }

    /// Places of `count` octets: up to the end of the buffer, and from its beginning.
    fn places(&self, offset: u64, count: usize) -> (Range<usize>, Range<usize>) {
        let capacity = self.octets.len();
        let start = (offset % capacity as u64) as usize;
        let count = count.min(capacity);
        let first = count.min(capacity - start);
        (start..start + first, 0..count - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_wrap_around_the_end() {
        let mut ring = Ring::new(8);
        ring.put(1_000_006, b"abcd");
        let mut into = [0; 4];
        ring.get(1_000_006, &mut into);
        assert_eq!(&into, b"abcd");
        ring.get(1_000_008, &mut into[..2]);
        assert_eq!(&into[..2], b"cd");
    }

    #[test]
    fn more_than_the_capacity_is_left_out() {
        let mut ring = Ring::new(4);
        ring.put(2, b"abcdef");
        let mut into = [0; 4];
        ring.get(2, &mut into);
        assert_eq!(&into, b"abcd");
    }
}
