//! First appearance of each byte of a stream at one place.

use std::collections::BTreeMap;

/// Disjoint ranges of a stream, each with the time of its first appearance in ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrivals(BTreeMap<u64, (u64, u64)>);

impl Arrivals {
    /// Adds `from..to` at `at_ns`; bytes that appeared before keep their time. Returns the number
    /// of such bytes: they were retransmitted.
    pub fn add(&mut self, from: u64, to: u64, at_ns: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let before = self.0.range(..=from).next_back();
        let mut at = before.map_or(from, |(_, (end, _))| (*end).max(from));
        let mut new = Vec::new();
        for (start, (end, _)) in self.0.range(from..to) {
            if *start > at {
                new.push((at, *start));
            }
            at = at.max(*end);
        }
        if at < to {
            new.push((at, to));
        }
        let fresh: u64 = new.iter().map(|(a, b)| b - a).sum();
        self.0.extend(new.into_iter().map(|(a, b)| (a, (b, at_ns))));
        to - from - fresh
    }

    /// Number of distinct bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(from, (to, _))| to - from).sum()
    }

    /// Time of the first appearance of the byte at `offset`.
    pub fn at_ns(&self, offset: u64) -> Option<u64> {
        let (_, (end, at)) = self.0.range(..=offset).next_back()?;
        (offset < *end).then_some(*at)
    }

    /// End of the last range.
    pub(super) fn end(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, (to, _))| *to)
    }

    /// Borders of the ranges.
    pub(super) fn borders(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(|(from, (to, _))| [*from, *to])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a table with a cell for each byte has it.
        #[test]
        fn first_appearances_are_kept(
            pieces in proptest::collection::vec((0_u64..60, 0_u64..20), 0..30),
        ) {
            let mut arrivals = Arrivals::default();
            let mut table: Vec<Option<u64>> = vec![None; 100];
            for (at, (from, length)) in pieces.iter().enumerate() {
                let again = arrivals.add(*from, from + length, at as u64);
                let mut known = 0;
                for cell in &mut table[*from as usize..(from + length) as usize] {
                    known += u64::from(cell.is_some());
                    cell.get_or_insert(at as u64);
                }
                prop_assert_eq!(again, known);
            }
            for (offset, cell) in table.iter().enumerate() {
                prop_assert_eq!(arrivals.at_ns(offset as u64), *cell, "byte {}", offset);
            }
            prop_assert_eq!(arrivals.bytes(), table.iter().flatten().count() as u64);
            let end = table.iter().rposition(Option::is_some).map(|last| last as u64 + 1);
            prop_assert_eq!(arrivals.end(), end);
        }
    }
}
