//! Radios that a configuration can name.

use std::time::Duration;

use crate::radio_cost::RadioCost;

/// A radio, by the name of its profile in docs/energy.md.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Radio {
    /// Name.
    pub name: &'static str,
    /// Figures of data that it receives.
    pub down: RadioCost,
    /// Figures of data that it sends.
    pub up: RadioCost,
}

/// Radios that a configuration can name. A test of the crate `radio` compares their figures with
/// those of its state machines.
#[rustfmt::skip]
pub const RADIOS: [Radio; 11] = [
    new("wifi-s4", (79_100, 0.009_840_04), (210_000, 0.060_69), [0.451, 0.654], [0.0, 0.0]),
    new("umts-2012", (582_100, 0.383_836_7), (8_719_395, 6.997_695), [0.817_88; 2], [122.12, 868.98]),
    new("lte-2012", (260_100, 0.314_903_1), (11_575_717, 12.450_30), [1.288_04; 2], [51.97, 438.39]),
    new("lte-2020-tmobile", (270_000, 0.108), (5_000_000, 0.33), [0.4; 2], [14.6, 80.2]),
    new("lte-2020-verizon", (270_000, 0.108), (10_000_000, 1.78), [0.4; 2], [14.6, 80.2]),
    new("5g-sa-2020", (270_000, 0.2025), (10_946_536, 6.3654), [0.75; 2], [13.5, 29.2]),
    new("5g-lb-2020", (270_000, 0.2025), (10_200_000, 2.5398), [0.75; 2], [13.5, 29.2]),
    new("5g-mmw-2020", (270_000, 0.8235), (10_200_000, 11.1384), [3.05; 2], [1.8, 9.4]),
    new("watch-wifi", (300_000, 0.072_75), (180_000, 0.021_816), [0.3785, 0.6691], [0.0; 2]),
    new("watch-bt", (300_000, 0.010_23), (5_000_000, 0.1705), [0.1172, 0.1115], [0.0; 2]),
    new("phone-bt", (300_000, 0.010_23), (5_000_000, 0.1705), [0.174, 0.2], [0.0; 2]),
];

/// Promotion and tail are times in us with energies in J. Powers in W and energies of a bit in nJ
/// are those of data that the radio receives and sends.
const fn new(
    name: &'static str,
    promotion: (u64, f64),
    tail: (u64, f64),
    active_watts: [f64; 2],
    bit_nanojoules: [f64; 2],
) -> Radio {
    let down = RadioCost {
        promotion: Duration::from_micros(promotion.0),
        promotion_joules: promotion.1,
        active_watts: active_watts[0],
        joules_per_bit: bit_nanojoules[0] * 1e-9,
        tail: Duration::from_micros(tail.0),
        tail_joules: tail.1,
    };
    let up = RadioCost {
        active_watts: active_watts[1],
        joules_per_bit: bit_nanojoules[1] * 1e-9,
        ..down
    };
    Radio { name, down, up }
}

/// The radio with this name.
pub fn radio(name: &str) -> Option<&'static Radio> {
    RADIOS.iter().find(|radio| radio.name == name)
}
