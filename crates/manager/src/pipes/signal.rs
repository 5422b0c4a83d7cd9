//! Strength of a pipe's signal: when its radio is to be left.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::wear::Kalman;

/// Strength below which Bluetooth is left (Wear OS paper, section 6.4), in dBm.
const BLUETOOTH_WEAK_DBM: i16 = -66;

/// Strength below which WiFi is left, in dBm: below this Android joins no network of 2.4 GHz
/// (`config_wifi_framework_wifi_score_entry_rssi_threshold_24GHz`).
const WIFI_WEAK_DBM: i16 = -80;

/// Interval of the samples of a pipe's signal: the one for which the filter is made. Those that
/// come sooner do not count.
pub const SIGNAL_EVERY: Duration = Duration::from_millis(200);

/// Samples before which the signal is not judged: the standard deviation of one is 4.5 dB.
const FIRST_SAMPLES: u8 = 5;

/// Time without a sample after which those of before do not count.
const FORGET_AFTER: Duration = Duration::from_secs(2);

/// Strength of the signal of a pipe's radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Of WiFi, in dBm.
    Wifi(i16),
    /// Of Bluetooth, in dBm.
    Bluetooth(i16),
}

impl Signal {
    /// Decibels above the strength below which the radio is left.
    fn margin_db(self) -> f64 {
        let (dbm, weak) = match self {
            Self::Wifi(dbm) => (dbm, WIFI_WEAK_DBM),
            Self::Bluetooth(dbm) => (dbm, BLUETOOTH_WEAK_DBM),
        };
        f64::from(dbm) - f64::from(weak)
    }
}

/// Smoothed strength of a signal.
#[derive(Debug, Default)]
pub(super) struct Smoothed {
    /// Of the margin.
    filter: Kalman,
    samples: u8,
    at: Timestamp,
}

impl Smoothed {
    /// Takes a sample of this time, unless it was taken before.
    pub(super) fn sample(&mut self, at: Timestamp, signal: Signal) {
        let since = at.since(self.at);
        if self.samples > 0 && since < SIGNAL_EVERY {
            return;
        }
        if since > FORGET_AFTER {
            *self = Self::default();
        }
        self.filter.update(signal.margin_db());
        self.samples = self.samples.saturating_add(1);
        self.at = at;
    }

    /// Whether the radio is to be left; `None` without enough samples.
    pub(super) fn is_weak(&self, now: Timestamp) -> Option<bool> {
        let is_known = self.samples >= FIRST_SAMPLES && now.since(self.at) <= FORGET_AFTER;
        let margin = self.filter.estimate().filter(|_| is_known)?;
        Some(margin < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn each_radio_has_its_threshold_and_one_sample_decides_nothing() {
        for (signal, is_weak) in [
            (Signal::Bluetooth(-66), false),
            (Signal::Bluetooth(-67), true),
            (Signal::Wifi(-80), false),
            (Signal::Wifi(-81), true),
        ] {
            let mut smoothed = Smoothed::default();
            for n in 0..5 {
                assert_eq!(
                    smoothed.is_weak(at(10_000 + n * 200)),
                    None,
                    "{signal:?} {n}"
                );
                smoothed.sample(at(10_000 + n * 200), signal);
            }
            assert_eq!(smoothed.is_weak(at(10_800)), Some(is_weak), "{signal:?}");
            assert_eq!(smoothed.is_weak(at(12_801)), None, "long ago");
        }
    }

    #[test]
    fn samples_are_those_of_every_200_ms_and_old_ones_are_forgotten() {
        let mut smoothed = Smoothed::default();
        for n in 0..10 {
            smoothed.sample(at(n * 100), Signal::Bluetooth(-90));
        }
        assert_eq!(smoothed.samples, 5);
        smoothed.sample(at(800), Signal::Bluetooth(-90));
        assert_eq!(smoothed.samples, 5, "the same one");
        assert_eq!(smoothed.is_weak(at(900)), Some(true));
        smoothed.sample(at(3_000), Signal::Bluetooth(-90));
        assert_eq!(
            smoothed.is_weak(at(3_000)),
            None,
            "the first one after a pause"
        );
    }
}
