use std::collections::BTreeMap;

use crate::event::{Clock, ClockReading};

/// Relates the clocks of a trace by the moments at which several were read.
///
/// Clocks run at slightly different rates and some are set now and then, so a
/// time is moved by the reading next to it, never by an average.
#[derive(Debug, Clone, Default)]
pub struct ClockMap {
    snapshots: Vec<BTreeMap<Clock, u64>>,
}

impl ClockMap {
    /// From the readings of a trace.
    pub fn new(readings: &[ClockReading]) -> Self {
        let mut by_snapshot: BTreeMap<u32, BTreeMap<Clock, u64>> = BTreeMap::new();
        for r in readings {
            by_snapshot
                .entry(r.snapshot)
                .or_default()
                .insert(r.clock, r.ns);
        }
        Self {
            snapshots: by_snapshot.into_values().collect(),
        }
    }

    /// The time `ns` of clock `from` on clock `to`; `None` when they were never
    /// read together, or the result lies before the clock's zero.
    pub fn convert(&self, ns: u64, from: Clock, to: Clock) -> Option<u64> {
        if from == to {
            return Some(ns);
        }
        let nearest = self
            .snapshots
            .iter()
            .filter_map(|s| Some((*s.get(&from)?, *s.get(&to)?)))
            .min_by_key(|(a, _)| a.abs_diff(ns))?;
        let (a, b) = nearest;
        if ns >= a {
            b.checked_add(ns - a)
        } else {
            b.checked_sub(a - ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_reading_counts() {
        let reading = |snapshot, clock, ns| ClockReading {
            snapshot,
            clock,
            ns,
        };
        let map = ClockMap::new(&[
            reading(1, Clock::Trace, 1_000),
            reading(1, Clock::Realtime, 50_000),
            reading(2, Clock::Trace, 9_000),
            // The clock was set forward by 100 in between.
            reading(2, Clock::Realtime, 58_100),
            reading(3, Clock::Boot, 5),
        ]);
        let real = |ns| map.convert(ns, Clock::Trace, Clock::Realtime);
        assert_eq!(real(1_500), Some(50_500));
        assert_eq!(real(8_500), Some(57_600));
        assert_eq!(real(0), Some(49_000));
        assert_eq!(
            map.convert(58_200, Clock::Realtime, Clock::Trace),
            Some(9_100)
        );
        assert_eq!(map.convert(7, Clock::Trace, Clock::Boot), None);
        assert_eq!(map.convert(7, Clock::Other(99), Clock::Other(99)), Some(7));
    }
}
