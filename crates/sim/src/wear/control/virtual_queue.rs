//! A phone's virtual queue for a watch (Wear OS paper, section 4.3): bytes received from servers
//! that Bluetooth has not acknowledged, of all connections together. It bounds their delay.
//!
//! Above BW(1 - ε)T the phone reads at half of Bluetooth's rate BW, until BW(1 - 2ε)T is reached.
//! The published scheme shapes packets; here the phone bounds the receive window as well, since a
//! socket that is only not read fills its buffer in the kernel.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Tolerable delay in the queue (T).
const TOLERABLE: Duration = Duration::from_secs(1);
/// Share ε, in tenths.
const EPSILON_TENTHS: u64 = 3;
/// Time with data over which Bluetooth's rate is measured: two cycles of Active and Sniff of a
/// watch with a timer of 5 s.
const MEASURED_OVER: Duration = Duration::from_secs(12);
/// Length of a part of it.
const PART: Duration = Duration::from_millis(500);
/// Rate before the first measurement: bulk downloads of the paper's watches, section 4.2.
const INITIAL: BitRate = BitRate::from_bps(1_100_000);
/// Time with data from which on the measured rate replaces the initial one: longer than a blackout.
const MEASURED_AT_LEAST: Duration = Duration::from_secs(2);
/// Part of the window beyond the upper length, so that throttling begins: two segments.
const BEYOND_BYTES: u64 = 2 * 1448;

/// Bytes acknowledged in some time with data.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    bytes: u64,
    busy: Duration,
}

/// The queue.
#[derive(Debug, Clone)]
pub struct VirtualQueue {
    bytes: u64,
    throttled: bool,
    now: Timestamp,
    /// The oldest first; the last one grows.
    parts: VecDeque<Part>,
}

impl VirtualQueue {
    /// An empty queue.
    pub fn new(now: Timestamp) -> Self {
        Self {
            bytes: 0,
            throttled: false,
            now,
            parts: VecDeque::from([Part::default()]),
        }
    }

    /// Bytes have arrived from a server, in the kernel or beyond.
    pub fn handle_arrived(&mut self, now: Timestamp, bytes: u64) {
        self.pass_time(now);
        self.bytes = self.bytes.saturating_add(bytes);
        self.judge();
    }

    /// Bluetooth has acknowledged bytes, or they were discarded.
    pub fn handle_acknowledged(&mut self, now: Timestamp, bytes: u64) {
        self.pass_time(now);
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(part) = self.parts.back_mut() {
            part.bytes = part.bytes.saturating_add(bytes);
        }
        self.judge();
    }

    /// Bytes in the queue.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Rate of Bluetooth (BW), over the last 12 s in which it had data.
    pub fn rate(&self) -> BitRate {
        let busy = self.parts.iter().map(|part| part.busy).sum::<Duration>();
        let bytes = self.parts.iter().map(|part| part.bytes).sum();
        match busy < MEASURED_AT_LEAST {
            true => INITIAL,
            false => BitRate::over(bytes, busy),
        }
    }

    /// Length at which throttling begins: BW(1 - ε)T.
    pub fn upper_bytes(&self) -> u64 {
        self.rate().bytes_in(TOLERABLE) / 10 * (10 - EPSILON_TENTHS)
    }

    /// Length at which throttling ends: BW(1 - 2ε)T.
    pub fn lower_bytes(&self) -> u64 {
        self.rate().bytes_in(TOLERABLE) / 10 * (10 - 2 * EPSILON_TENTHS)
    }

    /// Rate at which the phone may read, BW/2, while it is throttled; `None`: as fast as it can.
    pub fn read_rate(&self) -> Option<BitRate> {
        let half = BitRate::from_bps(self.rate().bps() / 2);
        self.throttled.then_some(half)
    }

    /// Bytes beyond those that have arrived that servers may be allowed to send while the phone is
    /// not throttled, on all connections together: up to just above the upper length.
    pub fn window_bytes(&self) -> u64 {
        self.upper_bytes().saturating_sub(self.bytes) + BEYOND_BYTES
    }

    fn pass_time(&mut self, now: Timestamp) {
        let passed = now.since(self.now);
        self.now = self.now.max(now);
        if self.bytes == 0 {
            return;
        }
        if let Some(part) = self.parts.back_mut() {
            part.busy += passed;
        }
    }

    /// Begins a new part when the last one is long enough, and drops the oldest ones.
    fn rotate(&mut self) {
        if self.parts.back().is_some_and(|part| part.busy >= PART) {
            self.parts.push_back(Part::default());
        }
        let mut busy = self.parts.iter().map(|part| part.busy).sum::<Duration>();
        while let Some(first) = self.parts.front()
            && busy.saturating_sub(first.busy) >= MEASURED_OVER
        {
            busy -= first.busy;
            self.parts.pop_front();
        }
    }

    fn judge(&mut self) {
        self.rotate();
        if self.bytes > self.upper_bytes() {
            self.throttled = true;
        } else if self.bytes < self.lower_bytes() {
            self.throttled = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn throttling_begins_above_the_upper_length_and_ends_below_the_lower() {
        let mut q = VirtualQueue::new(at(0));
        // 1.1 Mbit/s for 1 s are 137500 bytes.
        assert_eq!((q.upper_bytes(), q.lower_bytes()), (96_250, 55_000));
        q.handle_arrived(at(0), 96_250);
        assert_eq!(q.read_rate(), None);
        assert_eq!(q.window_bytes(), 2_896);
        q.handle_arrived(at(0), 1);
        assert_eq!(q.read_rate(), Some(BitRate::from_bps(550_000)));
        q.handle_acknowledged(at(1), 41_251);
        assert_eq!(q.bytes(), 55_000);
        assert!(q.read_rate().is_some());
        q.handle_acknowledged(at(1), 1);
        assert_eq!(q.read_rate(), None);
        assert_eq!(q.window_bytes(), 41_251 + 2_896);
    }

    #[test]
    fn the_rate_is_that_of_time_with_data() {
        let mut q = VirtualQueue::new(at(0));
        for n in 0..30 {
            // 100 kB in 1 s with data, then 9 s without.
            let start = n * 10_000;
            q.handle_arrived(at(start), 100_000);
            for step in 1..=10 {
                q.handle_acknowledged(at(start + step * 100), 10_000);
            }
        }
        assert_eq!(q.bytes(), 0);
        assert_eq!(q.rate(), BitRate::from_mbps(0.8));
        // Half of it from now on: measured anew after 12 s with data.
        q.handle_arrived(at(400_000), 1_000_000);
        for step in 1..=130 {
            q.handle_acknowledged(at(400_000 + step * 100), 5_000);
        }
        assert_eq!(q.rate(), BitRate::from_mbps(0.4));
        assert_eq!(q.upper_bytes(), 35_000);
    }

    #[test]
    fn more_acknowledged_than_arrived_is_none() {
        let mut q = VirtualQueue::new(at(0));
        q.handle_acknowledged(at(5), u64::MAX);
        q.handle_acknowledged(at(9), u64::MAX);
        assert_eq!(q.bytes(), 0);
        q.handle_arrived(at(10), u64::MAX);
        q.handle_arrived(at(10), u64::MAX);
        assert_eq!(q.bytes(), u64::MAX);
    }
}
