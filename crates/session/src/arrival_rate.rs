//! Rate at which octets arrive, measured from trains of packets.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Octets that follow each other within this time belong to one train: more than a packet takes at
/// 1.5 Mbit/s, less than the pause between two flights of a flow that is only starting.
const PAUSE: Duration = Duration::from_millis(8);

/// Least length and bytes of a train that is measured.
const LEAST_SPAN: Duration = Duration::from_millis(3);
const LEAST_BYTES: u64 = 8_192;

/// More than this at once did not arrive as it was sent: it had queued up here, behind a lost
/// packet or before a slow reader, and shows nothing of the path.
const QUEUED_BYTES: u64 = 8_192;

/// Maximum length of a train, so that the rate is recent.
const LONGEST: Duration = Duration::from_millis(100);

/// Rate at which octets arrive while they come without a pause, measured at the receiver.
///
/// A flow that is starting sends one flight per round trip, and its rate shows nothing of the path;
/// but each flight arrives at the rate of the slowest hop. So the receiver knows the path's
/// capacity from the first flight on (packet-train dispersion), long before the sender's congestion
/// window shows it.
#[derive(Debug, Default)]
pub(crate) struct ArrivalRate {
    start: Timestamp,
    last: Timestamp,
    bytes: u64,
    rate: BitRate,
    news: bool,
}

impl ArrivalRate {
    /// Octets have arrived.
    pub(crate) fn arrived(&mut self, now: Timestamp, octets: u64) {
        let pause = now.since(self.last) > PAUSE;
        if pause || octets > QUEUED_BYTES || now.since(self.start) > LONGEST {
            // The octets that begin a train have no rate.
            self.start = now;
            self.bytes = 0;
        } else {
            self.bytes += octets;
            let span = now.since(self.start);
            if span >= LEAST_SPAN && self.bytes >= LEAST_BYTES {
                self.rate = BitRate::over(self.bytes, span);
                self.news = true;
            }
        }
        self.last = now;
    }

    /// The rate, if measured since the last call; else zero.
    pub(crate) fn take(&mut self) -> BitRate {
        if std::mem::take(&mut self.news) {
            self.rate
        } else {
            BitRate::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_shows_the_bottleneck() {
        let mut p = ArrivalRate::default();
        // Two flights of ten packets at 8 Mbit/s, 50 ms apart.
        for flight in [1_000, 1_050] {
            for i in 0..10u64 {
                let at = Timestamp::from_micros(flight * 1_000 + i * 1_500);
                p.arrived(at, 1_500);
            }
            let got = p.take().mbps();
            assert!((got - 8.0).abs() < 0.01, "{got}");
        }
        assert_eq!(p.take(), BitRate::ZERO);
        // What a repaired loss releases at once shows nothing.
        p.arrived(Timestamp::from_millis(1_500), 1_500);
        p.arrived(Timestamp::from_micros(1_503_500), 90_000);
        p.arrived(Timestamp::from_micros(1_505_000), 1_500);
        assert_eq!(p.take(), BitRate::ZERO);
        // Nor does small change.
        p.arrived(Timestamp::from_millis(2_000), 100);
        p.arrived(Timestamp::from_millis(2_004), 100);
        assert_eq!(p.take(), BitRate::ZERO);
    }
}
