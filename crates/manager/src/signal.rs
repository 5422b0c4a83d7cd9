//! Strength of the signal of a link's radio: smoothed, and whether it is weak.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::kalman::Kalman;

/// Interval of the samples of a signal: the one for which the filter is made. Those that come
/// sooner do not count.
pub const SIGNAL_EVERY: Duration = Duration::from_millis(200);

/// Interval of the looks at signals that are compared with thresholds, after no bytes have moved
/// for as long.
const QUIET: Duration = Duration::from_secs(1);

/// Time without a sample after which those of before do not count.
const FORGET_AFTER: Duration = Duration::from_secs(2);

/// Decibels above the threshold from which on a weak signal is weak no longer: twice the standard
/// deviation of a smoothed strength (1.5 dB, by the constants of the filter).
const HYSTERESIS_DB: f64 = 3.0;

/// Smoothed strength of a signal, in decibels.
#[derive(Debug, Default)]
pub(crate) struct Smoothed {
    filter: Kalman,
    samples: u8,
    at: Timestamp,
}

impl Smoothed {
    /// Takes a sample of this time, unless it was taken before.
    pub(crate) fn sample(&mut self, at: Timestamp, strength: f64) {
        let since = at.since(self.at);
        if self.samples > 0 && since < SIGNAL_EVERY {
            return;
        }
        if since > FORGET_AFTER {
            *self = Self::default();
        }
        self.filter.update(strength);
        self.samples = self.samples.saturating_add(1);
        self.at = at;
    }

    /// The strength, if so many samples are known.
    pub(crate) fn of(&self, now: Timestamp, samples: u8) -> Option<f64> {
        let is_known = self.samples >= samples && now.since(self.at) <= FORGET_AFTER;
        self.filter.estimate().filter(|_| is_known)
    }
}

/// Whether the signal of a link is weak by a policy, which has links of higher cost carry data
/// beside it then (ADR 0071).
///
/// The first sample decides, also after a pause: a wrong decision costs little, and is corrected
/// by the next samples. Without looks, the decision stays what it was.
#[derive(Debug, Default)]
pub struct WeakSignal {
    smoothed: Smoothed,
    is_weak: bool,
}

impl WeakSignal {
    /// Takes the last sample, in dBm and with its time, unless it was taken before; or that there
    /// is none. A smoothed strength below the threshold, in dBm, is weak, and one that is not known
    /// any more is not.
    pub fn handle_look(
        &mut self,
        now: Timestamp,
        sample: Option<(Timestamp, i16)>,
        threshold_dbm: i16,
    ) {
        if let Some((at, dbm)) = sample {
            self.smoothed.sample(at, f64::from(dbm));
        }
        let hysteresis = if self.is_weak { HYSTERESIS_DB } else { 0.0 };
        let dbm = self.smoothed.of(now, 1);
        self.is_weak = dbm.is_some_and(|dbm| dbm < f64::from(threshold_dbm) + hysteresis);
    }

    /// The smoothed strength in dBm, if it is known.
    pub fn smoothed_dbm(&self, now: Timestamp) -> Option<f64> {
        self.smoothed.of(now, 1)
    }

    /// Time until the next look, after bytes have not moved for this time.
    pub fn next_look(quiet: Duration) -> Duration {
        if quiet < QUIET { SIGNAL_EVERY } else { QUIET }
    }

