//! Frame aggregation: packets that wait for others, to be sent together (802.11n and 802.11ac).
//!
//! A packet waits until it has waited for the holding time, counted from the first that waits, or
//! until as many octets wait as an aggregate has ("Toward Accurate Network Delay Measurement on
//! Android Phones", section 5.7: 3839 or 7935 for an A-MSDU, 65535 for an A-MPDU of 802.11n; 5 ms
//! in Broadcom's driver). Then all of them may be sent, at the link's rate.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Packets at the end of a queue that are not sent yet.
#[derive(Debug)]
pub(super) struct Held {
    time: Duration,
    limit: u64,
    packets: usize,
    bytes: u64,
    /// End of the holding; some exactly while packets wait.
    until: Option<Timestamp>,
}

impl Held {
    /// None yet; they will wait for `time`, or until `limit` octets wait.
    pub(super) fn new(time: Duration, limit: u64) -> Self {
        Self {
            time,
            limit,
            packets: 0,
            bytes: 0,
            until: None,
        }
    }

    /// Another packet is in the queue.
    pub(super) fn take(&mut self, now: Timestamp, bytes: u32) {
        if self.time.is_zero() {
            return;
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.until.get_or_insert(now + self.time);
        if self.bytes >= self.limit {
            self.clear();
        }
    }

    /// Number of packets that wait.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// When those that wait may be sent.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Ends a holding that ends by `now`, and returns its end.
    pub(super) fn release(&mut self, now: Timestamp) -> Option<Timestamp> {
        let until = self.until.filter(|until| *until <= now)?;
        self.clear();
        Some(until)
    }

    /// No packet waits any more.
    pub(super) fn clear(&mut self) {
        (self.packets, self.bytes, self.until) = (0, 0, None);
    }
}
