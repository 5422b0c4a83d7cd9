//! Keeps one stray time stamp from stretching a timeline.

/// Records further apart than this belong to different recordings, or one of
/// them has a broken clock (marks at time 0, wrapped counters). Traces pause
/// for minutes when a device sleeps; hours do not occur within one buffer.
const GAP_NS: u64 = 3_600_000_000_000;

/// More separate clusters than this are noise; what falls outside is counted.
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

/// Groups times that lie together, as they come, in constant memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clusters {
    list: Vec<Cluster>,
    current: usize,
    outside: u64,
}

/// Where a recording lies, by [`Clusters::main`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MainSpan {
    pub first: u64,
    pub last: u64,
    /// Records left outside.
    pub strays: u64,
}

impl Clusters {
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

    /// The span of the recording: that of the largest cluster when the others
    /// together are under a hundredth of the records, else all of it.
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
        // A short trace can't meet "under a hundredth": there, one in ten.
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
        let mut c = Clusters::default();
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
        let mut c = Clusters::default();
        for i in 0..10 {
            c.add(i);
            c.add((1 << 60) + i);
        }
        let m = c.main().unwrap();
        assert_eq!((m.first, m.last, m.strays), (0, (1 << 60) + 9, 0));
        assert_eq!(Clusters::default().main(), None);
    }
}
