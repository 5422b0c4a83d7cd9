//! Numbers of paths, and sets of them: the paths that may carry a stream.

use std::fmt;

/// Number of a path within a session: of a link of the primary's own, or of a pipe.
///
/// The primary numbers its paths from 0, and never uses a number for two paths of a session. Unlike
/// the number of a subflow it stays when the path is dialled again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathNumber(u8);

impl PathNumber {
    /// The highest number: a set of numbers is one varint, which has 62 bits.
    pub const MAX: u8 = 61;

    /// `None` for a number above [`MAX`](Self::MAX).
    pub fn new(number: u64) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        (number <= Self::MAX).then_some(Self(number))
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    const fn bit(self) -> u64 {
        1 << self.0
    }
}

impl fmt::Display for PathNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Paths that may carry a stream: all, or those of some numbers. Never empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathSet(u64);

impl PathSet {
    /// All paths, also those without a number.
    pub const ALL: Self = Self(u64::MAX);

    /// Bits of all numbers.
    const NUMBERS: u64 = (1 << (PathNumber::MAX + 1)) - 1;

    /// The paths of these numbers; `None` without any: a stream needs a path.
    pub fn of(numbers: impl IntoIterator<Item = PathNumber>) -> Option<Self> {
        let bits = numbers.into_iter().fold(0, |bits, n| bits | n.bit());
        (bits != 0).then_some(Self(bits))
    }

    /// Whether a path is in the set. One without a number is in [`ALL`](Self::ALL) only.
    pub const fn contains(self, path: Option<PathNumber>) -> bool {
        match path {
            Some(number) => self.0 & number.bit() != 0,
            None => self.is_all(),
        }
    }

    /// Whether a path can be in both sets.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Paths of either set.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the stream is not restricted.
    pub const fn is_all(self) -> bool {
        self.0 == Self::ALL.0
    }

    /// Bit n for number n; `None` for all paths, which have no form on the wire.
    pub(crate) fn to_wire(self) -> Option<u64> {
        (!self.is_all()).then_some(self.0)
    }

    /// `None` for a set without a number, or with one that is too high.
    pub(crate) fn from_wire(bits: u64) -> Option<Self> {
        (bits != 0 && bits & !Self::NUMBERS == 0).then_some(Self(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::VARINT_MAX;

    fn number(n: u64) -> PathNumber {
        PathNumber::new(n).unwrap()
    }

    #[test]
    fn numbers_go_to_61() {
        assert_eq!(number(61).get(), PathNumber::MAX);
        for too_high in [62, 255, 256, u64::MAX] {
            assert_eq!(PathNumber::new(too_high), None);
        }
    }

    #[test]
    fn a_set_has_its_numbers_and_all_paths_those_without_one_too() {
        assert_eq!(PathSet::of([]), None);
        let some = PathSet::of([0, 61].map(number)).unwrap();
        let every = PathSet::of((0..=61).map(number)).unwrap();
        for n in 0..=61 {
            let path = Some(number(n));
            assert_eq!(some.contains(path), n == 0 || n == 61, "{n}");
            assert!(every.contains(path) && PathSet::ALL.contains(path), "{n}");
        }
        assert!(!some.contains(None) && !every.contains(None) && PathSet::ALL.contains(None));
        let other = PathSet::of([number(1)]).unwrap();
        assert!(!some.intersects(other) && every.intersects(other));
        assert!(PathSet::ALL.intersects(other));
    }

    #[test]
    fn a_set_fits_into_a_varint_and_is_read_as_written() {
        let every = PathSet::of((0..=61).map(number)).unwrap();
        assert_eq!(every.to_wire(), Some(VARINT_MAX));
        assert_eq!(PathSet::from_wire(VARINT_MAX), Some(every));
        assert_eq!(PathSet::ALL.to_wire(), None);
        assert_eq!(PathSet::from_wire(0), None);
        assert_eq!(PathSet::from_wire(1 << 62), None);
        assert_eq!(PathSet::from_wire(5), PathSet::of([0, 2].map(number)));
    }
}
