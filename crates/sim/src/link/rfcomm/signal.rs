//! Share of Bluetooth packets lost by strength of the signal.
//!
//! The table is **assumed**: the Wear OS paper names four strengths (section 3.3) and gives no
//! losses. It is nearly lossless at -60 dBm, and ends at -90 dBm, the sensitivity of common
//! controllers; the standard asks for -70 dBm.

/// Strength below which nothing passes, in dBm.
pub(super) const LIMIT_DBM: f64 = -90.0;
/// Strength in dBm, and share of packets lost; linear between them.
const LOST: [(f64, f64); 6] = [
    (LIMIT_DBM, 0.9),
    (-85.0, 0.5),
    (-80.0, 0.25),
    (-70.0, 0.08),
    (-60.0, 0.01),
    (-50.0, 0.0),
];

/// Share of packets lost at a strength in dBm.
pub fn packet_loss(dbm: f64) -> f64 {
    if dbm.is_nan() || dbm < LIMIT_DBM {
        return 1.0;
    }
    for pair in LOST.windows(2) {
        if let [(low, at_low), (high, at_high)] = *pair
            && dbm < high
        {
            return at_low + (at_high - at_low) * (dbm - low) / (high - low);
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_grow_as_the_signal_fades() {
        for (dbm, lost) in [
            (-30.0, 0.0),
            (-50.0, 0.0),
            (-60.0, 0.01),
            (-65.0, 0.045),
            (-80.0, 0.25),
            (-90.0, 0.9),
            (-90.1, 1.0),
            (f64::NAN, 1.0),
        ] {
            let got = packet_loss(dbm);
            assert!((got - lost).abs() < 1e-9, "{dbm}: {got}");
        }
        let all: Vec<f64> = (-95..-40).map(|dbm| packet_loss(f64::from(dbm))).collect();
        assert!(all.is_sorted_by(|weak, strong| weak >= strong));
    }
}
