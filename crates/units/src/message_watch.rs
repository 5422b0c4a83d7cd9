//! Whether messages come beside the bulk of a pipe.

use std::time::Duration;

use crate::Timestamp;

/// Time after a message for which more are expected: that of the senders' short queues.
const LASTS: Duration = Duration::from_secs(10);
/// First bytes of an express: its handshake.
const HANDSHAKE_BYTES: u64 = 4 << 10;
/// Bytes of a message.
const LEAST_BYTES: u64 = 512;
/// Part of the other bytes that is no message: control frames are 46 octets for each 2 MB.
const CONTROL_SHARE: u64 = 16 << 10;
/// Bytes that are more than messages, and part of the other bytes that messages may have.
const MOST_BYTES: u64 = 32 << 10;
const MESSAGE_SHARE: u64 = 4;

/// Bytes of a part of a pipe, beyond a share of all others.
#[derive(Debug, Clone, Copy, Default)]
struct Excess {
    bytes: u64,
    /// Bytes of others that have not made up for one yet.
    others: u64,
}

impl Excess {
    fn others(&mut self, bytes: u64, share: u64) {
        self.others += bytes;
        self.bytes = self.bytes.saturating_sub(self.others / share);
        self.others %= share;
    }
}

/// Whether the expresses of a pipe carry messages: neither control frames alone nor bulk.
#[derive(Debug, Clone, Default)]
pub struct MessageWatch {
    control: Excess,
    bulk: Excess,
    until: Timestamp,
}

impl MessageWatch {
    /// An express has carried so many bytes, after `before` others since its begin.
    pub fn express(&mut self, now: Timestamp, before: u64, bytes: u64) {
        let bytes = bytes.saturating_sub(HANDSHAKE_BYTES.saturating_sub(before));
        self.control.bytes += bytes;
        self.bulk.bytes = (self.bulk.bytes + bytes).min(2 * MOST_BYTES);
        if self.control.bytes >= LEAST_BYTES {
            self.control.bytes = 0;
            self.until = now + LASTS;
        }
    }

    /// A connection that is no express has carried so many bytes.
    pub fn others(&mut self, bytes: u64) {
        self.control.others(bytes, CONTROL_SHARE);
        self.bulk.others(bytes, MESSAGE_SHARE);
    }

    /// Whether there are messages.
    pub fn has_messages(&self, now: Timestamp) -> bool {
        now < self.until && self.bulk.bytes < MOST_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDSHAKE: u64 = HANDSHAKE_BYTES;
    const MESSAGE: u64 = 2 << 10;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_message_counts_for_ten_seconds_and_a_handshake_does_not() {
        let mut watch = MessageWatch::default();
        watch.express(at(0), 0, 1_100);
        watch.express(at(20), 1_100, HANDSHAKE - 1_100 + LEAST_BYTES - 1);
        assert!(!watch.has_messages(at(20)));
        watch.express(at(5_000), HANDSHAKE + LEAST_BYTES - 1, MESSAGE);
        assert!(watch.has_messages(at(14_999)) && !watch.has_messages(at(15_000)));
        watch.express(at(20_000), 8 << 10, MESSAGE);
        assert!(watch.has_messages(at(20_000)));
    }

    /// 46 octets for each 2 MB are no message, and do not prolong the time after one.
    #[test]
    fn control_frames_beside_180_s_of_a_download_are_no_messages() {
        for mbps in [20, 40, 100] {
            for message in [false, true] {
                let mut watch = MessageWatch::default();
                if message {
                    watch.express(at(0), HANDSHAKE, MESSAGE);
                }
                let (mut moved, mut frames, mut had) = (0, 0, 0);
                for ms in 0..180_000 {
                    let bytes = mbps * 125;
                    watch.others(bytes);
                    moved += bytes;
                    if moved / 2_000_000 > frames {
                        frames += 1;
                        watch.express(at(ms), HANDSHAKE + frames * 46, 46);
                    }
                    had += u64::from(watch.has_messages(at(ms)));
                }
                assert!(frames > 200);
                assert_eq!(had, if message { 10_000 } else { 0 }, "{mbps} Mbit/s");
            }
        }
    }

    #[test]
    fn keystrokes_are_messages() {
        let mut watch = MessageWatch::default();
        for n in 0..200 {
            // At 40 Mbit/s.
            watch.others(150 * 5_000);
            watch.express(at(n * 150), HANDSHAKE + n * 80, 80);
        }
        assert!(watch.has_messages(at(30_000)));
    }

    #[test]
    fn more_than_a_quarter_of_the_others_is_bulk_until_it_is_less() {
        let mut watch = MessageWatch::default();
        for n in 0..8 {
            watch.express(at(n), HANDSHAKE, 4 << 10);
            assert_eq!(watch.has_messages(at(n)), n < 7, "{n}");
        }
        // However long it was, 256 KiB of others make up for it.
        watch.express(at(8), HANDSHAKE, 1 << 20);
        watch.others(128 << 10);
        assert!(!watch.has_messages(at(9)));
        watch.others(8);
        assert!(watch.has_messages(at(9)));
    }
}
