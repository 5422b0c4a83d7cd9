//! Bytes of a network interface, from readings of the kernel's counters.

use serde::{Deserialize, Serialize};

/// A reading of an interface's counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Identifier of the kernel's boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// Bytes received and sent since the interface exists.
    pub bytes: u64,
}

/// The last reading of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<Reading>,
}

impl InterfaceCounter {
    /// Takes a reading, and returns the bytes since the last one.
    ///
    /// A counter starts at zero with each boot, and with each interface that is made anew: all its
    /// bytes are counted then, since none of them is in an earlier reading. A counter that has gone
    /// down has started anew. The first reading ever counts nothing: its bytes precede the cap.
    pub fn handle_reading(&mut self, now: Reading) -> u64 {
        let since = match &self.last {
            None => 0,
            Some(last) if last.boot_id == now.boot_id && last.ifindex == now.ifindex => {
                now.bytes.checked_sub(last.bytes).unwrap_or(now.bytes)
            }
            Some(_) => now.bytes,
        };
        self.last = Some(now);
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(boot_id: &str, ifindex: u32, bytes: u64) -> Reading {
        Reading {
            boot_id: boot_id.to_owned(),
            ifindex,
            bytes,
        }
    }

    #[test]
    fn every_byte_is_counted_once_over_restarts_boots_and_new_interfaces() {
        let mut counter = InterfaceCounter::default();
        assert_eq!(
            counter.handle_reading(reading("a", 3, 700)),
            0,
            "before the cap"
        );
        assert_eq!(counter.handle_reading(reading("a", 3, 1_000)), 300);
        assert_eq!(counter.handle_reading(reading("a", 3, 1_000)), 0);
        // The daemon restarts: the last reading is kept.
        let text = toml::to_string(&counter).unwrap();
        let mut counter: InterfaceCounter = toml::from_str(&text).unwrap();
        assert_eq!(counter.handle_reading(reading("a", 3, 1_500)), 500);
        assert_eq!(counter.handle_reading(reading("a", 7, 40)), 40, "made anew");
        assert_eq!(
            counter.handle_reading(reading("b", 7, 60)),
            60,
            "another boot"
        );
        assert_eq!(
            counter.handle_reading(reading("b", 7, 10)),
            10,
            "reset by a driver"
        );
    }
}
