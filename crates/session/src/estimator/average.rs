//! Moving averages of throughputs.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Time constant of the moving averages: about what a flow takes to settle after a change of
/// rate, and short against the seconds for which a helper may run ahead.
const SMOOTHING: Duration = Duration::from_millis(150);

/// Moving average of a throughput: samples weigh less the older they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Average {
    pub(super) bytes_per_sec: f64,
    /// Time of the last sample.
    pub(super) at: Timestamp,
}

impl Average {
    /// The average, if its last sample is newer than this.
    pub(super) fn newer_than(self, now: Timestamp, age: Duration) -> Option<Self> {
        (now.since(self.at) < age).then_some(self)
    }

    /// Takes a sample; the first one is the average.
    pub(super) fn update(slot: &mut Option<Self>, now: Timestamp, sample: f64) {
        let bytes_per_sec = match *slot {
            Some(old) => {
                let age = now.since(old.at).as_secs_f64();
                let weight = 1.0 - (-age / SMOOTHING.as_secs_f64()).exp();
                old.bytes_per_sec + weight * (sample - old.bytes_per_sec)
            }
            None => sample,
        };
        *slot = Some(Self {
            bytes_per_sec,
            at: now,
        });
    }
}
