//! Set of integers as ranges.

use std::ops::Range;

/// A set of `u64`, kept as disjoint, non-adjacent, ascending ranges.
///
/// Holds acknowledged offsets, bytes to send again and closed stream ids: few ranges, mostly
/// growing at one end, so a sorted vector serves better than a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: Vec<Range<u64>>,
    len: u64,
}

impl RangeSet {
    /// Number of values.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Number of ranges.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first().cloned()
    }

    pub(crate) fn contains(&self, v: u64) -> bool {
        let i = self.ranges.partition_point(|r| r.end <= v);
        self.ranges.get(i).is_some_and(|r| r.start <= v)
    }

    /// Adds `r`; returns how many of its values are new.
    pub(crate) fn insert(&mut self, r: Range<u64>) -> u64 {
        if r.is_empty() {
            return 0;
        }
        // All ranges that touch `r` are joined into one.
        let lo = self.ranges.partition_point(|x| x.end < r.start);
        let hi = self.ranges.partition_point(|x| x.start <= r.end);
        let touched = &self.ranges[lo..hi];
        let held: u64 = touched.iter().map(|x| x.end - x.start).sum();
        let start = touched.first().map_or(r.start, |x| x.start.min(r.start));
        let end = touched.last().map_or(r.end, |x| x.end.max(r.end));
        self.ranges.splice(lo..hi, std::iter::once(start..end));
        let added = (end - start) - held;
        self.len += added;
        added
    }

    /// Takes all values of `r` out; returns how many there were.
    pub(crate) fn remove(&mut self, r: Range<u64>) -> u64 {
        if r.is_empty() {
            return 0;
        }
        let lo = self.ranges.partition_point(|x| x.end <= r.start);
        let hi = self.ranges.partition_point(|x| x.start < r.end);
        if lo >= hi {
            return 0;
        }
        let (first, last) = (self.ranges[lo].clone(), self.ranges[hi - 1].clone());
        let held: u64 = self.ranges[lo..hi].iter().map(|x| x.end - x.start).sum();
        let left = first.start..r.start.max(first.start);
        let right = r.end.min(last.end)..last.end;
        let kept = (left.end - left.start) + (right.end - right.start);
        let keep = [left, right].into_iter().filter(|x| !x.is_empty());
        self.ranges.splice(lo..hi, keep);
        self.len -= held - kept;
        held - kept
    }

    /// The parts of `r` that are not in the set.
    pub(crate) fn gaps(&self, r: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let lo = self.ranges.partition_point(|x| x.end <= r.start);
        let mut at = r.start;
        let mut rest = self.ranges[lo..].iter();
        std::iter::from_fn(move || {
            while at < r.end {
                match rest.next() {
                    Some(x) if x.start < r.end => {
                        let gap = at..x.start.max(at);
                        at = x.end;
                        if !gap.is_empty() {
                            return Some(gap);
                        }
                    }
                    _ => {
                        let gap = at..r.end;
                        at = r.end;
                        return Some(gap);
                    }
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Debug, Clone)]
    enum Op {
        Insert(u64, u64),
        Remove(u64, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..60u64, 0..12u64).prop_map(|(s, n)| Op::Insert(s, n)),
            (0..60u64, 0..12u64).prop_map(|(s, n)| Op::Remove(s, n)),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(
            ops in proptest::collection::vec(op(), 0..60),
            probe in 0..60u64,
            n in 0..20u64,
        ) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for o in ops {
                match o {
                    Op::Insert(s, n) => {
                        let new = (s..s + n).filter(|v| model.insert(*v)).count();
                        prop_assert_eq!(set.insert(s..s + n), new as u64);
                    }
                    Op::Remove(s, n) => {
                        let gone = (s..s + n).filter(|v| model.remove(v)).count();
                        prop_assert_eq!(set.remove(s..s + n), gone as u64);
                    }
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert!(set.ranges.windows(2).all(|w| w[0].end < w[1].start));
                prop_assert!(set.ranges.iter().all(|r| !r.is_empty()));
            }
            prop_assert_eq!(set.contains(probe), model.contains(&probe));
            prop_assert_eq!(set.first().map(|r| r.start), model.first().copied());
            let gaps: Vec<u64> = set.gaps(probe..probe + n).flatten().collect();
            let want: Vec<u64> = (probe..probe + n).filter(|v| !model.contains(v)).collect();
            prop_assert_eq!(gaps, want);
        }
    }
}
