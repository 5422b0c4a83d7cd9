//! Strength of a pipe's signal: when its radio is to be left.

use mpbond_units::Timestamp;

use crate::signal::Smoothed;

/// Strength below which Bluetooth is left (Wear OS paper, section 6.4), in dBm.
const BLUETOOTH_WEAK_DBM: i16 = -66;

/// Strength below which WiFi is left, in dBm: below this Android joins no network of 2.4 GHz
/// (`config_wifi_framework_wifi_score_entry_rssi_threshold_24GHz`).
const WIFI_WEAK_DBM: i16 = -80;

/// Samples before which the signal is not judged: the standard deviation of one is 4.5 dB.
const FIRST_SAMPLES: u8 = 5;

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

/// Smoothed margin of a pipe's signal.
#[derive(Debug, Default)]
pub(super) struct Margin(Smoothed);

impl Margin {
    /// Takes a sample of this time, unless it was taken before.
    pub(super) fn sample(&mut self, at: Timestamp, signal: Signal) {
        self.0.sample(at, signal.margin_db());
    }

    /// Whether the radio is to be left; `None` without enough samples.
    pub(super) fn is_weak(&self, now: Timestamp) -> Option<bool> {
        let margin = self.0.of(now, FIRST_SAMPLES)?;
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
            let mut margin = Margin::default();
            for n in 0..5 {
                assert_eq!(margin.is_weak(at(10_000 + n * 200)), None, "{signal:?} {n}");
                margin.sample(at(10_000 + n * 200), signal);
            }
            assert_eq!(margin.is_weak(at(10_800)), Some(is_weak), "{signal:?}");
            assert_eq!(margin.is_weak(at(12_801)), None, "long ago");
        }
    }
}
