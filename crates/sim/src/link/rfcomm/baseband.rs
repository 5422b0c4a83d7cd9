//! Packets of Bluetooth's baseband at 2 Mbit/s (Bluetooth Core Specification, volume 2, part B,
//! table 6.10).
//!
//! The packet types of a link are not in the Wear OS paper, and follow from its rates: its link
//! carries 1 Mbit/s, more than basic packets can (723 kbit/s), and does not carry 1.5 Mbit/s, less
//! than packets of 3 Mbit/s can (2178 kbit/s).

use std::time::Duration;

/// Duration of a slot.
pub(super) const SLOT: Duration = Duration::from_micros(625);
/// Payload in bytes and slots of 2-DH1, 2-DH3 and 2-DH5.
const TYPES: [(u32, u32); 3] = [(54, 1), (367, 3), (679, 5)];
/// Slots of an end without data, which sends POLL or NULL.
const IDLE_SLOTS: u32 = 1;

/// Payload in bytes of the next packet of a frame of which `left` bytes are not sent, and its
/// slots.
pub(super) fn packet(left: u32) -> (u32, u32) {
    if left == 0 {
        return (0, IDLE_SLOTS);
    }
    let [.., longest] = TYPES;
    let fits = TYPES.into_iter().find(|(bytes, _)| left <= *bytes);
    let (bytes, slots) = fits.unwrap_or(longest);
    (left.min(bytes), slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_packet_type_that_fits_is_used() {
        for (left, want) in [
            (0, (0, 1)),
            (1, (1, 1)),
            (54, (54, 1)),
            (55, (55, 3)),
            (367, (367, 3)),
            (368, (368, 5)),
            (679, (679, 5)),
            (1000, (679, 5)),
        ] {
            assert_eq!(packet(left), want, "{left}");
        }
    }
}
