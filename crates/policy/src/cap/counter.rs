//! Bytes of a network interface, from readings of the kernel's counters.

use serde::{Deserialize, Serialize};

/// A reading of an interface's counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Name of the interface.
    pub interface: String,
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
    /// A counter starts at zero with each boot, and with each interface that is made anew under its
    /// name: all its bytes are counted then, since none of them is in an earlier reading. A counter
    /// that has gone down has started anew. The first reading ever counts nothing, nor does the
    /// first one of another interface: its bytes precede the cap, or its use for this link.
    pub fn handle_reading(&mut self, now: Reading) -> u64 {
        let since = match &self.last {
            None => 0,
            Some(last) if last.boot_id == now.boot_id && last.ifindex == now.ifindex => {
                now.bytes.checked_sub(last.bytes).unwrap_or(now.bytes)
            }
            Some(last) if last.interface == now.interface => now.bytes,
            Some(_) => 0,
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
            interface: "wwan0".to_owned(),
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

    #[test]
    fn bytes_of_an_interface_before_its_use_for_the_link_are_not_counted() {
        let mut counter = InterfaceCounter::default();
        counter.handle_reading(reading("a", 3, 700));
        let other = |boot_id, bytes| Reading {
            interface: "usb0".to_owned(),
            ..reading(boot_id, 9, bytes)
        };
        assert_eq!(counter.handle_reading(other("a", 5_000_000)), 0);
        assert_eq!(counter.handle_reading(other("a", 5_000_100)), 100);
        assert_eq!(counter.handle_reading(reading("a", 3, 900)), 0, "back");
        assert_eq!(counter.handle_reading(other("b", 6_000)), 0, "with a boot");
        // Only its name is another one.
        let renamed = reading("b", 9, 6_040);
        assert_eq!(counter.handle_reading(renamed), 40);
    }
}
