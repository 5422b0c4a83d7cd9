//! What goes one way: how large records are, and when each is due.

use std::time::Duration;

use serde::Serialize;

use super::wire::{HEADER, MAX_RECORD};

/// Traffic in one direction, in records of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// A record's octets, its header of 24 included.
    pub(crate) record_bytes: u32,
    /// From one record to the next; zero for as fast as it goes.
    #[serde(skip)]
    pub(crate) interval: Duration,
}

/// Small enough to show what slow links do: 30 ms of Bluetooth's 1.1 Mbit/s.
const BULK_BYTES: u32 = 4096;
/// A packet, where the rate lets records be so small.
const CBR_BYTES: u64 = 1200;
/// Timers are not exact to much less.
const CBR_INTERVAL_NS: u64 = 1_000_000;

impl Flow {
    /// As much as goes.
    pub fn bulk() -> Self {
        Self {
            record_bytes: BULK_BYTES,
            interval: Duration::ZERO,
        }
    }

    /// A constant rate, in packets of 1200 octets or, above 9.6 Mbit/s, one of any size each ms.
    ///
    /// # Errors
    /// What is wrong with the rate, in one line.
    pub fn constant(bits_per_second: u64) -> Result<Self, String> {
        let least = u128::from(bits_per_second) * u128::from(CBR_INTERVAL_NS) / 8_000_000_000;
        let bytes = least.max(CBR_BYTES.into());
        let interval = (bytes * 8_000_000_000)
            .checked_div(bits_per_second.into())
            .unwrap_or(u128::MAX);
        let flow = Self {
            record_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            interval: Duration::from_nanos(u64::try_from(interval).unwrap_or(u64::MAX)),
        };
        match flow.check() {
            Ok(()) => Ok(flow),
            Err(_) => Err("a constant rate is 3 kbit/s to 500 Mbit/s".to_owned()),
        }
    }

    /// So many octets each so often: 3 KB each 160 ms is the camera of the Wear OS paper's section
    /// 6.2.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn chunks(bytes: u32, every: Duration) -> Result<Self, String> {
        let flow = Self {
            record_bytes: bytes,
            interval: every,
        };
        match flow.check() {
            Ok(()) if !every.is_zero() => Ok(flow),
            Ok(()) => Err("chunks need a time from one to the next".to_owned()),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if !(2 * HEADER..=MAX_RECORD).contains(&(self.record_bytes as usize)) {
            return Err(format!("a record has {} to {MAX_RECORD} bytes", 2 * HEADER));
        }
        let ns = self.interval.as_nanos();
        if ns != 0 && !(100_000..=4_000_000_000).contains(&ns) {
            return Err("the interval of records is 0.1 ms to 4 s".to_owned());
        }
        Ok(())
    }

    /// A record's octets, its header included.
    pub fn record_bytes(&self) -> u32 {
        self.record_bytes
    }

    /// From one record to the next; zero for bulk.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// How many records a run has; bulk has as many as go.
    pub(crate) fn total(&self, duration: Duration) -> Option<u64> {
        let n = duration.as_nanos().checked_div(self.interval.as_nanos())?;
        Some(u64::try_from(n).unwrap_or(u64::MAX).max(1))
    }

    /// When a record is due; bulk always is.
    pub(crate) fn due_ns(&self, start_ns: u64, number: u64) -> u64 {
        let interval = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        start_ns.saturating_add(interval.saturating_mul(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_kept() {
        let half = Flow::constant(500_000).unwrap();
        assert_eq!(
            (half.record_bytes, half.interval.as_micros()),
            (1200, 19_200)
        );
        assert_eq!(half.total(Duration::from_secs(10)), Some(520));
        let fast = Flow::constant(100_000_000).unwrap();
        assert_eq!(
            (fast.record_bytes, fast.interval.as_micros()),
            (12_500, 1000)
        );
        for bad in [0, 1, 2_000_000_000, u64::MAX] {
            assert!(Flow::constant(bad).is_err(), "{bad}");
        }
        // The camera: 150 kbit/s.
        let camera = Flow::chunks(3000, Duration::from_millis(160)).unwrap();
        assert_eq!(camera.due_ns(5, 10), 1_600_000_005);
        assert_eq!(Flow::bulk().total(Duration::from_secs(1)), None);
        assert!(Flow::chunks(3000, Duration::ZERO).is_err());
    }
}
