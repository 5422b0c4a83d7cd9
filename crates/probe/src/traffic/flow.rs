//! Traffic in one direction: size of records and their due times.

use std::time::Duration;

use serde::Serialize;

use super::wire::{HEADER, MAX_RECORD};

/// Traffic in one direction, in records of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Length of a record in octets, including its header of 24.
    pub(crate) record_bytes: u32,
    /// Interval between records; zero for bulk.
    #[serde(skip)]
    pub(crate) interval: Duration,
}

/// Record length of bulk traffic, small enough to resolve slow links: 30 ms at Bluetooth's 1.1
/// Mbit/s.
const BULK_BYTES: u32 = 4096;
/// Record length at a constant rate: one packet, where the interval allows it.
const CBR_BYTES: u64 = 1200;
/// Shortest interval at a constant rate; timers are not much more precise.
const CBR_INTERVAL_NS: u64 = 1_000_000;

impl Flow {
    /// Bulk traffic, as fast as possible.
    pub fn bulk() -> Self {
        Self {
            record_bytes: BULK_BYTES,
            interval: Duration::ZERO,
        }
    }

    /// Traffic at a constant rate, in packets of 1200 octets or, above 9.6 Mbit/s, one larger
    /// record each ms.
    ///
    /// # Errors
    /// One line when the rate is out of range.
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
            Err(_) => Err("a constant rate must be 3 kbit/s to 500 Mbit/s".to_owned()),
        }
    }

    /// Periodic chunks: 3 kB each 160 ms is the camera of "Understanding the Networking Performance
    /// of Wear OS", section 6.2.
    ///
    /// # Errors
    /// One line when size or interval is out of range.
    pub fn chunks(bytes: u32, every: Duration) -> Result<Self, String> {
        let flow = Self {
            record_bytes: bytes,
            interval: every,
        };
        match flow.check() {
            Ok(()) if !every.is_zero() => Ok(flow),
            Ok(()) => Err("chunks need an interval".to_owned()),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if !(2 * HEADER..=MAX_RECORD).contains(&(self.record_bytes as usize)) {
            return Err(format!(
                "a record must have {} to {MAX_RECORD} bytes",
                2 * HEADER
            ));
        }
        let ns = self.interval.as_nanos();
        if ns != 0 && !(100_000..=4_000_000_000).contains(&ns) {
            return Err("the interval of records must be 0.1 ms to 4 s".to_owned());
        }
        Ok(())
    }

    /// Length of a record in octets, header included.
    pub fn record_bytes(&self) -> u32 {
        self.record_bytes
    }

    /// Interval between records; zero for bulk.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Number of records in a run; `None` for bulk.
    pub(crate) fn total(&self, duration: Duration) -> Option<u64> {
        let n = duration.as_nanos().checked_div(self.interval.as_nanos())?;
        Some(u64::try_from(n).unwrap_or(u64::MAX).max(1))
    }

    /// Due time of a record; bulk records are always due.
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
