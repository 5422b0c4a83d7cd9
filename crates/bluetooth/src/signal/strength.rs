//! Strength of a signal by the controller's answer to Read RSSI.

/// Greatest lower end of the golden receive power range, in dBm (Bluetooth Core Specification,
/// volume 2, part A, section 4.1.6): it is at most this, and at least 6 dB above the sensitivity.
const GOLDEN_DBM: i16 = -56;

/// Least distance from that range at which a usual receiver (-90 dBm) still hears something, in dB.
const LEAST_DB: i16 = -34;

/// Strength in dBm, or more than it is where the controller does not tell it.
///
/// Of a link of Bluetooth classic, Read RSSI tells the distance from the golden receive power range
/// in dB: 0 in the range, negative below it (volume 4, part E, section 7.5.4). Where the range
/// begins is the manufacturer's choice: the strength is at most the result. Controllers that tell
/// the strength itself, against the specification, are known by values that no distance has.
pub(super) fn dbm(rssi: i8) -> i16 {
    match i16::from(rssi) {
        strength if strength < LEAST_DB => strength,
        distance => (GOLDEN_DBM + distance).min(0),
    }
}

#[cfg(test)]
mod tests {
    use super::dbm;

    #[test]
    fn a_distance_from_the_golden_range_is_a_bound_and_a_strength_is_itself() {
        for (rssi, strength) in [
            (0, -56),
            (-10, -66),
            (-11, -67),
            (-34, -90),
            (-35, -35),
            (-50, -50),
            (-80, -80),
            (-128, -128),
            (20, -36),
            (127, 0),
        ] {
            assert_eq!(dbm(rssi), strength, "{rssi}");
        }
    }
}
