//! Detection of stray time stamps, so that they do not stretch a timeline.

/// Maximum gap within one recording, ns. A larger gap means another recording or a broken clock
/// (markers at time 0, wrapped counters). Traces pause for minutes while a device is suspended;
/// hours do not occur within one buffer.
const GAP_NS: u64 = 3_600_000_000_000;

/// Maximum number of clusters; records outside of all of them are only counted.
const MAX_CLUSTERS: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Cluster {
    first: u64,
    last: u64,
    count: u64,
}

impl Cluster {
    fn reaches(&self, t: u64) -> bool {
        t.saturating_add(GAP_NS) >= self.first && t <= self.last.saturating_add(GAP_NS)
    }
}

/// Groups time stamps that lie together, online and in constant memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeClusters {
    list: Vec<Cluster>,
    current: usize,
    outside: u64,
}

/// Time span of a recording, as found by [`TimeClusters::main`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MainSpan {
    pub first: u64,
    pub last: u64,
    /// Number of records outside of the span.
    pub strays: u64,
}

impl TimeClusters {
    pub(crate) fn add(&mut self, t: u64) {
        if let Some(c) = self.list.get_mut(self.current)
            && c.reaches(t)
        {
            c.first = c.first.min(t);
            c.last = c.last.max(t);
            c.count += 1;
            return;
        }
        self.add_elsewhere(t);
    }

    #[cold]
    fn add_elsewhere(&mut self, t: u64) {
        if let Some(i) = self.list.iter().position(|c| c.reaches(t)) {
            self.current = i;
            self.add(t);
        } else if self.list.len() < MAX_CLUSTERS {
            self.current = self.list.len();
            self.list.push(Cluster {
                first: t,
                last: t,
                count: 1,
            });
        } else {
            self.outside += 1;
        }
    }

    /// The span of the recording: that of the largest cluster if all others together hold less than
    /// 1 % of the records, else the span of all clusters.
    pub(crate) fn main(&self) -> Option<MainSpan> {
        let mut sorted = self.list.clone();
        sorted.sort_by_key(|c| c.first);
        let mut merged: Vec<Cluster> = Vec::new();
        for c in sorted {
            match merged.last_mut() {
                Some(m) if m.reaches(c.first) => {
                    m.last = m.last.max(c.last);
                    m.count += c.count;
                }
                _ => merged.push(c),
            }
        }
        let total: u64 = merged.iter().map(|c| c.count).sum::<u64>() + self.outside;
        let largest = merged.iter().max_by_key(|c| c.count)?;
        let others = total - largest.count;
        // A short trace cannot hold a stray below 1 %, so the limit is 10 % there.
        if others == 0 || others * 100 <= total || (others <= 3 && others * 10 <= total) {
            return Some(MainSpan {
                first: largest.first,
                last: largest.last,
                strays: others,
            });
        }
        Some(MainSpan {
            first: merged.first()?.first,
            last: merged.last()?.last,
            strays: self.outside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stray_event_decades_away_is_left_out() {
        let mut c = TimeClusters::default();
        c.add(0);
        for i in 0..50 {
            c.add(50_000_000_000_000 + i);
        }
        c.add(1 << 60);
        assert_eq!(
            c.main(),
            Some(MainSpan {
                first: 50_000_000_000_000,
                last: 50_000_000_000_049,
                strays: 2
            })
        );
    }

    #[test]
    fn two_recordings_of_one_size_are_kept() {
        let mut c = TimeClusters::default();
        for i in 0..10 {
            c.add(i);
            c.add((1 << 60) + i);
        }
        let m = c.main().unwrap();
        assert_eq!((m.first, m.last, m.strays), (0, (1 << 60) + 9, 0));
        assert_eq!(TimeClusters::default().main(), None);
    }
}
