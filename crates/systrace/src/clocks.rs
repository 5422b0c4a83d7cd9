//! Conversion between the clocks of a trace.

use std::collections::BTreeMap;

use crate::event::{Clock, ClockReading};

/// Converts times between clocks by snapshots in which several clocks were read at once.
///
/// Clocks drift against each other and the real-time clock may be set, so a time is converted by
/// the nearest snapshot, never by interpolation or an average rate.
#[derive(Debug, Clone, Default)]
pub struct ClockMap {
    snapshots: Vec<BTreeMap<Clock, u64>>,
}

impl ClockMap {
    /// Builds the map from the clock readings of a trace.
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

    /// Converts the time `ns` of clock `from` to clock `to`. `None` if no snapshot has both clocks
    /// or the result lies before zero of clock `to`.
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
            // The real-time clock was set forward by 100 between the snapshots.
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