    /// Whether it is weak; not, before the first sample.
    pub const fn is_weak(&self) -> bool {
        self.is_weak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn samples_are_those_of_every_200_ms_and_old_ones_are_forgotten() {
        let mut smoothed = Smoothed::default();
        for n in 0..10 {
            smoothed.sample(at(n * 100), -90.0);
        }
        assert_eq!(smoothed.samples, 5);
        smoothed.sample(at(800), -90.0);
        assert_eq!(smoothed.samples, 5, "the same one");
        assert_eq!(smoothed.of(at(2_800), 5), Some(-90.0));
        assert_eq!(smoothed.of(at(2_800), 6), None, "too few");
        assert_eq!(smoothed.of(at(2_801), 5), None, "long ago");
        smoothed.sample(at(2_801), -50.0);
        assert_eq!(smoothed.of(at(2_801), 1), Some(-50.0), "after a pause");
    }

    #[test]
    fn a_signal_is_weak_below_its_threshold_until_it_is_3_db_above() {
        let mut signal = WeakSignal::default();
        let mut hear = |ms, dbm| {
            signal.handle_look(at(ms), Some((at(ms), dbm)), -60);
            signal.is_weak()
        };
        assert!(!hear(1_000, -60), "the first sample");
        assert!(hear(1_200, -70), "smoothed: less than -60");
        // After a pause, each first sample decides.
        for (n, dbm, is_weak) in [
            (1, -58, true),
            (2, -57, false),
            (3, -60, false),
            (4, -61, true),
        ] {
            assert_eq!(hear(n * 10_000, dbm), is_weak, "{dbm}");
        }
        assert!(hear(40_100, -30), "a sample that comes too soon");
    }

    #[test]
    fn a_change_from_51_to_68_dbm_is_noticed_by_the_seventh_sample() {
        let mut signal = WeakSignal::default();
        let mut noticed = None;
        for n in 0..70 {
            let dbm = if n < 50 { -51 } else { -68 };
            signal.handle_look(at(n * 200), Some((at(n * 200), dbm)), -60);
            noticed = noticed.or(signal.is_weak().then(|| n - 49));
        }
        assert_eq!(noticed, Some(7));
    }

    #[test]
    fn a_signal_that_is_long_not_known_is_not_weak() {
        let mut signal = WeakSignal::default();
        let sample = Some((at(1_000), -70));
        let mut look = |ms, sample| {
            signal.handle_look(at(ms), sample, -60);
            signal.is_weak()
        };
        assert!(!look(500, None));
        assert!(look(1_000, sample));
        assert!(look(3_000, None), "a gap in the kernel's table");
        assert!(look(3_000, sample), "the last one that was told");
        assert!(!look(3_001, None) && !look(3_001, sample));
        // The next sample finds it again.
        assert!(look(3_200, Some((at(3_200), -70))));
    }

    /// Changes of a signal of this strength in an hour, whose samples have a standard deviation of
    /// 4.5 dB (ADR 0023).
    fn changes_in_an_hour(strength: f64) -> usize {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 32) as f64 / f64::from(u32::MAX)
        };
        let mut signal = WeakSignal::default();
        let mut before = false;
        let changes = (0..18_000).filter(|n| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let dbm = (strength + 4.5 * normal).round() as i16;
            signal.handle_look(at(n * 200), Some((at(n * 200), dbm)), -60);
            std::mem::replace(&mut before, signal.is_weak()) != signal.is_weak()
        });
        changes.count()
    }

    #[test]
    fn a_signal_near_its_threshold_changes_four_times_a_minute_at_most() {
        let changes: Vec<_> = (-70..-48)
            .map(|n| (n, changes_in_an_hour(n.into())))
            .collect();
        assert!(
            changes.iter().all(|(_, changes)| *changes <= 4 * 60),
            "{changes:?}"
        );
    }

    #[test]
    fn looks_are_fewer_while_no_bytes_move() {
        let next = |ms| WeakSignal::next_look(Duration::from_millis(ms)).as_millis();
        assert_eq!([0, 999, 1_000, 4_000].map(next), [200, 200, 1_000, 1_000]);
    }

    #[test]
    fn one_sample_among_others_changes_nothing() {
        let mut signal = WeakSignal::default();
        for n in 0..20 {
            let dbm = if n == 15 { -75 } else { -51 };
            signal.handle_look(at(n * 200), Some((at(n * 200), dbm)), -60);
            assert!(!signal.is_weak(), "{n}");
        }
    }
}
